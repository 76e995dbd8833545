//! The topology is a collective, and its errors name it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use comm_factory::api::{CommError, Communicator, FailureKind, Operation};
use comm_factory::shm::{ShmBackend, ShmConfig};
use comm_factory::{CommBackend, Topology};

const TOPOLOGY: Operation = Operation::Other("topology");

/// Runs `body` on both ranks of a world of threads.
fn two<R: Send>(name: &str, body: impl Fn(CommBackend) -> R + Sync) -> [R; 2] {
    let name = format!("cobre-topology-{name}-{}", std::process::id());
    let (name, body) = (&name, &body);
    std::thread::scope(|scope| {
        let ranks = [0, 1].map(|rank| {
            scope.spawn(move || {
                body(
                    ShmBackend::attach(ShmConfig::new(name, rank, 2))
                        .unwrap()
                        .into(),
                )
            })
        });
        ranks.map(|rank| rank.join().unwrap())
    })
}

/// Returns the method and the kind of a failed call.
fn failure<T: std::fmt::Debug>(result: &Result<T, CommError>) -> (Operation, FailureKind) {
    let Err(CommError::CollectiveFailed {
        operation, kind, ..
    }) = result
    else {
        panic!("{result:#?}");
    };
    (*operation, *kind)
}

#[test]
fn all_ranks_get_the_same_hosts() {
    let [zero, one] = two("same", |comm| comm.topology().unwrap());
    assert_eq!((&zero.hosts, zero.size), (&one.hosts, 2));
}

#[test]
fn a_rank_that_asks_alone_learns_which_call_failed() {
    let alone = |comm: CommBackend| (comm.rank() == 0).then(|| comm.topology());
    let [asked, left] = two("alone", alone);
    assert!(left.is_none());
    let asked: Result<Topology, CommError> = asked.unwrap();
    assert_eq!(failure(&asked), (TOPOLOGY, FailureKind::PeerLost));
}

#[test]
fn a_rank_that_calls_something_else_learns_which_call_failed() {
    let other = |comm: CommBackend| match comm.rank() {
        0 => failure(&comm.topology()),
        _ => failure(&comm.barrier()),
    };
    let mismatch = FailureKind::Mismatch;
    let wanted = [(TOPOLOGY, mismatch), (Operation::Barrier, mismatch)];
    assert_eq!(two("other", other), wanted);
}
