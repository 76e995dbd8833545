//! An exchange takes the region of the backend that is asked, and of no other.
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

use comm_factory::api::{CommError, FailureKind, SharedMemoryProvider, SharedRegion};
use comm_factory::shm::{ShmBackend, ShmConfig};
use comm_factory::tcp::{TcpBackend, TcpConfig};
use comm_factory::{BackendKind, CommBackend, create_communicator_with};

/// Communicators of one rank each, of every kind that needs no launcher.
fn backends() -> Vec<CommBackend> {
    let name = format!("cobre-pairs-{}", std::process::id());
    let shm = ShmBackend::attach(ShmConfig::new(&name, 0, 1)).unwrap();
    let other = ShmBackend::attach(ShmConfig::new(format!("{name}-b"), 0, 1)).unwrap();
    let tcp = TcpBackend::connect(TcpConfig::new("127.0.0.1", 0, 1)).unwrap();
    let again = TcpBackend::connect(TcpConfig::new("127.0.0.1", 0, 1)).unwrap();
    let local = create_communicator_with(BackendKind::Local).unwrap();
    vec![shm.into(), other.into(), tcp.into(), again.into(), local]
}

#[test]
fn every_other_pair_is_refused_and_leaves_the_region_as_it_was() {
    let backends = backends();
    for (at, comm) in backends.iter().enumerate() {
        for (from, creator) in backends.iter().enumerate() {
            let mut region = creator.create_gathered_region::<u16>(3).unwrap();
            region.as_mut_slice().fill(4);
            let exchanged = comm.exchange(&mut region);
            if at == from {
                exchanged.unwrap();
            } else {
                let Err(CommError::CollectiveFailed {
                    kind,
                    rank,
                    message,
                    ..
                }) = exchanged
                else {
                    panic!("{} took a region of {}", comm.name(), creator.name());
                };
                assert_eq!((kind, rank), (FailureKind::Refused, Some(0)));
                assert!(message.contains("another communicator"), "{message}");
                creator.exchange(&mut region).unwrap();
            }
            assert_eq!(region.as_slice(), [4; 3]);
        }
    }
}
