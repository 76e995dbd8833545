//! Many communicators in one process, and two threads on one of them: C8.

use std::thread;

use comm_api::{
    CommError, Communicator, CommunicatorExt, FailureKind, ReduceOp, SharedMemoryProvider,
};

use super::{mixed, one};
use crate::case::{Case, Verdict};
use crate::clause::Clause::C8;
use crate::model::Need;
use crate::noise::{input, same};
use crate::run::Run;
use crate::subject::{Failure, Subject};
use crate::suite::still_works;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("sequences::splits_in_turn", &[C8], |run| {
            splits_in_turn(run, &run.open::<S>()?)
        }),
        Case::new("sequences::a_split_takes_large_calls", &[C8], |run| {
            a_split_takes_large_calls(run, &run.open::<S>()?)
        }),
        Case::new("sequences::many_in_turn", &[C8], many_in_turn::<S>).needs(Need::SeveralOpens),
        Case::new("sequences::many_at_once", &[C8], many_at_once::<S>).needs(Need::SeveralOpens),
        Case::new("sequences::two_threads_on_one", &[C8], |run| {
            two_threads_on_one(run, &run.open::<S>()?)
        })
        .at_least(2),
    ]
}

/// Splits of one communicator, called in turn with it; they are dropped in any order.
fn splits_in_turn<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let mut splits = Vec::new();
    for round in 0..4 {
        run.at(format_args!("split {round}"));
        splits.push(comm.split_local()?);
        comm.barrier()?;
    }
    for round in 0..40 {
        let split = &splits[(round * 7) % splits.len()];
        run.at(format_args!(
            "split {} in round {round}",
            (round * 7) % splits.len()
        ));
        still_works(run, split)?;
        one(run, comm, round, round % 4, 10, 0)?;
    }
    while !splits.is_empty() {
        drop(splits.swap_remove(run.rank % splits.len()));
        comm.barrier()?;
    }
    still_works(run, comm)
}

/// The memory of a split may be smaller than that of its communicator; the possible payloads are the same.
fn a_split_takes_large_calls<C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
) -> Verdict {
    let split = comm.split_local()?;
    let (rank, size) = (split.rank(), split.size());
    for (round, len) in [1_000, 20_000, 70_001, 300_000].into_iter().enumerate() {
        run.at(format_args!("large calls of a split, {len} elements"));
        let what = format!("{len} elements");
        let parts = (0..size).map(|rank| input::<u64>(round, rank, len));
        let parts: Vec<Vec<u64>> = parts.collect();
        for (root, part) in parts.iter().enumerate() {
            let mut buf = parts[rank].clone();
            split.broadcast(&mut buf, root)?;
            same(&format!("broadcast of {what}"), &buf, part);
        }
        let mut sums = vec![0; len];
        split.allreduce(&parts[rank], &mut sums, ReduceOp::Sum)?;
        let sum = |at: usize| {
            parts
                .iter()
                .fold(0_u64, |sum, part| sum.wrapping_add(part[at]))
        };
        same(
            &format!("allreduce of {what}"),
            &sums,
            &(0..len).map(sum).collect::<Vec<_>>(),
        );
        let mut all = vec![0; len * size];
        split.allgather(&parts[rank], &mut all)?;
        same(&format!("allgather of {what}"), &all, &parts.concat());
    }
    still_works(run, comm)
}

fn open_many<S: Subject>(run: &Run) -> Result<Vec<S::Comm>, Failure> {
    let tags = ["", "b", "c", "d"];
    tags.iter()
        .map(|tag| run.open_seat::<S>(&run.seat(tag)))
        .collect()
}

fn many_in_turn<S: Subject>(run: &Run) -> Verdict {
    let comms = open_many::<S>(run)?;
    for round in 0..100 {
        let at = (round * 3) % comms.len();
        run.at(format_args!("communicator {at}, round {round}"));
        one(run, &comms[at], round, round % 4, 1 + round, 0)?;
    }
    Ok(())
}

/// One thread per communicator, on every rank: each has its own sequence.
fn many_at_once<S: Subject>(run: &Run) -> Verdict {
    let comms = open_many::<S>(run)?;
    thread::scope(|scope| {
        let threads: Vec<_> = comms
            .iter()
            .enumerate()
            .map(|(seed, comm)| scope.spawn(move || mixed(run, comm, seed, 150, true)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let result = thread.join();
            result.unwrap_or_else(|_| Err("a thread of this rank panicked".into()))
        })
    })
}

/// Of two threads inside one communicator, one is refused and the other does not notice.
fn two_threads_on_one<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for busy in 0..run.size() {
        let key = format!("refused-{busy}");
        if run.rank != busy {
            // No other rank enters, so the first thread of the busy rank cannot get out.
            run.wait(busy, &key)?;
            comm.barrier()?;
            continue;
        }
        run.at(format_args!("two threads in one barrier"));
        let call = || {
            let result = comm.barrier();
            match &result {
                Ok(()) => Ok((0, result)),
                Err(_) => run.post(&key, "").map(|()| (1, result)),
            }
        };
        let results = thread::scope(|scope| {
            let both = [scope.spawn(call), scope.spawn(call)];
            both.map(|thread| thread.join().unwrap_or_else(|_| Err("panicked".into())))
        });
        let mut refusals = 0;
        for result in results {
            let (refused, result) = result?;
            refusals += refused;
            if let Err(error) = result {
                check(run, &error);
            }
        }
        assert_eq!(refusals, 1, "one of the two is refused");
    }
    still_works(run, comm)
}

fn check(run: &Run, error: &CommError) {
    let message = "another thread of this rank is inside a collective of this communicator; wait until it returns, or \
                   give each thread its own communicator";
    let expected = CommError::failed("barrier", FailureKind::Refused, Some(run.rank), message);
    assert_eq!(*error, expected);
}
