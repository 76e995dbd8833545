//! Calls that the embedding language ends, through its hook or a panic of the hook. The hook belongs to the
//! whole process, so these tests are a separate program.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind};
use comm_kit::interrupt;
use comm_kit::words::{self, Lost};
use comm_tcp::TcpBackend;
use common::world;

thread_local! {
    /// What the hook does on this thread.
    static HOOK: Cell<fn() -> bool> = const { Cell::new(|| false) };
}

fn install() {
    interrupt::set_hook(|| HOOK.get()());
}

/// Sets the hook of rank 1, whose call rank 2 joins only after it has failed. Returns what each rank gets in
/// that call and afterwards. No rank leaves before all have their errors.
fn failures(hook: fn() -> bool) -> Vec<(CommError, CommError)> {
    install();
    let (others_failed, all_failed) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    world(
        3,
        |_| (),
        move |comm| {
            if comm.rank() == 1 {
                HOOK.set(hook);
            }
            let call = || match catch_unwind(AssertUnwindSafe(|| comm.barrier())) {
                Ok(result) => result.unwrap_err(),
                Err(_) => comm.barrier().unwrap_err(),
            };
            let began = Instant::now();
            let early = (comm.rank() != 2).then(call);
            let took = began.elapsed();
            assert!(took < Duration::from_secs(10), "failed after {took:?}");
            others_failed.wait();
            let errors = (early.unwrap_or_else(call), call());
            all_failed.wait();
            errors
        },
    )
}

fn parts(error: CommError) -> (FailureKind, Option<usize>, String) {
    match error {
        CommError::CollectiveFailed {
            kind,
            rank,
            message,
            ..
        } => (kind, rank, message),
        other => panic!("{other}"),
    }
}

#[test]
fn an_interruption_aborts_the_call_of_all_ranks() {
    for (first, again) in failures(|| true) {
        let expected = (FailureKind::Aborted, Some(1), words::interrupted());
        assert_eq!(parts(first), expected);
        assert_eq!(parts(again), expected);
    }
}

#[test]
fn a_panic_inside_a_call_is_a_loss_to_all_although_the_communicator_lives_on() {
    for (rank, (first, again)) in failures(|| panic!("in the hook")).into_iter().enumerate() {
        let place = (rank != 1).then_some("127.0.0.1");
        let message = words::lost(Lost::PanickedInside, place);
        let expected = (FailureKind::PeerLost, Some(1), message);
        assert_eq!(parts(first), expected, "on rank {rank}");
        assert_eq!(parts(again), expected, "on rank {rank}");
    }
}

#[test]
fn an_interruption_ends_a_start_that_waits_for_ranks_at_once() {
    install();
    for rank in 0..2 {
        // Rank 0 waits for rank 1; rank 1 waits at the port of a rank 0 that has left again.
        let (listener, port) = common::listener();
        let mut config = common::config(rank, 3, port);
        config.connect_timeout = Duration::from_mins(1);
        let began = Instant::now();
        let start = std::thread::spawn(move || {
            HOOK.set(|| true);
            if rank == 0 {
                TcpBackend::connect_with_listener(config, listener)
            } else {
                drop(listener);
                TcpBackend::connect(config)
            }
        });
        let message = start.join().unwrap().unwrap_err().message;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "ended after {took:?}");
        let expected = format!("rank {rank} was interrupted while it waited for the others");
        assert!(message.starts_with(&expected), "{message}");
    }
}
