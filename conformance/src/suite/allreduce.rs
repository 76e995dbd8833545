//! Allreduce: C3, compared bit by bit with the fold of the reference, which is written only for that.

pub(crate) mod naive;

use comm_api::{Communicator, ReduceOp};
use comm_testing::reference::fold_all;

use super::nobody_leaves_early;
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C3, C7};
use crate::model::Need;
use crate::noise::{Noise, repeated, same};
use crate::run::Run;
use crate::subject::Subject;
use naive::Naive;

/// Empty, lengths around small payloads and vector widths, and one length that is cut into pieces.
const LENGTHS: [usize; 8] = [0, 1, 2, 3, 15, 17, 1025, 9_001];

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("allreduce::integers", &[C3], |run| {
            integers(run, &run.open::<S>()?)
        }),
        Case::new("allreduce::floats", &[C3], |run| {
            floats(run, &run.open::<S>()?)
        }),
        Case::new("allreduce::the_order_of_the_fold", &[C3], |run| {
            the_order_of_the_fold(run, &run.open::<S>()?)
        }),
        Case::new("allreduce::nan_and_signed_zero", &[C3], |run| {
            let comm = run.open::<S>()?;
            nan_and_signed_zero::<f32, _>(run, &comm)?;
            nan_and_signed_zero::<f64, _>(run, &comm)
        }),
        Case::new("allreduce::adversarial_floats", &[C3, C7], |run| {
            adversarial_floats(run, &run.open::<S>()?)
        }),
        Case::new("allreduce::large", &[C3, C7], |run| {
            let comm = run.open::<S>()?;
            fold::<f64, _>(run, &comm, ReduceOp::Sum, 400_003)?;
            fold::<u8, _>(run, &comm, ReduceOp::Max, 3_000_001)
        }),
        Case::new("allreduce::nobody_leaves_early", &[C3], |run| {
            let comm = run.open::<S>()?;
            nobody_leaves_early(run, "empty", |_| {
                comm.allreduce::<f64>(&[], &mut [], ReduceOp::Sum)
            })?;
            nobody_leaves_early(run, "small", |_| {
                comm.allreduce(&[1.0], &mut [0.0], ReduceOp::Sum)
            })?;
            let (send, mut recv) = (vec![1_u64; 150_000], vec![0; 150_000]);
            nobody_leaves_early(run, "large", |_| {
                comm.allreduce(&send, &mut recv, ReduceOp::Max)
            })
        })
        .needs(Need::Synchronising),
    ]
}

fn integers<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    every_op::<i8, C>(run, comm)?;
    every_op::<i16, C>(run, comm)?;
    every_op::<i32, C>(run, comm)?;
    every_op::<i64, C>(run, comm)?;
    every_op::<isize, C>(run, comm)?;
    every_op::<u8, C>(run, comm)?;
    every_op::<u16, C>(run, comm)?;
    every_op::<u32, C>(run, comm)?;
    every_op::<u64, C>(run, comm)?;
    every_op::<usize, C>(run, comm)
}

fn floats<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    every_op::<f32, C>(run, comm)?;
    every_op::<f64, C>(run, comm)
}

fn every_op<T: Naive, C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for op in ReduceOp::ALL {
        if op.supports(T::SCALAR) {
            for len in LENGTHS {
                fold::<T, C>(run, comm, op, len)?;
            }
        }
    }
    Ok(())
}

fn fold<T: Naive, C: Communicator>(run: &Run, comm: &C, op: ReduceOp, len: usize) -> Verdict {
    let inputs = |rank| T::inputs(rank, len);
    let what = format!("allreduce of {len} {} by {op}", T::SCALAR);
    run.at(format_args!("{what}"));
    let mut recv = T::inputs(usize::MAX, len);
    comm.allreduce(&inputs(run.rank), &mut recv, op)?;
    let all: Vec<Vec<T>> = (0..run.size()).map(inputs).collect();
    same(&what, &recv, &fold_all(&all, op));
    Ok(())
}

/// Sums and products whose results differ for any order other than the rank order: few of them, and enough to
/// take another path.
fn the_order_of_the_fold<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let ops = [(ReduceOp::Sum, "sums"), (ReduceOp::Prod, "products")];
    for ((op, name), len) in ops.into_iter().flat_map(|op| [(op, 200), (op, 130_000)]) {
        run.at(format_args!("{len} {name} of large and small numbers"));
        let values = |rank| {
            let mut noise = Noise::new(31, &[rank]);
            (0..len).map(move |_| noise.pick(&[1e300, -1e300, 1.0, 3.0, 0.1, 1e16]))
        };
        let mut all: Vec<Vec<f64>> = (0..run.size()).map(|rank| values(rank).collect()).collect();
        let mut recv = vec![0.0; len];
        comm.allreduce(&all[run.rank], &mut recv, op)?;
        let expected = fold_all(&all, op);
        same(name, &recv, &expected);
        all.reverse();
        let told_apart = fold_all(&all, op) != expected;
        assert!(told_apart || run.size() < 3, "these inputs show nothing");
    }
    Ok(())
}

/// Special values, large and small ones, in every position: whichever path a length takes, the bits are those
/// of the fold.
fn adversarial_floats<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    const TINY: f64 = f64::from_bits(3);
    let values = |rank: usize, len: usize| -> Vec<f64> {
        let mut noise = Noise::new(37, &[rank, len]);
        let choice = [
            1e300, -1e300, 1.0, -0.0, 0.0, TINY, -TINY, 1e-310, 0.1, 1e16,
        ];
        let value = || match noise.pick(&[0_u8, 1, 2, 3, 4, 5, 6, 7]) {
            0 => noise.pick(f64::SPECIAL),
            _ => noise.pick(&choice),
        };
        repeated(len, value)
    };
    for len in [1, 5, 64, 1_000, 8_192, 8_193, 65_536, 1 << 20] {
        let all: Vec<Vec<f64>> = (0..run.size()).map(|rank| values(rank, len)).collect();
        let mut recv = vec![0.0; len];
        let ops = [ReduceOp::Sum, ReduceOp::Min];
        for op in &ops[..if len > 10_000 { 1 } else { 2 }] {
            let what = format!("{op} of {len} adversarial floats");
            run.at(format_args!("{what}"));
            comm.allreduce(&all[run.rank], &mut recv, *op)?;
            same(&what, &recv, &fold_all(&all, *op));
        }
    }
    Ok(())
}

/// Combines every pair of special values, on every pair of neighbours.
fn nan_and_signed_zero<T: Naive, C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let special = T::SPECIAL;
    let pairs = special.len() * special.len();
    let value = |rank: usize, at: usize| {
        let index = if rank.is_multiple_of(2) {
            at
        } else {
            at / special.len()
        };
        special[index % special.len()]
    };
    let all: Vec<Vec<T>> = (0..run.size())
        .map(|rank| (0..pairs).map(|at| value(rank, at)).collect())
        .collect();
    for op in [ReduceOp::Min, ReduceOp::Max, ReduceOp::Sum, ReduceOp::Prod] {
        let what = format!("{op} of special {}", T::SCALAR);
        run.at(format_args!("{what}"));
        let mut recv = vec![T::zeroed(); pairs];
        comm.allreduce(&all[run.rank], &mut recv, op)?;
        same(&what, &recv, &fold_all(&all, op));
    }
    Ok(())
}
