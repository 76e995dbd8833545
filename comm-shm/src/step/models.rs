//! Models: every interleaving of two ranks, up to a bound on preemptions, of the code that ships.
//!
//! Each model holds with all rules, and fails when a rule it is about is broken: in the layer
//! `sync`, in the board of the models, or in what a rank believes it has seen. A lost wake-up shows
//! as a deadlock, since a model's sleepers never wake by themselves; a slot that is read while it
//! is written shows as an access that conflicts.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p comm-shm --lib models
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comm_api::{CommError, FailureKind};
use comm_kit::Call;
use comm_kit::words::Lost;
use loom::cell::UnsafeCell;

use crate::board::Board;
use crate::cause::Cause;
use crate::sync::{Rule, break_rule, broken};
use crate::wait::WaitPolicy;

use super::Sequence;

/// Sleeps at once and for ever.
const POLICY: WaitPolicy = WaitPolicy {
    eager_looks: 0,
    longest_spin: Duration::ZERO,
    yield_time: Duration::ZERO,
    look: Duration::ZERO,
    timeout: None,
};

/// Explores `model`: it holds with all rules and fails when any of `rules` is broken.
fn explore(preemptions: usize, rules: &[Rule], model: impl Fn() + Sync + Send + Copy + 'static) {
    // Rules belong to the whole process, so models run one by one.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let check = || {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 10_000;
        builder.check(model);
    };
    break_rule(None);
    check();
    for &rule in rules {
        break_rule(Some(rule));
        let outcome = catch_unwind(AssertUnwindSafe(check));
        break_rule(None);
        assert!(outcome.is_err(), "nothing was noticed without {rule:?}");
    }
}

/// Runs two ranks on one board.
fn two(body: impl Fn(&Sequence) + Send + Sync + Copy + 'static) {
    let board = Board::new(2);
    let other = board.clone();
    let thread = loom::thread::spawn(move || body(&Sequence::new(other, 1, POLICY)));
    body(&Sequence::new(board, 0, POLICY));
    thread.join().unwrap();
}

fn barrier(rank: &Sequence) -> Result<(), CommError> {
    let mut turn = rank.begin(Call::barrier())?;
    turn.publish();
    turn.meet()
}

/// Two slots per rank, as the segment has them; loom notices conflicting accesses.
struct Slots([[UnsafeCell<u64>; 2]; 2]);

// SAFETY of the models themselves: loom checks every access.
#[expect(unsafe_code, reason = "loom checks every access")]
// SAFETY: the point of the model: loom reports an access that another one conflicts with.
unsafe impl Sync for Slots {}

#[expect(unsafe_code, reason = "loom checks every access")]
impl Slots {
    fn new() -> Arc<Self> {
        let cell = || UnsafeCell::new(0);
        Arc::new(Self([[cell(), cell()], [cell(), cell()]]))
    }

    /// One call that carries `value` and checks what the other rank carried.
    fn exchange(&self, rank: &Sequence, value: u64) -> Result<(), CommError> {
        if broken(Rule::Presence) {
            let mut progress = rank.gate.enter("barrier").unwrap();
            progress.seen = progress.step;
        }
        let mut turn = rank.begin(Call::barrier())?;
        let parity = usize::from(turn.step() % 2 == 1);
        // SAFETY: loom checks it.
        self.0[rank.rank()][parity].with_mut(|slot| unsafe { *slot = value });
        turn.publish();
        turn.meet()?;
        // SAFETY: loom checks it.
        let found = self.0[1 - rank.rank()][parity].with(|slot| unsafe { *slot });
        assert_eq!(found, value);
        Ok(())
    }
}

fn two_with_slots(body: impl Fn(&Sequence, &Slots) + Send + Sync + Copy + 'static) {
    let slots = Slots::new();
    let board = Board::new(2);
    let (other_slots, other) = (Arc::clone(&slots), board.clone());
    let thread = loom::thread::spawn(move || {
        body(&Sequence::new(other, 1, POLICY), &other_slots);
    });
    body(&Sequence::new(board, 0, POLICY), &slots);
    thread.join().unwrap();
}

#[test]
fn no_wake_up_is_lost() {
    let rules = [
        Rule::FenceBeforeLook,
        Rule::FenceBeforeRing,
        Rule::LookAgain,
    ];
    explore(3, &rules, || two(|rank| barrier(rank).unwrap()));
}

#[test]
fn a_payload_is_seen_whole() {
    explore(3, &[Rule::Release], || {
        two_with_slots(|rank, slots| slots.exchange(rank, 7).unwrap());
    });
}

#[test]
fn slots_are_reused_by_parity() {
    explore(2, &[Rule::TwoLines], || {
        two_with_slots(|rank, slots| {
            for value in 1..=3 {
                slots.exchange(rank, value).unwrap();
            }
        });
    });
}

/// Rank 0 refuses the second of three calls and goes on; rank 1 may still read the first.
#[test]
fn a_refusal_protects_the_slots_before_it() {
    explore(2, &[Rule::Presence], || {
        two_with_slots(|rank, slots| {
            slots.exchange(rank, 1).unwrap();
            if rank.rank() == 0 {
                rank.gate.refuse(&CommError::InvalidCommunicator);
            } else {
                let refused = slots.exchange(rank, 2).unwrap_err();
                assert_eq!(blame(&refused), (FailureKind::Refused, Some(0)));
            }
            slots.exchange(rank, 3).unwrap();
        });
    });
}

#[test]
fn the_first_cause_stands() {
    explore(3, &[Rule::FirstCause], || {
        let board = Board::new(2);
        let fail = |board: Board, rank: usize| {
            let sequence = Sequence::new(board, rank, POLICY);
            let cause = Cause::lost(1 - rank, Lost::Ended);
            sequence.gate.transport().fail(cause)
        };
        let other = board.clone();
        let thread = loom::thread::spawn(move || fail(other, 1));
        let mine = fail(board, 0);
        assert_eq!(mine, thread.join().unwrap());
    });
}

/// A sleeper hears of a rank that leaves instead of coming.
#[test]
fn a_departure_wakes() {
    let rules = [
        Rule::FenceBeforeLook,
        Rule::FenceBeforeRing,
        Rule::LookAgain,
    ];
    explore(3, &rules, || {
        two(|rank| {
            if rank.rank() == 0 {
                rank.gate.transport().leave(Lost::Dropped);
            } else {
                let lost = barrier(rank).unwrap_err();
                assert_eq!(blame(&lost), (FailureKind::PeerLost, Some(0)));
            }
        });
    });
}

/// A region: written by its owner in one phase, read by the other in the next, then again.
#[test]
fn a_fence_separates_phases() {
    #[expect(unsafe_code, reason = "loom checks every access")]
    fn phases(rank: &Sequence, table: &Slots) {
        let cell = &table.0[0][0];
        for round in 1..=2 {
            if rank.rank() == 0 {
                // SAFETY: loom checks it.
                cell.with_mut(|value| unsafe { *value = round });
            }
            barrier(rank).unwrap();
            // SAFETY: loom checks it.
            assert_eq!(cell.with(|value| unsafe { *value }), round);
            barrier(rank).unwrap();
        }
    }
    explore(2, &[Rule::Release], || two_with_slots(phases));
}

fn blame(error: &CommError) -> (FailureKind, Option<usize>) {
    match error {
        CommError::CollectiveFailed { kind, rank, .. } => (*kind, *rank),
        other => panic!("{other}"),
    }
}
