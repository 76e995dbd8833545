//! An error says the file and the line of the call, on every way to a communicator of every backend.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use comm_factory::CommBackend;
use comm_factory::api::{CommError, Communicator, CommunicatorExt, FailureKind, Place, ReduceOp};
use comm_factory::local::LocalBackend;
use comm_factory::shm::{ShmBackend, ShmConfig};
use comm_factory::tcp::{TcpBackend, TcpConfig};

/// Makes a call; returns its outcome, and the line it stands on.
macro_rules! at {
    ($call:expr) => {
        (line!(), $call.map(drop))
    };
}

#[track_caller]
fn says((line, result): (u32, Result<(), CommError>)) -> CommError {
    let error = result.unwrap_err();
    let here = Place::new(file!(), line);
    assert_eq!(error.place(), Some(here), "{error}");
    assert!(error.to_string().ends_with(&format!(" (at {here})")));
    error
}

/// Refuses its arguments in generic code: the place is here, one line below.
fn generic<C: Communicator>(comm: &C) -> (u32, Result<(), CommError>) {
    at!(comm.broadcast(&mut [1], comm.size()))
}

/// A wrapper that passes on what it has to, as a program writes one, without a word of places.
#[derive(Debug)]
struct Wrapper(CommBackend);

impl Communicator for Wrapper {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.0.barrier()
    }

    fn abort(&self, code: i32) -> ! {
        self.0.abort(code)
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: comm_factory::api::Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        self.0.allgatherv_bytes(send, recv, from, elem_size)
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: comm_factory::api::ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.0.allreduce_bytes(send, recv, scalar, op)
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        self.0.broadcast_bytes(buf, elem_size, root)
    }

    fn refuse(&self, operation: comm_factory::api::Operation, error: &CommError) {
        self.0.refuse(operation, error);
    }
}

/// Takes every way, refused on all ranks alike.
fn refusals(comm: Wrapper) -> Arc<dyn Communicator> {
    let size = comm.size();
    let mut buf = [0; 2];
    says(generic(&comm));
    says(generic(&comm.0));
    says(at!(comm.0.broadcast(&mut buf, size)));
    says(at!((&&comm.0).broadcast(&mut buf, size)));
    says(at!(comm.broadcast(&mut buf, size)));
    let and = ReduceOp::BitwiseAnd;
    says(at!(comm.allreduce_in_place(&mut [1.0], and)));
    says(at!(comm.broadcast_value(1, size)));
    let boxed: Box<dyn Communicator> = Box::new(comm);
    says(generic(&boxed));
    says(at!(boxed.broadcast(&mut buf, size)));
    says(at!(boxed.broadcast_bytes(&mut [0; 8], 8, size)));
    let shared: Arc<dyn Communicator> = Arc::from(boxed);
    says(generic(&shared));
    says(at!(shared.broadcast(&mut buf, size)));
    let object: &dyn Communicator = &*shared;
    says(at!((&object).broadcast(&mut buf, size)));
    says(at!(object.broadcast_bytes(&mut [0; 8], 8, size)));
    let in_a_closure = || at!(object.broadcast_bytes(&mut [0; 8], 8, size));
    says(in_a_closure());
    shared
}

/// Takes every way, and fails for good: on two ranks.
fn failure(comm: &dyn Communicator) {
    let first = match comm.rank() {
        0 => at!(comm.barrier()),
        _ => at!((&comm).allreduce(&[1], &mut [0], ReduceOp::Sum)),
    };
    let error = says(first);
    assert_eq!(error.as_str(), FailureKind::Mismatch.as_str(), "{error}");
    let later = comm.barrier().unwrap_err();
    assert_eq!(later.place(), error.place(), "the first place stays");
}

#[test]
fn local() {
    refusals(Wrapper(LocalBackend.into()));
    says(generic(&LocalBackend));
    says(at!(LocalBackend.allgatherv(&[1], &mut [0], &[], &[])));
    says(at!(LocalBackend.allreduce(&[1], &mut [], ReduceOp::Sum)));
}

/// Runs `rank_main` as both ranks of a world.
fn world(rank_main: impl Fn(usize) -> CommBackend + Sync) {
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let rank_main = &rank_main;
            scope.spawn(move || {
                let shared = refusals(Wrapper(rank_main(rank)));
                failure(&*shared);
            });
        }
    });
}

#[test]
fn shm() {
    let name = format!("cobre-places-{}", std::process::id());
    world(|rank| {
        let config = ShmConfig::new(&name, rank, 2);
        ShmBackend::attach(config).unwrap().into()
    });
}

#[test]
fn tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    world(|rank| {
        let mut config = TcpConfig::new("127.0.0.1", rank, 2);
        config.port = port;
        config.timeout = Some(Duration::from_secs(30));
        let comm = match rank {
            0 => TcpBackend::connect_with_listener(config, listener.try_clone().unwrap()),
            _ => TcpBackend::connect(config),
        };
        comm.unwrap().into()
    });
}

/// What is passed as a function has no caller with a line: its own is shown.
#[test]
fn a_method_as_a_function_names_its_own_line() {
    let comm = LocalBackend;
    let broadcast: fn(&LocalBackend, &mut [u8], usize) -> Result<(), CommError> =
        LocalBackend::broadcast;
    let error = broadcast(&comm, &mut [1], 1).unwrap_err();
    assert_ne!(error.place().unwrap().file(), file!(), "{error}");
}
