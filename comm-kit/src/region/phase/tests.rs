use std::panic::{AssertUnwindSafe, catch_unwind};

use comm_api::{FailureKind, Operation};

use super::*;

fn panics(access: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(access)).expect_err("permitted");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .expect("a message")
}

#[test]
fn phases_alternate() {
    let mut phases = Phases::new();
    for _ in 0..2 {
        phases.expect_write();
        assert!(panics(|| phases.expect_read()).contains("call fence()"));
        let ended = phases.close();
        assert!(ended.was_write());
        phases.open(ended);
        phases.expect_read();
        assert!(panics(|| phases.expect_write()).contains("call fence()"));
        let ended = phases.close();
        assert!(!ended.was_write());
        phases.open(ended);
    }
}

#[test]
fn a_fence_that_does_not_open_breaks_the_handle_for_good() {
    let mut phases = Phases::new();
    drop(phases.close());
    assert!(panics(|| phases.expect_read()).contains("create another"));
    assert!(panics(|| phases.expect_write()).contains("create another"));
    let ended = phases.close();
    phases.open(ended);
    assert!(panics(|| phases.expect_read()).contains("create another"));
    let error = phases.fence_alone(3).unwrap_err();
    assert!(error.to_string().contains("create another"), "{error}");
}

const NUMBER: u64 = 77;

fn gathered() -> (CommId, Phases) {
    let communicator = CommId::next();
    let number = NUMBER;
    (
        communicator,
        Phases::gathered(Origin {
            communicator,
            number,
        }),
    )
}

/// Checks that a call was refused by rank 3, and that the error names the right one.
#[track_caller]
fn refused<R: std::fmt::Debug>(result: Result<R, CommError>, names: &str) {
    let Err(CommError::CollectiveFailed {
        kind,
        rank,
        message,
        ..
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!((kind, rank), (FailureKind::Refused, Some(3)));
    assert!(message.contains(names), "{message}");
}

#[test]
fn an_exchange_ends_the_write_phase_of_a_gathered_region_and_a_fence_the_read_phase() {
    let (id, mut phases) = gathered();
    for _ in 0..2 {
        phases.expect_write();
        assert!(panics(|| phases.expect_read()).contains("call exchange()"));
        refused(phases.check_fence(3), "call exchange()");
        refused(phases.fence_alone(3), "call exchange()");
        assert_eq!(phases.check_exchange(id, 3), Ok(NUMBER));
        assert_eq!(phases.exchange_alone(|| Ok(())), Ok(()));
        phases.expect_read();
        refused(phases.check_exchange(id, 3), "call its fence()");
        assert_eq!(phases.check_fence(3), Ok(()));
        assert_eq!(phases.fence_alone(3), Ok(()));
    }
}

#[test]
fn only_the_communicator_that_created_a_gathered_region_exchanges_it() {
    let (_, phases) = gathered();
    refused(
        phases.check_exchange(CommId::next(), 3),
        "another communicator",
    );
    refused(
        phases.check_exchange(CommId::LOCAL, 3),
        "another communicator",
    );
    refused(
        Phases::new().check_exchange(CommId::LOCAL, 3),
        "create_gathered_region()",
    );
}

#[test]
fn a_refused_exchange_leaves_the_phase_and_a_fatal_one_breaks_the_handle() {
    let (id, mut phases) = gathered();
    let refusal = words::refused(Operation::Exchange, 1, None);
    assert_eq!(phases.exchange_alone(|| Err(refusal.clone())), Err(refusal));
    phases.expect_write();
    assert_eq!(phases.check_exchange(id, 3), Ok(NUMBER));

    let lost = CommError::failed("exchange", FailureKind::PeerLost, Some(1), "gone");
    assert_eq!(
        phases.exchange_alone(|| Err(lost.clone())),
        Err(lost.clone())
    );
    assert!(panics(|| phases.expect_write()).contains("create another"));
    assert!(panics(|| phases.expect_read()).contains("create another"));
    assert_eq!(phases.check_exchange(id, 3), Err(lost.clone()));
    assert_eq!(phases.check_fence(3), Err(lost.again("fence")));
    assert_eq!(phases.fence_alone(3), Err(lost.again("fence")));
}

#[test]
fn a_panic_inside_an_exchange_breaks_the_handle() {
    let (id, mut phases) = gathered();
    panics(|| drop(phases.exchange_alone(|| panic!("a hook"))));
    assert!(panics(|| phases.expect_write()).contains("create another"));
    refused(phases.check_exchange(id, 3), "create another");
}
