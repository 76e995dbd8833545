//! Wrong answers: about the rank itself, about mistakes of others, and about the rank to blame.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use comm_api::{
    Blocks, CommError, Communicator, FailureKind, Label, Operation, Place, ReduceOp, ScalarKind,
    check,
};

use comm_conformance::mutant::Mutation;
use comm_conformance::reference::Reference;

/// Reports one rank more than there are.
pub(crate) struct LiesAboutSize;

impl Mutation<Reference> for LiesAboutSize {
    fn size(&self, comm: &Reference) -> usize {
        comm.size() + 1
    }
}

/// Reports another rank after the first collective.
#[derive(Default)]
pub(crate) struct LiesAboutRank(AtomicUsize);

impl Mutation<Reference> for LiesAboutRank {
    fn rank(&self, comm: &Reference) -> usize {
        let turned = usize::from(self.0.load(Ordering::Relaxed) > 0);
        (comm.rank() + turned) % comm.size()
    }

    fn allgatherv(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        comm.allgatherv_bytes(send, recv, from, elem_size)?;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Reports every error as made in the file of this mutant.
pub(crate) struct NamesItsOwnLine;

impl Mutation<Reference> for NamesItsOwnLine {
    fn error(&self, _: &Reference, error: CommError) -> CommError {
        error.placeless().called_at(Place::caller())
    }
}

/// Compares sizes only: elements of one size look alike to the others.
pub(crate) struct ForgetsElementTypes;

impl Mutation<Reference> for ForgetsElementTypes {
    fn broadcast(
        &self,
        comm: &Reference,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        Label::NONE.on(|| comm.broadcast_bytes(buf, elem_size, root))
    }
}

/// Sends an operation that no rank called: all folds look alike to the others.
pub(crate) struct MissesMismatches;

impl Mutation<Reference> for MissesMismatches {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        _: ReduceOp,
    ) -> Result<(), CommError> {
        comm.allreduce_bytes(send, recv, scalar, ReduceOp::Sum)
    }
}

/// Refuses silently, so that the others wait.
pub(crate) struct HangsOnRefusals;

impl Mutation<Reference> for HangsOnRefusals {
    fn refuse(&self, _: &Reference, _: Operation, _: &CommError) {}
}

/// Has room for this many refusals, and no more.
#[derive(Default)]
pub(crate) struct LosesRefusalsFarAhead {
    refused: AtomicUsize,
}

impl Mutation<Reference> for LosesRefusalsFarAhead {
    fn refuse(&self, comm: &Reference, operation: Operation, error: &CommError) {
        if self.refused.fetch_add(1, Ordering::Relaxed) < 500 {
            comm.refuse(operation, error);
        }
    }
}

/// Blames the next rank.
pub(crate) struct BlamesTheWrongRank;

impl Mutation<Reference> for BlamesTheWrongRank {
    fn error(&self, comm: &Reference, mut error: CommError) -> CommError {
        if let CommError::CollectiveFailed {
            rank: Some(rank), ..
        } = &mut error
        {
            *rank = (*rank + 1) % comm.size();
        }
        error
    }
}

/// Answers differently the second time.
pub(crate) struct ForgetsTheCause;

impl Mutation<Reference> for ForgetsTheCause {
    fn barrier(&self, comm: &Reference) -> Result<(), CommError> {
        comm.barrier()
            .map_err(|_| CommError::failed("barrier", FailureKind::Io, None, "it happened before"))
    }
}

/// Lets a second thread wait for the first instead of refusing it.
#[derive(Default)]
pub(crate) struct LetsTwoThreadsIn(Mutex<()>);

impl Mutation<Reference> for LetsTwoThreadsIn {
    fn barrier(&self, comm: &Reference) -> Result<(), CommError> {
        let _turn = self.0.lock();
        comm.barrier()
    }
}

/// Refuses invalid bytes without notifying the others.
pub(crate) struct KeepsRefusedBytesToItself;

impl Mutation<Reference> for KeepsRefusedBytesToItself {
    fn allgatherv(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (rank, size) = (comm.rank(), comm.size());
        check::allgatherv_bytes(rank, size, send, recv, from, elem_size)?;
        comm.allgatherv_bytes(send, recv, from, elem_size)
    }
}

/// Treats all elements of 16 MiB and more as the same.
pub(crate) struct ClampsElementSizes;

impl Mutation<Reference> for ClampsElementSizes {
    fn allgatherv(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let clamped = elem_size.min(1 << 24);
        let kept = |bytes: usize| bytes / elem_size.max(1) * clamped;
        let (out, back) = (kept(send.len()), kept(recv.len()));
        comm.allgatherv_bytes(&send[..out], &mut recv[..back], from, clamped)
    }
}

/// Reports the same as others with a different message.
pub(crate) struct Rewords;

impl Mutation<Reference> for Rewords {
    fn error(&self, _: &Reference, mut error: CommError) -> CommError {
        if let CommError::CollectiveFailed { message, .. } = &mut error {
            message.push_str(", in other words");
        }
        error
    }
}
