//! Models: every interleaving of two ranks, up to a bound on preemptions, of the production code.
//!
//! Each model passes with all rules, and fails when one of the rules it covers is broken: in the layer
//! `sync`, in the board of the models, or in what a rank believes to have seen. A lost wake-up shows as a
//! deadlock, since the sleepers of a model never wake by themselves. A slot that is read while it is written
//! shows as a conflicting access.
//!
//! ```text
//! cargo test -p comm-shm-models
//! ```

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comm_api::{CommError, FailureKind, Operation};
use comm_kit::wait::Policy;
use comm_kit::words::Lost;
use comm_kit::{Call, Transport};
use loom::cell::UnsafeCell;

use crate::protocol::board::Board;
use crate::protocol::cause::Cause;
use crate::protocol::given_up;
use crate::protocol::note;
use crate::protocol::note::{Note, note_index};
use crate::protocol::sync::{AtomicU64, Ordering, Rule, break_rule, broken};
use crate::protocol::wait::WaitPolicy;

use super::step::Sequence;
use super::step::lending::all_are_inside;

/// Sleeps at once and without a timeout.
const POLICY: WaitPolicy = WaitPolicy {
    awake: Policy::ASLEEP,
    look: Duration::ZERO,
    timeout: None,
};

/// Explores `model`: it passes with all rules, and fails when any of `rules` is broken.
fn explore(preemptions: usize, rules: &[Rule], model: impl Fn() + Sync + Send + Copy + 'static) {
    // Rules are global to the process, so models run one at a time.
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

/// Two slots per rank, as in the segment; loom detects conflicting accesses.
struct Slots([[UnsafeCell<u64>; 2]; 2]);

// SAFETY of the models themselves: loom checks every access.
#[expect(unsafe_code, reason = "loom checks every access")]
// SAFETY: the point of the model: loom reports conflicting accesses.
unsafe impl Sync for Slots {}

#[expect(unsafe_code, reason = "loom checks every access")]
impl Slots {
    fn new() -> Arc<Self> {
        let cell = || UnsafeCell::new(0);
        Arc::new(Self([[cell(), cell()], [cell(), cell()]]))
    }

    /// A call that carries `value` and checks what the other rank carried.
    fn exchange(&self, rank: &Sequence, value: u64) -> Result<(), CommError> {
        if broken(Rule::Presence) {
            let mut progress = rank.gate().enter(Operation::Barrier).unwrap();
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

/// Rank 0 refuses the second of three calls and continues; rank 1 may still be reading the first.
#[test]
fn a_refusal_protects_the_slots_before_it() {
    explore(2, &[Rule::Presence], || {
        two_with_slots(|rank, slots| {
            slots.exchange(rank, 1).unwrap();
            if rank.rank() == 0 {
                rank.gate().refuse(&CommError::invalid_communicator());
            } else {
                let refused = slots.exchange(rank, 2).unwrap_err();
                assert_eq!(blame(&refused), (FailureKind::Refused, Some(0)));
            }
            slots.exchange(rank, 3).unwrap();
        });
    });
}

/// Rank 0 refuses the call after a barrier, or leaves, and does nothing more; rank 1 may notice that while it
/// still waits in the barrier.
#[test]
fn what_concerns_the_next_call_is_not_forgotten() {
    explore(3, &[Rule::Lasting], || {
        two(|rank| {
            barrier(rank).unwrap();
            if rank.rank() == 0 {
                refuse(rank);
            } else {
                let refused = barrier(rank).unwrap_err();
                assert_eq!(blame(&refused), (FailureKind::Refused, Some(0)));
            }
        });
    });
    explore(3, &[Rule::Lasting], || {
        two(|rank| {
            barrier(rank).unwrap();
            if rank.rank() == 0 {
                rank.gate().transport().leave(Lost::Dropped);
            } else {
                let lost = barrier(rank).unwrap_err();
                assert_eq!(blame(&lost), (FailureKind::PeerLost, Some(0)));
            }
        });
    });
}

/// Returns the reason for a refusal.
fn reason(rank: usize) -> String {
    format!("no, says {rank}")
}

fn refuse(rank: &Sequence) {
    let mut pass = rank.gate().enter(Operation::Other("refuse")).unwrap();
    let transport = pass.transport();
    transport.refuse(&mut pass, &reason(rank.rank()));
}

/// A rank that sees a refusal sees its reason, too.
#[test]
fn a_refusal_is_seen_with_its_reason() {
    explore(3, &[Rule::Release], || {
        two(|rank| {
            if rank.rank() == 0 {
                refuse(rank);
            } else {
                let refused = barrier(rank).unwrap_err();
                assert_eq!(blame(&refused), (FailureKind::Refused, Some(0)));
                assert!(refused.to_string().contains(&reason(0)), "{refused}");
            }
        });
    });
}

/// Two ranks refuse the same call: the third names one of them, with its reason, and no other rank can be
/// named later.
#[test]
fn of_two_refusals_one_is_named_for_good() {
    explore(2, &[Rule::CompareExchange, Rule::Release], || {
        let board = Board::new(3);
        let threads = [0, 1].map(|rank| {
            let board = board.clone();
            loom::thread::spawn(move || {
                refuse(&Sequence::new(board, rank, POLICY));
            })
        });
        let reader = Sequence::new(board.clone(), 2, POLICY);
        let refused = barrier(&reader).unwrap_err();
        let (kind, named) = blame(&refused);
        assert_eq!(kind, FailureKind::Refused);
        let named = named.unwrap();
        assert!(refused.to_string().contains(&reason(named)), "{refused}");
        for thread in threads {
            thread.join().unwrap();
        }
        let word = &board.control().refusals[note_index(1)];
        assert_eq!(note::blamed(word, 1, 3), Some(named));
    });
}

/// A note may be overwritten, for a later call, while it is read: the reader then gets no reason, and never
/// half of one.
#[test]
fn a_note_is_read_whole_or_not_at_all() {
    explore(3, &[Rule::FenceBeforeText], || {
        let note = Arc::new(Note::default());
        let other = Arc::clone(&note);
        note::write(&note, 1, "aaaaaaaaaaaa");
        let thread = loom::thread::spawn(move || note::write(&other, 17, "bbbbbbbbbbbb"));
        let read = note::read(&note, 1);
        assert!(read.is_none_or(|text| text == "aaaaaaaaaaaa"));
        thread.join().unwrap();
    });
}

#[test]
fn the_first_cause_stands() {
    explore(3, &[Rule::CompareExchange], || {
        let board = Board::new(2);
        let fail = |board: Board, rank: usize| {
            let sequence = Sequence::new(board, rank, POLICY);
            let cause = Cause::lost(1 - rank, Lost::Ended);
            sequence.gate().transport().fail(cause)
        };
        let other = board.clone();
        let thread = loom::thread::spawn(move || fail(other, 1));
        let mine = fail(board, 0);
        assert_eq!(mine, thread.join().unwrap());
    });
}

/// The leader finds every released range once, even one that another rank releases at the same time.
#[test]
fn what_was_given_up_is_found_once() {
    const RANGES: usize = 3;
    explore(3, &[Rule::CompareExchange, Rule::Release], || {
        let top = Arc::new(AtomicU64::default());
        let below: Arc<[AtomicU64; RANGES]> = Arc::default();
        let give_up = |ranges: Range<usize>| {
            let (top, below) = (Arc::clone(&top), Arc::clone(&below));
            loom::thread::spawn(move || {
                for range in ranges {
                    given_up::add(&top, &below[range], range as u64 + 1);
                }
            })
        };
        let threads = [give_up(0..1), give_up(1..3)];
        let mut found = [0; RANGES];
        let mut collect = || {
            let mut next = given_up::take_all(&top);
            while next != given_up::NONE {
                let range = usize::try_from(next).unwrap() - 1;
                found[range] += 1;
                assert_eq!(found[range], 1);
                next = below[range].load(Ordering::Relaxed);
            }
        };
        collect();
        for thread in threads {
            thread.join().unwrap();
        }
        collect();
        assert_eq!(found, [1; RANGES]);
    });
}

/// A sleeper notices a rank that leaves instead of arriving.
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
                rank.gate().transport().leave(Lost::Dropped);
            } else {
                let lost = barrier(rank).unwrap_err();
                assert_eq!(blame(&lost), (FailureKind::PeerLost, Some(0)));
            }
        });
    });
}

