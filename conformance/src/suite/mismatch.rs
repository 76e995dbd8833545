//! Mismatch: C10, and the errors of a communicator afterwards, C13.

mod large_elements;

use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind, ReduceOp, Scope, SharedMemoryProvider};

use super::{fails, spare, still_works, words};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C10, C11, C12, C13};
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    let mut cases: Vec<Case> = Odd::ALL
        .into_iter()
        .map(|odd| {
            Case::new(
                format!("mismatch::{}", odd.name()),
                &[C10, C13],
                move |run| all_are_told::<S>(run, odd),
            )
            .at_least(2)
        })
        .collect();
    cases.extend([
        Case::new("mismatch::a_refusal_wins", &[C10, C11], |run| {
            a_refusal_wins(run, &run.open::<S>()?)
        })
        .at_least(3),
        Case::new("mismatch::seen_at_the_timeout", &[C10, C12], |run| {
            seen_at_the_timeout::<S>(run)
        })
        .at_least(3),
        Case::new(
            "mismatch::is_the_answer_to_every_later_call",
            &[C13],
            |run| {
                is_the_answer_to_every_later_call(run, &run.open::<S>()?);
                Ok(())
            },
        )
        .at_least(2),
    ]);
    cases.extend(large_elements::cases::<S>());
    cases
}

/// What one rank does differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    Collective,
    Element,
    Type,
    GatheredType,
    Scalar,
    Operation,
    Root,
    BroadcastLength,
    ReduceLength,
    Counts,
    LargeLength,
}

impl Odd {
    const ALL: [Self; 11] = [
        Self::Collective,
        Self::Element,
        Self::Type,
        Self::GatheredType,
        Self::Scalar,
        Self::Operation,
        Self::Root,
        Self::BroadcastLength,
        Self::ReduceLength,
        Self::Counts,
        Self::LargeLength,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Collective => "another_collective",
            Self::Element => "another_element_size",
            Self::Type => "another_element_type",
            Self::GatheredType => "another_gathered_type",
            Self::Scalar => "another_scalar",
            Self::Operation => "another_operation",
            Self::Root => "another_root",
            Self::BroadcastLength => "another_broadcast_length",
            Self::ReduceLength => "another_allreduce_length",
            Self::Counts => "other_counts",
            Self::LargeLength => "large_and_small",
        }
    }

    /// Describes the call of a rank, as messages show it.
    fn text(self, odd: bool) -> &'static str {
        match (self, odd) {
            (Self::Collective, false) => "barrier",
            (Self::Scalar, true) => "allreduce(Sum of 2 i64)",
            (Self::Operation, true) => "allreduce(Max of 2 u64)",
            (Self::ReduceLength, true) => "allreduce(Sum of 1 u64)",
            (Self::Collective, true)
            | (Self::Scalar | Self::Operation | Self::ReduceLength, false) => {
                "allreduce(Sum of 2 u64)"
            }
            (Self::Element, false) => "broadcast(2 elements of 8 bytes, u64, from root 0)",
            (Self::Element, true) => "broadcast(4 elements of 4 bytes, u32, from root 0)",
            (Self::Type, false) => "broadcast(3 elements of 8 bytes, f64, from root 0)",
            (Self::Type, true) | (Self::LargeLength, false) => {
                "broadcast(3 elements of 8 bytes, u64, from root 0)"
            }
            (Self::GatheredType, false) => "allgatherv(1 elements of 4 bytes, f32, from each rank)",
            (Self::GatheredType, true) => "allgatherv(1 elements of 4 bytes, i32, from each rank)",
            (Self::Root | Self::BroadcastLength, false) => {
                "broadcast(4 elements of 1 byte, u8, from root 0)"
            }
            (Self::Root, true) => "broadcast(4 elements of 1 byte, u8, from root 1)",
            (Self::BroadcastLength, true) => "broadcast(5 elements of 1 byte, u8, from root 0)",
            (Self::LargeLength, true) => "broadcast(600000 elements of 8 bytes, u64, from root 0)",
            (Self::Counts, false) => "allgatherv(1 elements of 4 bytes, u32, from each rank)",
            // Counts that are not all equal are sent as a hash: only the fact that they differ is known.
            (Self::Counts, true) => "allgatherv(elements of 4 bytes, u32)",
        }
    }

    fn call<C: Communicator>(self, comm: &C, odd: bool) -> Result<(), CommError> {
        let size = comm.size();
        let base = || comm.allreduce(&[1_u64, 2], &mut [0; 2], ReduceOp::Sum);
        match (self, odd) {
            (Self::Collective, false) => comm.barrier(),
            (Self::Scalar, true) => comm.allreduce(&[1_i64, 2], &mut [0; 2], ReduceOp::Sum),
            (Self::Operation, true) => comm.allreduce(&[1_u64, 2], &mut [0; 2], ReduceOp::Max),
            (Self::ReduceLength, true) => comm.allreduce(&[1_u64], &mut [0], ReduceOp::Sum),
            (Self::Collective | Self::Scalar | Self::Operation | Self::ReduceLength, _) => base(),
            (Self::Element, true) => comm.broadcast(&mut [0_u32; 4], 0),
            (Self::Element, false) => comm.broadcast(&mut [0_u64; 2], 0),
            (Self::Type, false) => comm.broadcast(&mut [0_f64; 3], 0),
            (Self::Type, true) | (Self::LargeLength, false) => comm.broadcast(&mut [0_u64; 3], 0),
            (Self::GatheredType, _) => {
                let (ones, displs) = (vec![1; size], (0..size).collect::<Vec<_>>());
                if odd {
                    comm.allgatherv(&[1_i32], &mut vec![0; size], &ones, &displs)
                } else {
                    comm.allgatherv(&[1_f32], &mut vec![0.0; size], &ones, &displs)
                }
            }
            (Self::Root, _) => comm.broadcast(&mut [0_u8; 4], usize::from(odd)),
            (Self::BroadcastLength, _) => comm.broadcast(&mut [0_u8; 5][..4 + usize::from(odd)], 0),
            (Self::LargeLength, true) => comm.broadcast(&mut vec![0_u64; 600_000], 0),
            (Self::Counts, _) => {
                let counts = counts(comm.rank(), size, odd);
                let displs: Vec<usize> = (0..size).map(|rank| 2 * rank).collect();
                comm.allgatherv(&[1_u32], &mut vec![0; 2 * size], &counts, &displs)
            }
        }
    }
}

