//! Shared regions: C9.

mod ends;
mod memory;

use std::panic::{AssertUnwindSafe, catch_unwind};

use comm_api::{
    CommData, CommError, Communicator, CommunicatorExt, SharedMemoryProvider, SharedRegion,
};

use super::elements::{CacheLine, Cut, Nothing, Pages};
use super::still_works;
use crate::case::{Case, Verdict};
use crate::clause::Clause::C9;
use crate::noise::{fill, input, same};
use crate::run::Run;
use crate::subject::{Failure, Subject};

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    let mut cases = vec![
        Case::new("regions::the_leader_writes", &[C9], |run| {
            let comm = run.open::<S>()?;
            for len in [1, 5, 1000, 70_001] {
                the_leader_writes::<u64, _>(run, &comm, len)?;
            }
            the_leader_writes::<u8, _>(run, &comm, 3_000_001)
        }),
        Case::new("regions::everybody_writes_a_part", &[C9], |run| {
            let comm = run.open::<S>()?;
            everybody_writes_a_part::<f64, _>(run, &comm, |rank| 1 + rank)?;
            everybody_writes_a_part::<u8, _>(run, &comm, |rank| (rank * 5 + 3) % 7)?;
            everybody_writes_a_part::<u16, _>(run, &comm, |rank| [0, 9][rank % 2])?;
            everybody_writes_a_part::<u64, _>(run, &comm, |rank| 30_000 * (rank % 3) + 1)
        }),
        Case::new("regions::every_element", &[C9], |run| {
            let comm = run.open::<S>()?;
            the_leader_writes::<Cut, _>(run, &comm, 77)?;
            the_leader_writes::<CacheLine, _>(run, &comm, 3)?;
            the_leader_writes::<Pages, _>(run, &comm, 2)?;
            the_leader_writes::<Nothing, _>(run, &comm, 12)?;
            everybody_writes_a_part::<Cut, _>(run, &comm, |rank| 3 * rank)?;
            everybody_writes_a_part::<CacheLine, _>(run, &comm, |rank| 2 - rank % 3)?;
            everybody_writes_a_part::<Pages, _>(run, &comm, |_| 1)?;
            everybody_writes_a_part::<Nothing, _>(run, &comm, |rank| rank)
        }),
        Case::new("regions::nothing_at_all", &[C9], |run| {
            let comm = run.open::<S>()?;
            the_leader_writes::<f64, _>(run, &comm, 0)?;
            everybody_writes_a_part::<f64, _>(run, &comm, |_| 0)
        }),
        Case::new("regions::misuse_names_fence", &[C9], |run| {
            misuse_names_fence(run, &run.open::<S>()?)
        }),
        Case::new("regions::no_room_for_anyone", &[C9], |run| {
            no_room_for_anyone(run, &run.open::<S>()?)
        }),
        Case::new("regions::many_phases", &[C9], |run| {
            many_phases(run, &run.open::<S>()?)
        }),
    ];
    cases.extend(ends::cases::<S>());
    cases.extend(memory::cases::<S>());
    cases
}

/// Returns the rank of this process on its node, and the size of the node.
fn node<C: SharedMemoryProvider>(comm: &C) -> Result<(usize, usize), CommError> {
    let local = comm.split_local()?;
    Ok((local.rank(), local.size()))
}

/// A region starts zeroed; all ranks read what the leader writes; contents persist between phases.
fn the_leader_writes<T: CommData, C: SharedMemoryProvider>(
    run: &Run,
    comm: &C,
    len: usize,
) -> Verdict {
    let what = format!("a region of {len} x {} bytes", size_of::<T>());
    run.at(format_args!("creating {what}"));
    let mut region = comm.create_shared_region::<T>(len)?;
    let own = if comm.is_leader() { len } else { 0 };
    assert_eq!(region.as_mut_slice().len(), own, "{what}: owned at first");
    let mut expected = vec![T::zeroed(); len];

    for round in 0..4 {
        run.at(format_args!("{what}, write phase {round}"));
        if comm.is_leader() && round > 0 {
            // A part changes; the rest must still be there.
            let part = len * (round - 1) / 3..len;
            let mine = region.as_mut_slice();
            same(&what, mine, &expected);
            let new = input::<T>(round, 0, part.len());
            mine[part].copy_from_slice(&new);
        }
        if round > 0 {
            let part = len * (round - 1) / 3..len;
            let new = input::<T>(round, 0, part.len());
            expected[part].copy_from_slice(&new);
        }
        region.fence()?;
        run.at(format_args!("{what}, read phase {round}"));
        same(
            &format!("{what}, round {round}"),
            region.as_slice(),
            &expected,
        );
        aligned(region.as_slice());
        region.fence()?;
    }
    Ok(())
}

pub(super) fn aligned<T>(slice: &[T]) {
    let address = slice.as_ptr().addr();
    assert_eq!(
        address % align_of::<T>(),
        0,
        "alignment to {}",
        align_of::<T>()
    );
}

