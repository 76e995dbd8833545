//! Sizes around every power of two, where backends switch algorithms: C7.

use comm_api::{Communicator, ReduceOp};
use comm_testing::reference::Plain as _;

use crate::case::{Case, Verdict};
use crate::clause::Clause::C7;
use crate::noise::{fill, same};
use crate::run::Run;
use crate::subject::Subject;

/// The largest size is this power of two, plus one: past all chunks and slots.
const LARGEST: u32 = 22;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("sequences::sizes_of_broadcast", &[C7], |run| {
            let comm = run.open::<S>()?;
            sizes(run, |len| broadcast(run, &comm, len))
        }),
        Case::new("sequences::sizes_of_allreduce", &[C7], |run| {
            let comm = run.open::<S>()?;
            sizes(run, |len| allreduce(run, &comm, len.max(1)))
        }),
        Case::new("sequences::sizes_of_allgatherv", &[C7], |run| {
            let comm = run.open::<S>()?;
            sizes(run, |len| allgatherv(run, &comm, len))
        }),
    ]
}

fn sizes(run: &Run, mut call: impl FnMut(usize) -> Verdict) -> Verdict {
    for power in 0..=LARGEST {
        for len in [(1 << power) - 1, 1 << power, (1 << power) + 1] {
            run.at(format_args!("{len} bytes"));
            call(len)?;
        }
    }
    Ok(())
}

fn broadcast<C: Communicator>(run: &Run, comm: &C, len: usize) -> Verdict {
    let root = len % run.size();
    let (mut buf, mut expected) = (vec![0; len], vec![0; len]);
    fill(&mut buf, len, run.rank);
    fill(&mut expected, len, root);
    comm.broadcast(&mut buf, root)?;
    same(&format!("{len} bytes"), &buf, &expected);
    Ok(())
}

fn allreduce<C: Communicator>(run: &Run, comm: &C, len: usize) -> Verdict {
    let (mut send, mut recv, mut sums) = (vec![0; len], vec![0; len], vec![0; len]);
    fill(&mut send, len, run.rank);
    comm.allreduce(&send, &mut recv, ReduceOp::Sum)?;
    for rank in 0..run.size() {
        fill(&mut send, len, rank);
        u8::take_in(&mut sums, &send, ReduceOp::Sum);
    }
    same(&format!("{len} bytes"), &recv, &sums);
    Ok(())
}

/// The sizes are those of all blocks together; the last block takes the remainder.
fn allgatherv<C: Communicator>(run: &Run, comm: &C, len: usize) -> Verdict {
    let size = run.size();
    let mut counts = vec![len / size; size];
    counts[size - 1] += len % size;
    let displs: Vec<usize> = (0..size).map(|rank| rank * (len / size)).collect();
    let mut send = vec![0; counts[run.rank]];
    fill(&mut send, len, run.rank);
    let (mut recv, mut expected) = (vec![0; len], vec![0; len]);
    for rank in 0..size {
        fill(
            &mut expected[displs[rank]..displs[rank] + counts[rank]],
            len,
            rank,
        );
    }
    comm.allgatherv(&send, &mut recv, &counts, &displs)?;
    same(&format!("{len} bytes"), &recv, &expected);
    Ok(())
}
