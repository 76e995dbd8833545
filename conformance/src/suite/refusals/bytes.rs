//! The byte level, which may be called with anything: nonsense is refused, and the others are notified.

use comm_api::{Blocks, CommError, Communicator, ReduceOp, ScalarKind};

use super::told;
use crate::case::Verdict;
use crate::run::Run;
use crate::suite::still_works;

/// Calls collective number `at` with bytes that are invalid in a world of `size` ranks.
fn nonsense<C: Communicator>(comm: &C, at: usize) -> Result<(), CommError> {
    let (size, whole) = (comm.size(), usize::MAX);
    let zeros = vec![0; size];
    let ones = vec![1; size];
    let far = vec![whole; size];
    let mut recv = vec![0_u8; 8 * size];
    let short = &mut [0_u8; 7];
    match at {
        0 => comm.allgatherv_bytes(&[0; 3], &mut recv, Blocks::new(&ones, &zeros), 8),
        1 => comm.allgatherv_bytes(&[0; 8], short, Blocks::new(&ones, &zeros), 8),
        2 => comm.allgatherv_bytes(&[0; 8], &mut recv, Blocks::new(&ones, &far), 8),
        3 => comm.allgatherv_bytes(&[0; 8], &mut recv, Blocks::new(&far, &far), whole),
        4 => comm.allgatherv_bytes(&[0; 8], &mut recv, Blocks::new(&[], &[]), 8),
        5 => comm.allgatherv_bytes(&[0; 8], &mut recv, Blocks::new(&ones, &zeros), 0),
        6 => comm.allreduce_bytes(&[0; 7], short, ScalarKind::F64, ReduceOp::Sum),
        7 => comm.allreduce_bytes(&[0; 12], &mut [0; 12], ScalarKind::U64, ReduceOp::Sum),
        8 => comm.allreduce_bytes(&[0; 8], short, ScalarKind::U8, ReduceOp::Sum),
        9 => comm.allreduce_bytes(&[0; 8], &mut [0; 8], ScalarKind::F32, ReduceOp::BitwiseOr),
        10 => comm.broadcast_bytes(short, 2, 0),
        11 => comm.broadcast_bytes(short, 0, 0),
        _ => comm.broadcast_bytes(short, 7, whole),
    }
}

const CALLS: usize = 13;

/// All ranks make the same mistake: a non-fatal error, never a crash.
pub(super) fn make_no_sense<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for at in 0..CALLS {
        match nonsense(comm, at) {
            Err(error) => assert!(!error.is_fatal(), "call {at}: {error}"),
            Ok(()) => panic!("call {at} should have been refused"),
        }
    }
    still_works(run, comm)
}

/// One rank makes a mistake below the checks of the typed methods: the others learn which rank, and why.
pub(super) fn of_one_rank_make_no_sense<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let displs: Vec<usize> = (0..run.size()).collect();
    for at in 0..CALLS {
        let culprit = at % run.size();
        run.at(format_args!("nonsense {at} on rank {culprit}"));
        if run.rank == culprit {
            match nonsense(comm, at) {
                Err(error) if !error.is_fatal() => {
                    run.post(&format!("reason-{at}"), &error.placeless().to_string())?;
                }
                other => panic!("call {at} should have been refused: {other:?}"),
            }
        } else {
            let result = match at {
                0..=5 => {
                    let mut recv = vec![0; run.size()];
                    comm.allgatherv(&[1_u64], &mut recv, &vec![1; run.size()], &displs)
                }
                6..=9 => comm.allreduce(&[1_u8; 8], &mut [0; 8], ReduceOp::Sum),
                _ => comm.broadcast(&mut [0_u8; 7], 0),
            };
            let reason = run.wait(culprit, &format!("reason-{at}"))?;
            told(&format!("nonsense {at}"), result, culprit, &reason);
        }
    }
    still_works(run, comm)
}
