//! Gathered regions: C15.

mod misuse;

use comm_api::{CommData, Communicator, SharedMemoryProvider, SharedRegion};

use super::elements::{CacheLine, Cut, Nothing, Pages, Triple};
use super::regions::{aligned, refused_room};
use super::{nobody_leaves_early, still_works};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C6, C11, C15};
use crate::model::Worlds;
use crate::noise::{input, same};
use crate::program::Program;
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    // Programs contain refusals, for which there is no other rank to notify in a world of one.
    let programs: &'static [_] = match S::MODEL.worlds {
        Worlds::One => &[C6, C15],
        Worlds::Any => &[C6, C11, C15],
    };
    let mut cases = vec![
        Case::new("gathered::the_parts_of_all", &[C15], |run| {
            let comm = run.open::<S>()?;
            the_parts_of_all::<f64, _>(run, &comm, |rank| 1 + rank)?;
            the_parts_of_all::<u8, _>(run, &comm, |rank| (rank * 5 + 3) % 7)?;
            the_parts_of_all::<u16, _>(run, &comm, |rank| [0, 9][rank % 2])?;
            the_parts_of_all::<u32, _>(run, &comm, |rank| [700, 0][rank.min(1)])?;
            the_parts_of_all::<u64, _>(run, &comm, |rank| 30_000 * (rank % 3) + 1)
        }),
        Case::new("gathered::large_parts", &[C15], |run| {
            let comm = run.open::<S>()?;
            the_parts_of_all::<f64, _>(run, &comm, |rank| 600_000 / (1 + rank))?;
            the_parts_of_all::<Triple, _>(run, &comm, |rank| 1_000_001 * ((rank + 1) % 2))
        }),
        Case::new("gathered::every_element", &[C15], |run| {
            let comm = run.open::<S>()?;
            the_parts_of_all::<Cut, _>(run, &comm, |rank| 3 * rank)?;
            the_parts_of_all::<Triple, _>(run, &comm, |rank| 5 + rank)?;
            the_parts_of_all::<CacheLine, _>(run, &comm, |rank| 2 - rank % 3)?;
            the_parts_of_all::<Pages, _>(run, &comm, |_| 1)?;
            the_parts_of_all::<Nothing, _>(run, &comm, |rank| rank)
        }),
        Case::new("gathered::nothing_at_all", &[C15], |run| {
            the_parts_of_all::<f64, _>(run, &run.open::<S>()?, |_| 0)
        }),
        Case::new("gathered::nobody_leaves_early", &[C15], |run| {
            let comm = run.open::<S>()?;
            let mut region = comm.create_gathered_region::<u64>(2)?;
            nobody_leaves_early(run, "exchange", |_| {
                comm.exchange(&mut region)?;
                region.fence()
            })
        })
        .at_least(2),
        Case::new("gathered::many_rounds", &[C6, C15], |run| {
            many_rounds(run, &run.open::<S>()?)
        }),
        Case::new("gathered::random_programs", programs, |run| {
            random_programs(run, &run.open::<S>()?)
        }),
        Case::new("gathered::no_room_for_anyone", &[C15], |run| {
            no_room_for_anyone(run, &run.open::<S>()?)
        }),
    ];
    cases.extend(misuse::cases::<S>());
    cases
}

/// Starts zeroed; after an exchange all ranks read what all wrote, in rank order; unchanged contents persist.
fn the_parts_of_all<T: CommData, C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
    count: impl Fn(usize) -> usize,
) -> Verdict {
    let counts: Vec<usize> = (0..run.size()).map(&count).collect();
    let mine = counts[run.rank];
    let what = format!("gathered parts of {counts:?} x {} bytes", size_of::<T>());
    run.at(format_args!("creating {what}"));
    let mut region = comm.create_gathered_region::<T>(mine)?;
    let mut expected: Vec<Vec<T>> = counts.iter().map(|&n| vec![T::zeroed(); n]).collect();
    same(&what, region.as_mut_slice(), &expected[run.rank]);
    for round in 0..4 {
        run.at(format_args!("{what}, write phase {round}"));
        // Round 0 writes nothing, the others write from some offset on: the rest must still be there.
        for (rank, part) in expected.iter_mut().enumerate().filter(|_| round > 0) {
            let from = part.len() * (round - 1) / 3;
            let new = input::<T>(round, rank, part.len() - from);
            if rank == run.rank {
                same(&what, region.as_mut_slice(), part);
                region.as_mut_slice()[from..].copy_from_slice(&new);
            }
            part[from..].copy_from_slice(&new);
        }
        comm.exchange(&mut region)?;
        run.at(format_args!("{what}, read phase {round}"));
        same(&what, region.as_slice(), &expected.concat());
        aligned(region.as_slice());
        region.fence()?;
    }
    Ok(())
}

/// Hundreds of rounds of two regions, with collectives in between.
fn many_rounds<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let size = run.size();
    let mut points = comm.create_gathered_region::<usize>(1 + run.rank % 2)?;
    let mut cuts = comm.create_gathered_region::<u8>(3)?;
    for round in 0..run.calls(300) {
        run.at(format_args!("two gathered regions, round {round}"));
        points.as_mut_slice().fill(run.rank + round);
        comm.exchange(&mut points)?;
        if round % 3 == 0 {
            comm.barrier()?;
        }
        let mine = u8::try_from((run.rank + round) % 251)?;
        cuts.as_mut_slice().fill(mine);
        comm.exchange(&mut cuts)?;
        let wanted = (0..size).flat_map(|rank| vec![rank + round; 1 + rank % 2]);
        assert!(
            points.as_slice().iter().copied().eq(wanted),
            "round {round}"
        );
        let byte = |rank: usize| u8::try_from((rank + round) % 251).unwrap_or(0);
        let wanted: Vec<u8> = (0..size).flat_map(|rank| [byte(rank); 3]).collect();
        assert_eq!(cuts.as_slice(), wanted, "round {round}");
        cuts.fence()?;
        points.fence()?;
    }
    still_works(run, comm)
}

/// Programs of the same generator, with exchanges among the other collectives.
fn random_programs<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let (first, count) = (run.orders.seed, run.orders.programs);
    for index in 0..count {
        let seed = first.wrapping_add(index as u64);
        let program = Program::draw_exchanging(seed, run.size());
        program.run_checked(comm, |step| {
            run.at(format_args!("program {seed}, {step}"));
        })?;
    }
    Ok(())
}

/// A lack of memory is an error on all ranks of the job, even if only one rank requested too much.
fn no_room_for_anyone<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let most = [usize::MAX, usize::MAX / 8, 1 << 47];
    for (count, greedy) in most.into_iter().zip([0, run.size() / 2, run.size() - 1]) {
        run.at(format_args!("asking for {count} elements"));
        refused_room(comm.create_gathered_region::<f64>(count).map(drop))?;
        run.at(format_args!("rank {greedy} asks for {count} elements"));
        let mine = if run.rank == greedy { count } else { 3 };
        refused_room(comm.create_gathered_region::<f64>(mine).map(drop))?;
        still_works(run, comm)?;
        the_parts_of_all::<f64, C>(run, comm, |rank| rank)?;
    }
    // Elements of size zero take no memory, whatever their number.
    let nothing = comm.create_gathered_region::<Nothing>(usize::MAX / run.size());
    assert!(nothing.is_ok(), "{:?}", nothing.err());
    Ok(())
}
