//! Which reductions MPI may compute: those whose bits do not depend on the order.

use comm_api::{CommError, Operation, ReduceOp, ScalarKind};
use ferrompi::{Error, ReduceOp as MpiOp};

use crate::chunk::MOST;
use crate::config::MpiReduce;
use crate::element::{Word, with_words, words};
use crate::ranks::{Ranks, Trouble};

impl Ranks {
    /// Combines the buffers of all ranks; without `send`, the input of this rank is in `recv`. Ranks with one
    /// buffer and ranks with two make the same MPI calls.
    ///
    /// Sums and products of signed integers are computed as unsigned ones of the same width: the same bits,
    /// without overflow, which is undefined in C. Types that MPI lacks are folded here, and so are operations
    /// on which the libraries disagree: MPICH 4.0 compares unsigned integers as if they were signed, and Open
    /// MPI 4.1 adds bytes with saturation.
    #[inline]
    pub(crate) fn allreduce(
        &self,
        scratch: &mut Vec<u64>,
        send: Option<&[u8]>,
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), Trouble> {
        use ReduceOp::{BitwiseAnd, BitwiseOr, BitwiseXor, Max, Min, Prod, Sum};
        use ScalarKind::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        if self.size == 1 || recv.is_empty() {
            // A single rank, or nothing to combine: an empty buffer is not passed to MPI.
            if let Some(send) = send {
                recv.copy_from_slice(send);
            }
            return Ok(());
        }
        let native = self.reduce() == MpiReduce::Native;
        let done = match (scalar, op) {
            (I64 | U64, Sum | Prod | BitwiseOr | BitwiseAnd | BitwiseXor) => {
                self.reduce_as::<u64>(send, recv, op)
            }
            (I32 | U32, Sum | Prod | BitwiseOr | BitwiseAnd | BitwiseXor) => {
                self.reduce_as::<u32>(send, recv, op)
            }
            (I8 | U8 | I16 | U16, BitwiseOr | BitwiseAnd | BitwiseXor) => {
                self.reduce_as::<u8>(send, recv, op)
            }
            (I64, Min | Max) => self.reduce_as::<i64>(send, recv, op),
            (I32, Min | Max) => self.reduce_as::<i32>(send, recv, op),
            (F64, Sum) if native => self.reduce_as::<f64>(send, recv, op),
            (F32, Sum) if native => self.reduce_as::<f32>(send, recv, op),
            (F32 | F64 | I8 | U8 | I16 | U16, Sum | Prod | Min | Max) | (U32 | U64, Min | Max) => {
                return self.fold_in_order(scratch, send, recv, scalar, op);
            }
            (F32 | F64, BitwiseOr | BitwiseAnd | BitwiseXor) => {
                return Err(
                    CommError::unsupported_reduction(Operation::Allreduce, op, scalar).into(),
                );
            }
        };
        Ok(done?)
    }

    #[inline]
    fn reduce_as<W: Word>(
        &self,
        send: Option<&[u8]>,
        recv: &mut [u8],
        op: ReduceOp,
    ) -> Result<(), Error> {
        let op = match op {
            ReduceOp::Sum => MpiOp::Sum,
            ReduceOp::Min => MpiOp::Min,
            ReduceOp::Max => MpiOp::Max,
            ReduceOp::BitwiseOr => MpiOp::BitwiseOr,
            ReduceOp::BitwiseAnd => MpiOp::BitwiseAnd,
            ReduceOp::Prod => MpiOp::Prod,
            ReduceOp::BitwiseXor => MpiOp::BitwiseXor,
        };
        let send = send.map(words::<W>);
        with_words(recv, |recv: &mut [W]| {
            let mut pieces = recv.chunks_mut(MOST);
            let Some(send) = &send else {
                return pieces.try_for_each(|buf| self.comm().allreduce_inplace(buf, op));
            };
            let mut pieces = send.chunks(MOST).zip(pieces);
            pieces.try_for_each(|(send, recv)| self.comm().allreduce(send, recv, op))
        })
    }
}