/// Returns the counts of `rank`: the odd one expects more from a rank other than itself.
fn counts(rank: usize, size: usize, odd: bool) -> Vec<usize> {
    let mut counts = vec![1; size];
    counts[(rank + 1) % size] += usize::from(odd);
    counts
}

/// Every rank gets the same answer; the lowest rank that differs from rank 0 is named.
fn all_are_told<S: Subject>(run: &Run, odd: Odd) -> Verdict {
    let comm = run.open::<S>()?;
    for (round, who) in [run.size() - 1, 0, run.size() / 2].into_iter().enumerate() {
        let spare = spare::<S>(run, &comm, &format!("spare-{round}"))?;
        spare.barrier()?;
        run.at(format_args!("{odd:?} on rank {who}"));
        let result = odd.call(&spare, run.rank == who);
        let what = format!("{odd:?} on rank {who}");
        if let Err(CommError::CollectiveFailed { operation, .. }) = &result {
            let own = odd.text(run.rank == who).split('(').next();
            assert_eq!(
                Some(operation.as_str()),
                own,
                "{what}: the method of this rank"
            );
        }
        let lowest = who.max(1);
        let message = fails(&what, result, FailureKind::Mismatch, lowest);
        let (first, other) = (odd.text(who == 0), odd.text(lowest == who));
        words::mismatch(first, other, (who, run.size()), &message);
        run.at(format_args!("after {odd:?}"));
        let later = spare.barrier();
        let scope = later.as_ref().err().and_then(CommError::fatal_to);
        assert_eq!(scope, Some(Scope::Communicator), "{later:?}");
        fails("later", later, FailureKind::Mismatch, lowest);
    }
    still_works(run, &comm)
}

/// Rank 1 refuses its arguments while rank 2 calls something entirely different.
fn a_refusal_wins<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for round in 0..5 {
        run.at(format_args!("a refusal and a mismatch, round {round}"));
        let result = match run.rank {
            1 => comm.allreduce(&[1], &mut [0; 2], ReduceOp::Sum),
            2 => comm.barrier(),
            _ => comm.allreduce(&[1], &mut [0], ReduceOp::Sum),
        };
        if run.rank == 1 {
            assert!(
                matches!(result, Err(CommError::InvalidBufferSize { .. })),
                "{result:?}"
            );
        } else {
            fails("a refusal among them", result, FailureKind::Refused, 1);
        }
        still_works(run, comm)?;
    }
    Ok(())
}

/// The last rank never enters the call; the others disagree, and that is the better error.
fn seen_at_the_timeout<S: Subject>(run: &Run) -> Verdict {
    let seat = run.seat("").with_timeout(Duration::from_millis(700));
    let comm = run.open_seat::<S>(&seat)?;
    comm.barrier()?;
    let absent = run.size() - 1;
    if run.rank == absent {
        run.wait_all(0..absent, "told")?;
    }
    run.at(format_args!("disagreeing without rank {absent}"));
    let result = match run.rank {
        1 => comm.allreduce(&[1], &mut [0], ReduceOp::Sum),
        _ => comm.barrier(),
    };
    fails("at the timeout", result, FailureKind::Mismatch, 1);
    run.post("told", "")
}

fn is_the_answer_to_every_later_call<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) {
    let last = run.size() - 1;
    run.at(format_args!("calling different things"));
    let first = Odd::Operation.call(comm, run.rank == last);
    fails("first", first, FailureKind::Mismatch, last);
    let start = Instant::now();
    let (ones, displs) = (vec![1; run.size()], (0..run.size()).collect::<Vec<_>>());
    let mut recv = vec![0; run.size()];
    for round in 0..10 {
        run.at(format_args!("calling again, round {round}"));
        let results = [
            comm.barrier(),
            comm.broadcast(&mut [0], 0),
            comm.allreduce(&[1.0], &mut [0.0], ReduceOp::Sum),
            comm.allgatherv(&[1], &mut recv, &ones, &displs),
        ];
        for result in results {
            fails("later", result, FailureKind::Mismatch, last);
        }
    }
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "took {:?}",
        start.elapsed()
    );
    run.at(format_args!(
        "creating regions and splits after a fatal error"
    ));
    // Where every rank is its own node, these involve no other rank, and may work.
    for result in [
        comm.create_shared_region::<u8>(1).map(drop),
        comm.create_partitioned_region::<u8>(1).map(drop),
        comm.split_local().map(drop),
    ] {
        if let Err(error) = result {
            assert!(error.is_fatal(), "{error}");
        }
    }
}
