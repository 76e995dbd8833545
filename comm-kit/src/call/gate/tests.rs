use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[derive(Debug, Default)]
struct Links {
    panics: AtomicUsize,
}

impl Transport for Links {
    type State = Vec<String>;

    fn refuse(&self, said: &mut Vec<String>, reason: &str) {
        said.push(reason.to_owned());
    }

    fn panicked(&self, said: &mut Vec<String>) {
        said.push("panicked".to_owned());
        self.panics.fetch_add(1, Ordering::Relaxed);
    }
}

fn gate() -> Gate<Links> {
    Gate::new(3, Links::default(), Vec::new())
}

#[test]
fn one_call_at_a_time() {
    let gate = gate();
    let call = gate.enter(Operation::Barrier).unwrap();
    let error = gate.enter(Operation::Allreduce).unwrap_err();
    assert_eq!(error, words::busy(Operation::Allreduce, 3));
    drop(call);
    assert!(gate.enter(Operation::Allreduce).is_ok());
}

#[test]
fn a_refusal_is_announced_once_and_not_from_inside_a_call_or_after_the_end() {
    let gate = gate();
    let wrong = CommError::invalid_root(Operation::Broadcast, 9, 4);
    assert_eq!(gate.checked::<()>(Err(wrong.clone())), Err(wrong.clone()));
    assert_eq!(gate.checked(Ok(())), Ok(()));
    let mut call = gate.enter(Operation::Barrier).unwrap();
    gate.refuse(&wrong);
    assert_eq!(*call, [words::reason(&wrong)]);
    call.fail(CommError::failed(
        "barrier",
        FailureKind::TimedOut,
        Some(1),
        "",
    ));
    drop(call);
    gate.refuse(&wrong);
    let mut gate = gate;
    assert_eq!(gate.leave().expect("no fork").1.len(), 1);
}

#[test]
fn only_a_fatal_error_stays() {
    let gate = gate();
    let mild = CommError::failed("barrier", FailureKind::Refused, Some(1), "");
    gate.enter(Operation::Barrier).unwrap().fail(mild);
    let fatal = CommError::failed("barrier", FailureKind::Mismatch, Some(2), "");
    gate.enter(Operation::Barrier).unwrap().fail(fatal.clone());
    assert_eq!(
        gate.enter(Operation::Fence).unwrap_err(),
        fatal.again("fence")
    );
}

#[test]
fn the_first_fatal_error_of_a_call_stays() {
    let gate = gate();
    let first = CommError::failed("barrier", FailureKind::PeerLost, Some(1), "");
    let second = CommError::failed("barrier", FailureKind::Io, None, "");
    let mut call = gate.enter(Operation::Barrier).unwrap();
    call.fail(first.clone());
    assert_eq!(call.fail(second.clone()), second);
    drop(call);
    assert_eq!(gate.enter(Operation::Barrier).unwrap_err(), first);
}

#[test]
fn a_panic_inside_a_call_is_announced_and_final() {
    let mut gate = gate();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _call = gate.enter(Operation::Barrier).unwrap();
        panic!("inside");
    }));
    assert!(panicked.is_err());
    let error = gate.enter(Operation::Allreduce).unwrap_err();
    let text = error.to_string();
    assert!(error.is_fatal());
    assert!(
        text.starts_with("allreduce: peer lost, rank 3: it panicked inside a call"),
        "{text}"
    );
    assert_eq!(gate.transport().panics.load(Ordering::Relaxed), 1);
    assert_eq!(gate.leave().expect("no fork").1, &["panicked"]);
}

#[test]
fn a_panic_after_a_failure_changes_nothing() {
    let gate = gate();
    let fatal = CommError::failed("barrier", FailureKind::PeerLost, Some(0), "");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut call = gate.enter(Operation::Barrier).unwrap();
        call.fail(fatal.clone());
        panic!("inside");
    }));
    assert!(panicked.is_err());
    assert_eq!(gate.enter(Operation::Barrier).unwrap_err(), fatal);
    assert_eq!(gate.transport().panics.load(Ordering::Relaxed), 0);
}

/// A guard that makes a call in its drop, as a region's does.
struct Last<'a>(&'a Gate<Links>);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        drop(self.0.enter(Operation::Barrier).unwrap());
    }
}

#[test]
fn a_call_while_another_panic_unwinds_is_a_call() {
    let gate = gate();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _last = Last(&gate);
        panic!("outside");
    }));
    assert!(panicked.is_err());
    assert!(gate.enter(Operation::Barrier).is_ok());
    assert_eq!(gate.transport().panics.load(Ordering::Relaxed), 0);
}

#[test]
fn no_abort_looks_like_success() {
    assert_eq!(
        [0, 256, -256, 1, 7, 257, -1].map(exit_code),
        [1, 1, 1, 1, 7, 257, -1]
    );
}
