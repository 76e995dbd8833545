//! An exchange accepts only a region of its own backend.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use comm_factory::api::{CommError, FailureKind, SharedMemoryProvider, SharedRegion};
use comm_factory::local::LocalBackend;
use comm_factory::shm::{ShmBackend, ShmConfig};
use comm_factory::tcp::{TcpBackend, TcpConfig};
use comm_factory::{BackendKind, CommBackend, create_communicator_with};
use rstest::rstest;

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

#[rstest]
#[case::rank_0(0)]
#[case::rank_1(1)]
fn a_region_of_another_backend_is_refused_on_all_ranks(#[case] mistaken: usize) {
    comm_testing::watchdog();
    let name = format!("cobre-pairs-{}-{mistaken}", std::process::id());
    let rank_main = |rank: usize| {
        let mut config = ShmConfig::new(&name, rank, 2);
        // A rank that did not get the refusal would get another error after this time.
        config.timeout = Some(Duration::from_secs(20));
        let comm = CommBackend::from(ShmBackend::attach(config).unwrap());
        let mut own = comm.create_gathered_region::<u16>(1).unwrap();
        let local = CommBackend::from(LocalBackend);
        let mut foreign = local.create_gathered_region(1).unwrap();
        let region = if rank == mistaken {
            &mut foreign
        } else {
            &mut own
        };
        match comm.exchange(region) {
            Err(CommError::CollectiveFailed { kind, rank, .. }) => {
                assert_eq!((kind, rank), (FailureKind::Refused, Some(mistaken)));
            }
            other => panic!("{other:?}"),
        }
        own.as_mut_slice().fill(7);
        comm.exchange(&mut own).unwrap();
        assert_eq!(own.as_slice(), [7; 2]);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| rank_main(0));
        scope.spawn(|| rank_main(1));
    });
}