/// Parts may differ in length and be empty; the whole has them in local-rank order.
fn everybody_writes_a_part<T: CommData, C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
    count: impl Fn(usize) -> usize,
) -> Verdict {
    let (rank, size) = node(comm)?;
    // Ranks of a node of one know only the counts of their own node.
    let first = run.rank - rank;
    let counts: Vec<usize> = (0..size).map(|local| count(first + local)).collect();
    let what = format!("parts of {counts:?} x {} bytes", size_of::<T>());
    run.at(format_args!("creating {what}"));
    let mut region = comm.create_partitioned_region::<T>(counts[rank])?;
    same(
        &what,
        region.as_mut_slice(),
        &vec![T::zeroed(); counts[rank]],
    );
    for round in 0..3 {
        run.at(format_args!("{what}, write phase {round}"));
        let mine = input::<T>(round, run.rank, counts[rank]);
        region.as_mut_slice().copy_from_slice(&mine);
        region.fence()?;
        run.at(format_args!("{what}, read phase {round}"));
        let whole = (0..size).flat_map(|local| input::<T>(round, first + local, counts[local]));
        same(&what, region.as_slice(), &whole.collect::<Vec<T>>());
        aligned(region.as_slice());
        region.fence()?;
    }
    Ok(())
}

/// Runs code that must panic; returns the message.
pub(super) fn panic_of<R>(what: &str, misuse: impl FnOnce() -> R) -> String {
    match catch_unwind(AssertUnwindSafe(|| drop(misuse()))) {
        Ok(()) => panic!("{what}: expected a panic"),
        Err(payload) => match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => (*payload.downcast::<&str>().unwrap_or_default()).to_owned(),
        },
    }
}

fn misuse_names_fence<C: SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    run.at(format_args!("misuse of a region"));
    let mut region = comm.create_shared_region::<u32>(4)?;
    let text = panic_of("as_slice while writing", || region.as_slice().len());
    assert!(text.contains("fence"), "{text}");
    region.as_mut_slice();
    region.fence()?;
    let text = panic_of("as_mut_slice while reading", || region.as_mut_slice().len());
    assert!(text.contains("fence"), "{text}");
    assert_eq!(region.as_slice(), [0; 4]);
    region.fence()?;
    Ok(())
}

/// A lack of memory is an error on all ranks of the node, even if only one rank requested too much.
fn no_room_for_anyone<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let (rank, size) = node(comm)?;
    for count in [usize::MAX, usize::MAX / 8, 1 << 47] {
        run.at(format_args!("asking for {count} elements"));
        refused_room(comm.create_shared_region::<f64>(count).map(drop))?;
        refused_room(comm.create_partitioned_region::<f64>(count).map(drop))?;
        let greedy = if rank == size - 1 { count } else { 3 };
        run.at(format_args!("one rank asks for {count} elements"));
        refused_room(comm.create_partitioned_region::<f64>(greedy).map(drop))?;
        still_works(run, comm)?;
        the_leader_writes::<f64, C>(run, comm, 10)?;
    }
    Ok(())
}

pub(super) fn refused_room(result: Result<(), CommError>) -> Result<(), Failure> {
    match result {
        Err(CommError::AllocationFailed {
            requested_bytes, ..
        }) if requested_bytes >= 1 << 40 => Ok(()),
        other => Err(format!("expected AllocationFailed, got {other:?}").into()),
    }
}

/// Hundreds of phases of two regions, with collectives in between.
fn many_phases<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let (rank, size) = node(comm)?;
    let mut table = comm.create_shared_region::<u64>(100)?;
    let mut parts = comm.create_partitioned_region::<usize>(1)?;
    for round in 0..300 {
        run.at(format_args!("phases of two regions, round {round}"));
        if comm.is_leader() {
            table.as_mut_slice().fill(round);
        }
        parts.as_mut_slice()[0] = rank + usize::try_from(round)?;
        table.fence()?;
        parts.fence()?;
        assert!(
            table.as_slice().iter().all(|&x| x == round),
            "round {round}"
        );
        let sum: usize = parts.as_slice().iter().sum();
        assert_eq!(sum, size * (size - 1) / 2 + size * usize::try_from(round)?);
        if round % 50 == 0 {
            let mut all = vec![0; run.size()];
            comm.allgather(&[round], &mut all)?;
            assert_eq!(all, vec![round; run.size()]);
        }
        parts.fence()?;
        table.fence()?;
    }
    // A region that is large enough to be placed differently.
    let mut large = comm.create_shared_region::<u8>(20_000_000)?;
    if comm.is_leader() {
        fill(large.as_mut_slice(), 1, 0);
    }
    large.fence()?;
    let mut expected = vec![0; 20_000_000];
    fill(&mut expected, 1, 0);
    same("20 MB", large.as_slice(), &expected);
    Ok(())
}
