//! Allreduce in place, and the rank of the smallest and the largest value: C3, bit by bit.

use comm_api::{
    CommError, Communicator, CommunicatorExt, FailureKind, Operation, ReduceOp, ScalarKind,
};
use comm_testing::reference::fold_all;

use super::allreduce::naive::Naive;
use super::{fails, still_works, words};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C3, C7, C11};
use crate::noise::same;
use crate::run::Run;
use crate::subject::Subject;

/// Empty, a length that fits a line and one that does not, and one that is cut into pieces.
const LENGTHS: [usize; 6] = [0, 1, 3, 17, 1025, 9_001];

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("in_place::the_bits_of_allreduce", &[C3], |run| {
            the_bits_of_allreduce(run, &run.open::<S>()?)
        }),
        Case::new("in_place::large", &[C3, C7], |run| {
            let comm = run.open::<S>()?;
            fold::<f64, _>(run, &comm, ReduceOp::Sum, 400_003, true)?;
            fold::<f32, _>(run, &comm, ReduceOp::Prod, 300_001, true)?;
            fold::<u8, _>(run, &comm, ReduceOp::Max, 1_200_001, true)
        }),
        Case::new("in_place::some_ranks_have_two_buffers", &[C3, C7], |run| {
            some_ranks_have_two_buffers(run, &run.open::<S>()?)
        }),
        Case::new("in_place::through_a_box", &[C3], |run| {
            let comm: Box<dyn Communicator> = Box::new(run.open::<S>()?);
            fold::<f64, _>(run, &comm, ReduceOp::Sum, 5_000, true)
        }),
        Case::new("in_place::one_rank_is_wrong", &[C11], |run| {
            one_rank_is_wrong(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("locations::of_integers", &[C3], |run| {
            let comm = run.open::<S>()?;
            locations::<i8, _>(run, &comm)?;
            locations::<u32, _>(run, &comm)?;
            locations::<i64, _>(run, &comm)?;
            locations::<usize, _>(run, &comm)
        }),
        Case::new("locations::of_floats", &[C3], |run| {
            let comm = run.open::<S>()?;
            locations::<f32, _>(run, &comm)?;
            locations::<f64, _>(run, &comm)
        }),
    ]
}

fn the_bits_of_allreduce<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    every_op::<i8, C>(run, comm)?;
    every_op::<i16, C>(run, comm)?;
    every_op::<u32, C>(run, comm)?;
    every_op::<i64, C>(run, comm)?;
    every_op::<f32, C>(run, comm)?;
    every_op::<f64, C>(run, comm)
}

fn every_op<T: Naive, C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for op in ReduceOp::ALL {
        if op.supports(T::SCALAR) {
            for len in LENGTHS {
                fold::<T, C>(run, comm, op, len, true)?;
            }
        }
    }
    Ok(())
}

/// Reduces, on this rank in place or not.
fn fold<T: Naive, C: Communicator>(
    run: &Run,
    comm: &C,
    op: ReduceOp,
    len: usize,
    in_place: bool,
) -> Verdict {
    let what = format!("in place: {op} of {len} {}", T::SCALAR);
    run.at(format_args!("{what}"));
    let all: Vec<Vec<T>> = (0..run.size()).map(|rank| T::inputs(rank, len)).collect();
    let mut buf = all[run.rank].clone();
    if in_place {
        comm.allreduce_in_place(&mut buf, op)?;
    } else {
        comm.allreduce(&all[run.rank], &mut buf, op)?;
    }
    same(&what, &buf, &fold_all(&all, op));
    Ok(())
}

/// Each rank chooses for itself whether to pass one buffer or two, even in calls of many steps.
fn some_ranks_have_two_buffers<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for turn in 0..2 {
        let in_place = run.rank % 2 == turn;
        for len in [0, 1, 5, 300, 2_000] {
            fold::<f64, C>(run, comm, ReduceOp::Sum, len, in_place)?;
            fold::<i32, C>(run, comm, ReduceOp::Prod, len, in_place)?;
        }
        fold::<f64, C>(run, comm, ReduceOp::Min, 200_003, in_place)?;
        fold::<i64, C>(run, comm, ReduceOp::Sum, 200_003, in_place)?;
    }
    Ok(())
}

/// The others get an error, whichever of the two they call.
fn one_rank_is_wrong<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let op = ReduceOp::BitwiseAnd;
    let error = CommError::unsupported_reduction(Operation::Allreduce, op, ScalarKind::F32);
    for culprit in 0..run.size() {
        run.at(format_args!("bits of floats in place, on rank {culprit}"));
        let mut buf = [1.0_f32; 3];
        if run.rank == culprit {
            assert_eq!(comm.allreduce_in_place(&mut buf, op), Err(error.clone()));
        } else {
            let result = comm.allreduce_in_place(&mut buf, ReduceOp::Sum);
            let message = fails("in place", result, FailureKind::Refused, culprit);
            words::refused(&error.to_string(), &message);
        }
        run.at(format_args!("half an element in place, on rank {culprit}"));
        let mut bytes = [0; 12];
        let taken = if run.rank == culprit { 11 } else { 12 };
        let result = comm.allreduce_in_place_bytes(&mut bytes[..taken], ScalarKind::F32, op);
        assert!(
            matches!(&result, Err(error) if !error.is_fatal()),
            "{result:?}"
        );
        still_works(run, comm)?;
    }
    Ok(())
}

/// Special values move across the ranks, ties and NaN included, so that each of them holds the smallest and
/// the largest at some point.
fn locations<T: Naive, C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let special = T::SPECIAL;
    for round in (0..special.len()).step_by(2) {
        for stride in [0, 1, 3] {
            let value = |rank: usize| special[(round + rank * stride) % special.len()];
            let all: Vec<Vec<T>> = (0..run.size()).map(|rank| vec![value(rank)]).collect();
            for op in [ReduceOp::Min, ReduceOp::Max] {
                let what = format!("{op} of {} with its rank, round {round}", T::SCALAR);
                run.at(format_args!("{what}"));
                let (found, rank) = match op {
                    ReduceOp::Min => comm.min_loc(value(run.rank))?,
                    _ => comm.max_loc(value(run.rank))?,
                };
                let expected = fold_all(&all, op);
                same(&what, &[found], &expected);
                // With one rank a NaN stays unchanged; otherwise the result is the canonical NaN.
                let is_result = |rank: &usize| {
                    let alike = |a: T, b: T| {
                        comm_api::bytemuck::bytes_of(&a) == comm_api::bytemuck::bytes_of(&b)
                    };
                    alike(value(*rank), expected[0]) || alike(value(*rank).canonical(), expected[0])
                };
                let lowest = (0..run.size()).find(is_result);
                assert_eq!(Some(rank), lowest, "{what}");
            }
        }
    }
    Ok(())
}
