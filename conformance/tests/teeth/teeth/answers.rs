//! Wrong answers: about itself, about mistakes of others, and about who is to blame.

use std::sync::atomic::Ordering;

use comm_api::{CommError, Communicator, FailureKind, ReduceOp, ScalarKind};

use crate::bent::{Bent, Tooth};

/// Says that there is one rank more.
pub(crate) struct LiesAboutSize;

impl Tooth for LiesAboutSize {
    fn size(&self, bent: &Bent) -> usize {
        bent.comm.size() + 1
    }
}

/// Says another rank after the first collective.
pub(crate) struct LiesAboutRank;

impl Tooth for LiesAboutRank {
    fn rank(&self, bent: &Bent) -> usize {
        let turned = usize::from(bent.calls.load(Ordering::Relaxed) > 0);
        (bent.comm.rank() + turned) % bent.comm.size()
    }

    fn allgatherv(
        &self,
        bent: &Bent,
        send: &[u8],
        recv: &mut [u8],
        (counts, displs): (&[usize], &[usize]),
        elem_size: usize,
    ) -> Result<(), CommError> {
        bent.comm
            .allgatherv_bytes(send, recv, counts, displs, elem_size)?;
        bent.calls.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Sends the operation of nobody: all folds look alike to the others.
pub(crate) struct MissesMismatches;

impl Tooth for MissesMismatches {
    fn allreduce(
        &self,
        bent: &Bent,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        _: ReduceOp,
    ) -> Result<(), CommError> {
        bent.comm.allreduce_bytes(send, recv, scalar, ReduceOp::Sum)
    }
}

/// Refuses without a word, so that the others wait.
pub(crate) struct HangsOnRefusals;

impl Tooth for HangsOnRefusals {
    fn refuse(&self, _: &Bent, _: &'static str, _: &CommError) {}
}

/// Blames the next one.
pub(crate) struct BlamesTheWrongRank;

impl Tooth for BlamesTheWrongRank {
    fn allreduce(
        &self,
        bent: &Bent,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        bent.comm
            .allreduce_bytes(send, recv, scalar, op)
            .map_err(|mut error| {
                if let CommError::CollectiveFailed {
                    rank: Some(rank), ..
                } = &mut error
                {
                    *rank = (*rank + 1) % bent.comm.size();
                }
                error
            })
    }
}

/// Gives another answer the second time.
pub(crate) struct ForgetsTheCause;

impl Tooth for ForgetsTheCause {
    fn barrier(&self, bent: &Bent) -> Result<(), CommError> {
        bent.comm
            .barrier()
            .map_err(|_| CommError::failed("barrier", FailureKind::Io, None, "it happened before"))
    }
}

/// Lets a second thread wait for the first instead of refusing it.
pub(crate) struct LetsTwoThreadsIn;

impl Tooth for LetsTwoThreadsIn {
    fn barrier(&self, bent: &Bent) -> Result<(), CommError> {
        let _turn = bent.last.lock();
        bent.comm.barrier()
    }
}
