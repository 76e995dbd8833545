//! Calls of more bytes than 32 bits can count: C7, run with `--big`.
//!
//! Buffers are as large as necessary and no larger: results are compared with values that are computed again
//! word by word, never with a second buffer.

use comm_api::{Communicator, ReduceOp};

use crate::case::{Case, Verdict};
use crate::clause::Clause::C7;
use crate::noise::{Noise, fill, source};
use crate::run::Run;
use crate::subject::Subject;

/// Bytes per call: more than 32 bits can count, and not a round number.
const BIG: usize = (1 << 32) + 12_345;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    let bytes = BIG as u64;
    vec![
        Case::new("sequences::broadcast_beyond_4_gib", &[C7], |run| {
            broadcast(run, &run.open::<S>()?)
        })
        .big(bytes + bytes / 8),
        Case::new("sequences::allgatherv_beyond_4_gib", &[C7], |run| {
            allgatherv(run, &run.open::<S>()?)
        })
        .big(2 * bytes + bytes / 8),
        Case::new("sequences::allreduce_beyond_4_gib", &[C7], |run| {
            allreduce(run, &run.open::<S>()?)
        })
        .big(2 * bytes + bytes / 8),
    ]
}

fn broadcast<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let root = run.size() - 1;
    let mut buf = vec![0; BIG];
    if run.rank == root {
        fill(&mut buf, 1, root);
    }
    run.at(format_args!("broadcast of {BIG} bytes"));
    comm.broadcast(&mut buf, root)?;
    compare(&buf, &mut [source(1, root)]);
    Ok(())
}

/// The last block takes the remainder.
fn allgatherv<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let (size, each) = (run.size(), BIG / run.size());
    let mut counts = vec![each; size];
    counts[size - 1] += BIG % size;
    let displs: Vec<usize> = (0..size).map(|rank| rank * each).collect();
    let mut send = vec![0; counts[run.rank]];
    fill(&mut send, 2, run.rank);
    let mut recv = vec![0; BIG];
    run.at(format_args!("allgatherv of {BIG} bytes"));
    comm.allgatherv(&send, &mut recv, &counts, &displs)?;
    for rank in 0..size {
        let block = &recv[displs[rank]..displs[rank] + counts[rank]];
        compare(block, &mut [source(2, rank)]);
    }
    Ok(())
}

fn allreduce<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let (mut send, mut recv) = (vec![0; BIG], vec![0; BIG]);
    fill(&mut send, 3, run.rank);
    run.at(format_args!("allreduce of {BIG} bytes"));
    comm.allreduce(&send, &mut recv, ReduceOp::Sum)?;
    let mut sources: Vec<Noise> = (0..run.size()).map(|rank| source(3, rank)).collect();
    compare(&recv, &mut sources);
    Ok(())
}

/// Compares with the wrapping sum, byte by byte, of the sources.
fn compare(actual: &[u8], sources: &mut [Noise]) {
    for (at, word) in actual.chunks(8).enumerate() {
        let mut sums = [0_u8; 8];
        for source in &mut *sources {
            for (sum, byte) in sums.iter_mut().zip(source.next().to_le_bytes()) {
                *sum = sum.wrapping_add(byte);
            }
        }
        assert_eq!(word, &sums[..word.len()], "bytes from {} on", 8 * at);
    }
}
