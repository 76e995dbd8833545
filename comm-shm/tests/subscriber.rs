//! A tracing subscriber that panics harms only its own rank: the others are notified at once, and no rank is
//! left at another position of the sequence.
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use comm_api::{CommError, Communicator, FailureKind};
use comm_conformance::events::Each;
use comm_shm::ShmBackend;
use common::markers::{Folder, wait_for};
use common::{Outcome, launch, role, say};
use tracing::Event;

/// Panics at every event while this is set.
static ARMED: AtomicBool = AtomicBool::new(false);

fn panics(event: &Event<'_>) {
    assert!(!ARMED.load(Ordering::Relaxed), "{:?}", event.metadata());
}

fn blame(error: &CommError) -> (FailureKind, Option<usize>) {
    match error {
        CommError::CollectiveFailed { kind, rank, .. } => (*kind, *rank),
        other => panic!("{other}"),
    }
}

fn all_succeed(outcomes: Vec<Outcome>) {
    for outcome in outcomes {
        let done = outcome.status.success() && outcome.said == ["done"];
        assert!(done, "{}: {}", outcome.status, outcome.output);
    }
}

/// Rank 1 lives until the others have been notified, so that they do not see its exit.
#[test]
fn a_subscriber_that_panics_when_a_rank_attaches() {
    let test = "a_subscriber_that_panics_when_a_rank_attaches";
    if let Some(config) = role(test) {
        let (rank, folder) = (config.rank, Folder::of_driver());
        if rank == 1 {
            tracing::subscriber::set_global_default(Each(panics)).unwrap();
            ARMED.store(true, Ordering::Relaxed);
            let attached = catch_unwind(|| ShmBackend::attach(config));
            assert!(attached.is_err(), "{attached:?}");
            for rank in [0, 2] {
                wait_for(&folder.join(format!("told-{rank}")));
            }
            return say("done");
        }
        let comm = ShmBackend::attach(config).unwrap();
        let error = comm.barrier().unwrap_err();
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(1)), "{error}");
        std::fs::write(folder.join(format!("told-{rank}")), "").unwrap();
        return say("done");
    }
    let folder = Folder::new();
    all_succeed(launch(test, 3, &[folder.variable()]));
}

/// The error that it could not report is returned by every later call.
#[test]
fn a_subscriber_that_panics_when_a_call_fails() {
    let test = "a_subscriber_that_panics_when_a_call_fails";
    if let Some(config) = role(test) {
        let rank = config.rank;
        if rank == 1 {
            tracing::subscriber::set_global_default(Each(panics)).unwrap();
        }
        let comm = ShmBackend::attach(config).unwrap();
        comm.barrier().unwrap();
        if rank == 0 {
            return say("done");
        }
        ARMED.store(true, Ordering::Relaxed);
        let failed = catch_unwind(AssertUnwindSafe(|| comm.barrier()));
        assert_eq!(failed.is_err(), rank == 1, "{failed:?}");
        let error = comm.barrier().unwrap_err();
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(0)), "{error}");
        ARMED.store(false, Ordering::Relaxed);
        return say("done");
    }
    all_succeed(launch(test, 3, &[]));
}
