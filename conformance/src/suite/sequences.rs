//! Many calls, many sizes, many communicators: C6, C7, C8.

mod big;
mod many;
mod sizes;

use std::sync::Arc;
use std::time::Duration;

use comm_api::{CommError, Communicator, CommunicatorExt, ReduceOp};

use crate::case::{Case, Verdict};
use crate::clause::Clause::{C2, C3, C4, C6};
use crate::noise::{Noise, input, same};
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    let mut cases = vec![
        Case::new("sequences::thousands_of_a_mix", &[C6], |run| {
            mixed(run, &run.open::<S>()?, 0, 3000, false)
        }),
        Case::new("sequences::at_an_uneven_pace", &[C6], |run| {
            mixed(run, &run.open::<S>()?, 1, 300, true)
        }),
        Case::new("sequences::through_pointers", &[C6], |run| {
            let shared = Arc::new(run.open::<S>()?);
            mixed(run, &shared, 2, 100, false)?;
            mixed(run, &&*shared, 3, 100, false)?;
            let object: &dyn Communicator = &*shared;
            mixed(run, &object, 4, 100, false)?;
            let object: Arc<dyn Communicator> = shared;
            mixed(run, &object, 5, 100, false)?;
            let boxed: Box<dyn Communicator> = Box::new(object);
            mixed(run, &boxed, 6, 100, false)
        }),
        Case::new("sequences::the_short_forms", &[C2, C3, C4], |run| {
            the_short_forms(run, &run.open::<S>()?)
        }),
    ];
    cases.extend(sizes::cases::<S>());
    cases.extend(big::cases::<S>());
    cases.extend(many::cases::<S>());
    cases
}

/// Calls `rounds` collectives, drawn from a seed, and checks the result of each.
fn mixed<C: Communicator>(
    run: &Run,
    comm: &C,
    seed: usize,
    rounds: usize,
    uneven: bool,
) -> Verdict {
    let mut draw = Noise::new(17, &[seed]);
    let mut pace = Noise::new(19, &[seed, run.rank]);
    for round in 0..run.calls(rounds) {
        let most = if draw.below(50) == 0 { 20_000 } else { 40 };
        let len = 1 + draw.below(most);
        let (kind, root) = (draw.below(4), draw.below(run.size()));
        if uneven && pace.below(8) == 0 {
            std::thread::sleep(Duration::from_micros(pace.below(500) as u64));
        }
        run.at(format_args!(
            "mix {seed}, call {round}, kind {kind}, {len} elements"
        ));
        one(run, comm, round, kind, len, root)?;
    }
    Ok(())
}

fn one<C: Communicator>(
    run: &Run,
    comm: &C,
    round: usize,
    kind: usize,
    len: usize,
    root: usize,
) -> Result<(), CommError> {
    let what = format!("call {round}");
    match kind {
        0 => comm.barrier()?,
        1 => {
            let mut buf = input::<u64>(round, run.rank, len);
            comm.broadcast(&mut buf, root)?;
            same(&what, &buf, &input(round, root, len));
        }
        2 => {
            let mut recv = vec![0; len];
            comm.allreduce(
                &input::<u32>(round, run.rank, len),
                &mut recv,
                ReduceOp::Sum,
            )?;
            let mut sums = vec![0_u32; len];
            for rank in 0..run.size() {
                let next = input::<u32>(round, rank, len);
                sums.iter_mut()
                    .zip(next)
                    .for_each(|(sum, x)| *sum = sum.wrapping_add(x));
            }
            same(&what, &recv, &sums);
        }
        _ => {
            let mut recv = vec![0; len * run.size()];
            comm.allgather(&input::<u16>(round, run.rank, len), &mut recv)?;
            let all = (0..run.size()).flat_map(|rank| input::<u16>(round, rank, len));
            same(&what, &recv, &all.collect::<Vec<_>>());
        }
    }
    Ok(())
}

fn the_short_forms<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let (rank, size) = (run.rank, run.size());
    run.at(format_args!("allgather_vec"));
    let (all, counts) = comm.allgather_vec(&input::<f64>(1, rank, 3 * rank))?;
    let expected: Vec<f64> = (0..size).flat_map(|r| input(1, r, 3 * r)).collect();
    same("allgather_vec", &all, &expected);
    assert_eq!(counts, (0..size).map(|r| 3 * r).collect::<Vec<_>>());

    run.at(format_args!("allreduce_scalar"));
    let sum = comm.allreduce_scalar(rank + 1, ReduceOp::Sum)?;
    assert_eq!(sum, size * (size + 1) / 2);
    run.at(format_args!("broadcast_value"));
    for root in 0..size {
        assert_eq!(comm.broadcast_value(100 + rank, root)?, 100 + root);
    }
    Ok(())
}
