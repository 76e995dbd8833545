//! Wrong results.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use comm_api::{Blocks, CommError, Communicator, ReduceOp, ScalarKind};

use comm_conformance::mutant::Mutation;
use comm_conformance::reference::Reference;

/// Gathers the contributions of all ranks, in rank order: the starting point of wrong folds.
pub(super) fn everybody(comm: &Reference, send: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
    let (size, len) = (comm.size(), send.len());
    let mut all = vec![0; size * len];
    let displs: Vec<usize> = (0..size).map(|rank| rank * len).collect();
    comm.allgatherv_bytes(send, &mut all, Blocks::new(&vec![len; size], &displs), 1)?;
    Ok(all.chunks(len.max(1)).map(<[u8]>::to_vec).collect())
}

/// Forgets the last element of a broadcast.
pub(crate) struct DropsTheLastElement;

impl Mutation<Reference> for DropsTheLastElement {
    fn broadcast(
        &self,
        comm: &Reference,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let mut all = buf.to_vec();
        comm.broadcast_bytes(&mut all, elem_size, root)?;
        let kept = buf.len().saturating_sub(elem_size);
        buf[..kept].copy_from_slice(&all[..kept]);
        Ok(())
    }
}

/// Computes the sum, whatever operation was requested.
pub(crate) struct IgnoresTheOperation;

impl Mutation<Reference> for IgnoresTheOperation {
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

/// Overwrites its own input with the preceding data and folds the result: the aliasing bug that an in-place
/// reduction invites.
pub(crate) struct FoldsItselfTwice;

impl Mutation<Reference> for FoldsItselfTwice {
    fn allreduce_in_place(
        &self,
        comm: &Reference,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let own = buf.to_vec();
        comm.allreduce_in_place_bytes(buf, scalar, op)?;
        op.fold_into(buf, &own, scalar)
    }
}

/// Makes a different call for an in-place reduction, so that it does not match ranks with two buffers.
pub(crate) struct CallsItSomethingElse;

impl Mutation<Reference> for CallsItSomethingElse {
    fn allreduce_in_place(
        &self,
        comm: &Reference,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let all = everybody(comm, buf)?;
        buf.copy_from_slice(&all[0]);
        let mut others = all[1..].iter();
        others.try_for_each(|next| op.fold_into(buf, next, scalar))
    }
}

/// Folds from the last rank to the first.
pub(crate) struct ReversesTheFold;

impl Mutation<Reference> for ReversesTheFold {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let all = everybody(comm, send)?;
        recv.copy_from_slice(&all[all.len() - 1]);
        for next in all.iter().rev().skip(1) {
            op.fold_into(recv, next, scalar)?;
        }
        Ok(())
    }
}

/// Returns the NaN of the lowest rank that has one, including its payload.
pub(crate) struct KeepsNanPayloads;

impl Mutation<Reference> for KeepsNanPayloads {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let all = everybody(comm, send)?;
        comm.allreduce_bytes(send, recv, scalar, op)?;
        if scalar == ScalarKind::F32 {
            for (at, out) in recv.chunks_mut(4).enumerate() {
                let mut values = all.iter().map(|data| &data[4 * at..4 * at + 4]);
                let nan = |bits: &&[u8]| {
                    let bits = <[u8; 4]>::try_from(*bits);
                    bits.is_ok_and(|bits| f32::from_ne_bytes(bits).is_nan())
                };
                if let Some(bits) = values.find(nan) {
                    out.copy_from_slice(bits);
                }
            }
        }
        Ok(())
    }
}

/// Treats both zeros as equal.
pub(crate) struct ForgetsSignedZero;

impl Mutation<Reference> for ForgetsSignedZero {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        comm.allreduce_bytes(send, recv, scalar, op)?;
        if scalar == ScalarKind::F32 && op == ReduceOp::Min {
            for out in recv.chunks_mut(4) {
                if *out == (-0.0_f32).to_ne_bytes() {
                    out.copy_from_slice(&0.0_f32.to_ne_bytes());
                }
            }
        }
        Ok(())
    }
}

/// Returns the result of the previous call, once in a thousand calls.
#[derive(Default)]
pub(crate) struct ReusesAStaleSlot {
    calls: AtomicUsize,
    last: Mutex<Vec<u8>>,
}

impl Mutation<Reference> for ReusesAStaleSlot {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        comm.allreduce_bytes(send, recv, scalar, op)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if self.calls.fetch_add(1, Ordering::Relaxed) > 500 {
            let stale = last.len().min(recv.len());
            recv[..stale].copy_from_slice(&last[..stale]);
        }
        *last = recv.to_vec();
        Ok(())
    }
}

/// Clears the receive buffer before it gathers.
pub(crate) struct OverwritesGaps;

impl Mutation<Reference> for OverwritesGaps {
    fn allgatherv(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        recv.fill(0);
        comm.allgatherv_bytes(send, recv, from, elem_size)
    }
}

/// Places blocks in rank order, whatever the displacements say.
pub(crate) struct SortsBlocks;

impl Mutation<Reference> for SortsBlocks {
    fn allgatherv(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let Blocks { counts, displs, .. } = from;
        let start = displs.iter().min().copied().unwrap_or(0);
        let sorted: Vec<usize> = counts
            .iter()
            .scan(start, |end, count| {
                let displ = *end;
                *end += count;
                Some(displ)
            })
            .collect();
        comm.allgatherv_bytes(send, recv, Blocks::new(counts, &sorted), elem_size)
    }
}