/// A region: its owner writes it in one phase, the other rank reads it in the next, then again.
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

/// A buffer that rank 0 lends until it leaves the call early; then its caller writes the buffer.
fn lend(board: &Board, leave: impl FnOnce(&Sequence) + Send + 'static) {
    let buffer = Arc::new(AtomicU64::default());
    let (lent, other) = (Arc::clone(&buffer), board.clone());
    let owner = loom::thread::spawn(move || {
        leave(&Sequence::new(other, 0, POLICY));
        lent.store(1, Ordering::Relaxed);
    });
    let reader = Sequence::new(board.clone(), 1, POLICY);
    let turn = reader.begin(Call::barrier());
    // It may learn of the cause before it reads anything.
    if let Ok(turn) = turn {
        let found = buffer.load(Ordering::Relaxed);
        let counts = all_are_inside(turn.board());
        assert!(!counts || found == 0, "what was written later counts");
    }
    owner.join().unwrap();
}

/// A rank that leaves early has recorded why before its buffer is written again.
#[test]
fn what_was_read_counts_only_while_it_was_lent() {
    let rules = [Rule::FenceAfterRead, Rule::FenceBeforeRing];
    explore(3, &rules, || {
        lend(&Board::new(2), |owner| {
            owner.gate().transport().fail(Cause::lost(1, Lost::Ended));
        });
    });
}

/// A panic inside a call leaves no cause.
#[test]
fn what_was_read_from_a_rank_that_panicked_does_not_count() {
    let rules = [Rule::FenceAfterRead, Rule::FenceBeforeRing];
    explore(3, &rules, || {
        lend(&Board::new(2), |owner| {
            owner.gate().transport().leave(Lost::PanickedInside);
        });
    });
}

/// A rank that leaves because another one failed has written nothing itself.
#[test]
fn what_was_read_from_a_rank_that_heard_of_a_cause_does_not_count() {
    explore(2, &[Rule::FenceBeforeLeaving], || {
        let board = Board::new(3);
        let other = board.clone();
        let failing = loom::thread::spawn(move || {
            let sequence = Sequence::new(other, 2, POLICY);
            sequence
                .gate()
                .transport()
                .fail(Cause::lost(2, Lost::Ended));
        });
        lend(&board, |owner| {
            barrier(owner).unwrap_err();
        });
        failing.join().unwrap();
    });
}

fn blame(error: &CommError) -> (FailureKind, Option<usize>) {
    match error {
        CommError::CollectiveFailed { kind, rank, .. } => (*kind, *rank),
        other => panic!("{other}"),
    }
}
