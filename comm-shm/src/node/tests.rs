use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use comm_api::{FailureKind, SharedRegion};

use super::*;

/// Runs `body` as two ranks of one node, each a thread.
fn two<R: Send>(body: impl Fn(usize, NodeRegions) -> R + Sync) -> [R; 2] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cobre-node-{}-{next}", std::process::id());
    let run = |rank| {
        let config = ShmConfig::new(&name, rank, 2);
        body(rank, NodeRegions::attach(config).unwrap())
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        [run(0), other.join().unwrap()]
    })
}

fn origin() -> Origin {
    Origin {
        communicator: CommId::LOCAL,
        number: 9,
    }
}

fn failure<R>(result: Result<R, CommError>) -> (FailureKind, Option<usize>) {
    match result.map(drop) {
        Err(CommError::CollectiveFailed { kind, rank, .. }) => (kind, rank),
        other => panic!("{other:?}"),
    }
}

#[test]
fn regions_work_without_slots() {
    let whole = two(|rank, node| {
        let mut table = node.create_shared_region::<u64>(3).unwrap();
        table.as_mut_slice().fill(7);
        let mut parts = node.create_partitioned_region::<usize>(rank + 1).unwrap();
        parts.as_mut_slice().fill(rank);
        drop(node);
        table.fence().unwrap();
        parts.fence().unwrap();
        assert_eq!(table.as_slice(), [7; 3]);
        parts.as_slice().to_vec()
    });
    assert_eq!(whole, [[0, 1, 1], [0, 1, 1]]);
}

/// Ranks 0 and 2 of a job live here; the leader brings what 1 and 3 wrote elsewhere.
#[test]
fn a_node_gets_the_parts_of_others_between_two_steps() {
    let whole = two(|rank, node| {
        let own = [0..2, 4..5][rank].clone();
        let mut region = node
            .create_gathered_region::<u32>(6, own, origin())
            .unwrap();
        assert_eq!(check_exchange(&region, CommId::LOCAL, rank).unwrap(), 9);
        for round in 0..100 {
            region
                .as_mut_slice()
                .fill(round + u32::try_from(rank).unwrap());
            let bring = |whole: &mut [u32]| {
                assert_eq!(rank, 0, "only the leader");
                assert_eq!((whole[1], whole[4]), (round, round + 1), "all have written");
                whole[2..4].fill(round + 50);
                whole[5] = round + 60;
                Ok(())
            };
            exchange(&mut region, 9, Some(bring)).unwrap();
            let wanted = [0, 0, 50, 50, 1, 60].map(|part| part + round);
            assert_eq!(region.as_slice(), wanted);
            region.fence().unwrap();
        }
        region.as_mut_slice().len()
    });
    assert_eq!(whole, [2, 1]);
}

#[test]
fn a_leader_that_cannot_bring_breaks_the_region_on_the_whole_node() {
    let failures = two(|rank, node| {
        let own = rank..rank + 1;
        let mut region = node.create_gathered_region::<u8>(3, own, origin()).unwrap();
        let error = CommError::failed("exchange", FailureKind::Mpi, Some(0), "no route");
        let failed = failure(exchange(&mut region, 9, Some(|_: &mut [u8]| Err(error))));
        assert!(failure(region.fence()).0.is_fatal());
        assert!(
            failure(check_exchange(&region, CommId::LOCAL, rank))
                .0
                .is_fatal()
        );
        failed
    });
    let told = (FailureKind::Io, Some(0));
    assert_eq!(failures, [(FailureKind::Mpi, Some(0)), told]);
}

#[test]
fn parts_that_overlap_or_do_not_fit_are_a_mismatch() {
    for (parts, blamed) in [
        ([0..2, 1..3], 1),
        ([1..3, 0..2], 0),
        ([0..2, 2..5], 1),
        ([0..1, 0..1], 1),
    ] {
        let failures = two(|rank, node| {
            let own = parts[rank].clone();
            failure(node.create_gathered_region::<u64>(4, own, origin()))
        });
        assert_eq!(
            failures,
            [(FailureKind::Mismatch, Some(blamed)); 2],
            "{parts:?}"
        );
    }
    // Empty parts take no elements from any other part, wherever they are.
    let regions = two(|rank, node| {
        let own = [2..2, 1..4][rank].clone();
        node.create_gathered_region::<u64>(4, own, origin()).is_ok()
    });
    assert_eq!(regions, [true; 2]);
}

#[test]
fn a_rank_that_is_gone_is_named_in_the_middle_of_an_exchange() {
    let meet = Barrier::new(2);
    let failures = two(|rank, node| {
        let own = rank..rank + 1;
        let mut region = node.create_gathered_region::<u8>(2, own, origin()).unwrap();
        meet.wait();
        if rank == 1 {
            drop(region);
            return None;
        }
        let bring = Some(|_: &mut [u8]| -> Result<(), CommError> { panic!("not all have come") });
        Some(failure(exchange(&mut region, 9, bring)))
    });
    assert_eq!(failures, [Some((FailureKind::PeerLost, Some(1))), None]);
}
