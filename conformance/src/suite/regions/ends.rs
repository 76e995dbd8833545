//! How regions end: in any order, after their communicator, and with a rank that drops its handle early.

use std::time::Instant;

use comm_api::{Communicator, FailureKind, SharedMemoryProvider, SharedRegion};

use super::{node, panic_of};
use crate::case::{Case, Verdict};
use crate::clause::Clause::C9;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::{ends_the_region, fails, still_works};

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("regions::fences_and_collectives_at_once", &[C9], |run| {
            fences_and_collectives_at_once(run, &run.open::<S>()?)
        }),
        Case::new("regions::outlive_their_communicator", &[C9], |run| {
            outlive_their_communicator(run, run.open::<S>()?)
        }),
        Case::new("regions::dropped_in_any_order", &[C9], |run| {
            dropped_in_any_order(run, run.open::<S>()?)
        }),
        Case::new("regions::a_dropped_handle_is_named", &[C9], |run| {
            a_dropped_handle_is_named(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("regions::come_and_go", &[C9], |run| {
            come_and_go(run, &run.open::<S>()?)
        }),
    ]
}

/// One thread fences while another is in collectives: neither waits for the other.
fn fences_and_collectives_at_once<C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
) -> Verdict {
    let mut left = comm.create_partitioned_region::<u32>(3)?;
    let mut right = comm.create_shared_region::<u8>(9)?;
    run.at(format_args!(
        "two regions and a communicator, a thread each"
    ));
    std::thread::scope(|scope| {
        let left = scope.spawn(|| (0..200).try_for_each(|_| left.fence()));
        let right = scope.spawn(|| (0..150).try_for_each(|_| right.fence()));
        let calls = (0..100).try_for_each(|_| comm.barrier());
        let fences = [left, right].map(std::thread::ScopedJoinHandle::join);
        for fence in fences {
            fence.unwrap_or_else(|_| panic!("a fence panicked"))?;
        }
        calls
    })?;
    Ok(())
}

fn outlive_their_communicator<C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: C,
) -> Verdict {
    let (rank, size) = node(&comm)?;
    let mut region = comm.create_partitioned_region::<usize>(2)?;
    comm.barrier()?;
    drop(comm);
    run.at(format_args!("using a region without its communicator"));
    for round in 0..20 {
        region.as_mut_slice().fill(rank + round);
        region.fence()?;
        let expected: Vec<usize> = (0..size).flat_map(|r| [r + round; 2]).collect();
        assert_eq!(region.as_slice(), expected);
        region.fence()?;
    }
    Ok(())
}

/// No drop waits for another rank, whatever each rank drops first.
fn dropped_in_any_order<C: Communicator + SharedMemoryProvider>(run: &Run, comm: C) -> Verdict {
    let mut regions = Vec::new();
    for len in [1, 1000, 50_000] {
        regions.push(comm.create_shared_region::<u64>(len)?);
    }
    for region in &mut regions {
        region.fence()?;
    }
    comm.barrier()?;
    run.at(format_args!("dropping in an order of its own"));
    let mut comm = Some(comm);
    for turn in 0..=regions.len() {
        if turn == run.rank % 4 {
            comm = None;
        } else {
            drop(regions.swap_remove(run.rank % regions.len()));
        }
        // The others have not dropped this one yet, or long before.
        run.post(&format!("turn-{turn}"), "")?;
        run.wait_all(
            run.others().filter(|other| other % 2 == 0),
            &format!("turn-{turn}"),
        )?;
    }
    drop(comm);
    Ok(())
}

/// A rank that drops a handle is named by the fence of the others; their communicator stays usable.
fn a_dropped_handle_is_named<C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
) -> Verdict {
    let (rank, size) = node(comm)?;
    for gone in [size - 1, 0] {
        let mut region = comm.create_shared_region::<u8>(10)?;
        let mut other = comm.create_partitioned_region::<u8>(10)?;
        region.fence()?;
        if rank == gone {
            drop(region);
        } else if size > 1 {
            run.at(format_args!("a fence without rank {gone}"));
            let start = Instant::now();
            let named = run.rank - rank + gone;
            let result = region.fence();
            ends_the_region("fence", &result);
            fails("fence", result, FailureKind::PeerLost, named);
            let limit = run.orders.limit / 4;
            assert!(start.elapsed() < limit, "took {:?}", start.elapsed());
            panic_of("as_slice of a broken handle", || region.as_slice().len());
            panic_of("as_mut_slice of a broken handle", || {
                region.as_mut_slice().len()
            });
            let result = region.fence();
            ends_the_region("fence again", &result);
            fails("fence again", result, FailureKind::PeerLost, named);
        }
        run.at(format_args!("another region, after one was lost"));
        other.fence()?;
        assert_eq!(other.as_slice(), vec![0; 10 * size]);
        still_works(run, comm)?;
    }
    Ok(())
}

/// Dropped regions leave none of their contents to later ones.
fn come_and_go<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    for round in 0..60 {
        run.at(format_args!("region {round}"));
        let len = 1 + (round * 7919) % 5000;
        let mut region = comm.create_shared_region::<u64>(len)?;
        if comm.is_leader() {
            let mine = region.as_mut_slice();
            assert!(
                mine.iter().all(|&x| x == 0),
                "region {round} starts with zeros"
            );
            mine.fill(u64::MAX);
        }
        region.fence()?;
        assert!(
            region.as_slice().iter().all(|&x| x == u64::MAX),
            "region {round}"
        );
    }
    still_works(run, comm)
}
