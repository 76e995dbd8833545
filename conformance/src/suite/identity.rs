//! The rank itself, C1, and the ranks of its node.

use comm_api::{Communicator, CommunicatorExt, SharedMemoryProvider};

use crate::case::{Case, Verdict};
use crate::clause::Clause::{C1, C9};
use crate::model::Memory;
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("identity::ranks_are_unique_and_constant", &[C1], |run| {
            ranks_are_unique_and_constant(run, &run.open::<S>()?)
        }),
        Case::new("identity::the_node", &[C1, C9], |run| {
            the_node(run, &run.open::<S>()?, S::MODEL.memory)
        }),
    ]
}

fn ranks_are_unique_and_constant<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for round in 0..3 {
        run.at(format_args!("gathering the ranks, round {round}"));
        assert_eq!((comm.rank(), comm.size()), (run.rank, run.size()));
        let mut ranks = vec![usize::MAX; run.size()];
        comm.allgather(&[comm.rank()], &mut ranks)?;
        assert_eq!(ranks, (0..run.size()).collect::<Vec<_>>());
        let mut sizes = vec![usize::MAX; run.size()];
        comm.allgather(&[comm.size()], &mut sizes)?;
        assert_eq!(sizes, vec![run.size(); run.size()]);
    }
    // Another thread reads the same values.
    let seen = std::thread::scope(|scope| scope.spawn(|| (comm.rank(), comm.size())).join());
    assert_eq!(seen.ok(), Some((run.rank, run.size())));
    Ok(())
}

/// Here all ranks run on one machine: they share shared memory, and no rank shares a heap.
fn the_node<C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
    memory: Memory,
) -> Verdict {
    let node = comm.split_local()?;
    let (rank, size) = match memory {
        Memory::Shared => (run.rank, run.size()),
        Memory::Heap => (0, 1),
    };
    assert_eq!((node.rank(), node.size()), (rank, size), "split_local");
    assert_eq!(comm.is_leader(), rank == 0, "is_leader");
    let mut ranks = vec![usize::MAX; size];
    node.allgather(&[node.rank()], &mut ranks)?;
    assert_eq!(ranks, (0..size).collect::<Vec<_>>());
    comm.barrier()?;
    Ok(())
}
