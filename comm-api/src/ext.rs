//! Convenience methods on top of the core trait, which stays small.

use bytemuck::{bytes_of, pod_read_unaligned};

use crate::communicator::{Communicator, refused};
use crate::element::{CommData, Reduce};
use crate::error::{Argument, CommError};
use crate::memory;
use crate::op::{ReduceOp, ScalarKind};
use crate::operation::Operation;

/// Adds the short forms of the collectives to every [`Communicator`].
///
/// Each uses only the collectives of the core trait, so it behaves the same on every backend; errors
/// carry the name of the core method.
pub trait CommunicatorExt: Communicator + Sized {
    /// Gathers blocks of equal length from every rank, in rank order.
    ///
    /// ```text
    ///          before            after, on every rank
    /// rank 0   send [a b]        recv [a b c d e f]
    /// rank 1   send [c d]
    /// rank 2   send [e f]
    /// ```
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidBufferSize`] if `recv` does not have `size() * send.len()` elements;
    /// otherwise as [`Communicator::allgatherv`].
    ///
    /// ```
    /// # use comm_api::CommunicatorExt;
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// let mut all = [0; 2];
    /// comm_local::LocalBackend.allgather(&[3, 4], &mut all)?;
    /// assert_eq!(all, [3, 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn allgather<T: CommData>(&self, send: &[T], recv: &mut [T]) -> Result<(), CommError> {
        let (size, len) = (self.size(), send.len());
        if size.checked_mul(len) != Some(recv.len()) {
            let error = CommError::invalid_buffer_size(
                Operation::Other("allgather"),
                Argument::Recv,
                size.saturating_mul(len),
                recv.len(),
            );
            return refused(self, Operation::Other("allgather"), error);
        }
        let counts = std::iter::repeat_n(len, size);
        let layout: Vec<usize> = counts.chain((0..size).map(|rank| rank * len)).collect();
        let (counts, displs) = layout.split_at(size);
        self.allgatherv(send, recv, counts, displs)
    }

    /// Gathers blocks of any length from every rank: the data in rank order, and the counts.
    ///
    /// Two collectives: one for the lengths, one for the data.
    ///
    /// ```text
    ///          before          after, on every rank
    /// rank 0   [a b]           ([a b c d e], [2, 1, 2])
    /// rank 1   [c]
    /// rank 2   [d e]
    /// ```
    ///
    /// # Errors
    ///
    /// [`CommError::AllocationFailed`] if the allocator of this rank has no room for the data; the others then get
    /// [`Refused`](crate::FailureKind::Refused). Free memory is not checked: a system that overcommits memory may kill
    /// the process instead. Otherwise as [`Communicator::allgatherv`].
    ///
    /// ```
    /// # use comm_api::CommunicatorExt;
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// let (all, counts) = comm_local::LocalBackend.allgather_vec(&[1.0, 2.0])?;
    /// assert_eq!((all, counts), (vec![1.0, 2.0], vec![2]));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn allgather_vec<T: CommData>(&self, send: &[T]) -> Result<(Vec<T>, Vec<usize>), CommError> {
        let mut counts = vec![0; self.size()];
        self.allgather(&[send.len()], &mut counts)?;
        let mut total = 0_usize;
        let mut displs = Vec::with_capacity(counts.len());
        for &count in &counts {
            displs.push(total);
            total = total.saturating_add(count);
        }
        let mut all = match memory::zeroed_vec(total) {
            Ok(all) => all,
            Err(error) => return refused(self, Operation::Other("allgather_vec"), error),
        };
        self.allgatherv(send, &mut all, &counts, &displs)?;
        Ok((all, counts))
    }

    /// Combines one value from every rank, on every rank.
    ///
    /// # Errors
    ///
    /// As [`Communicator::allreduce`].
    ///
    /// ```
    /// # use comm_api::{CommunicatorExt, ReduceOp};
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// assert_eq!(comm_local::LocalBackend.allreduce_scalar(2.5, ReduceOp::Sum)?, 2.5);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn allreduce_scalar<T: Reduce>(&self, value: T, op: ReduceOp) -> Result<T, CommError> {
        let mut result = [value];
        self.allreduce(&[value], &mut result, op)?;
        Ok(result[0])
    }

    /// Returns the smallest of the values of all ranks, and the lowest rank that has it.
    ///
    /// As [`ReduceOp::Min`] compares: -0 < +0, and a NaN is smaller than every number. Two collectives: one for the
    /// value, one for the rank.
    ///
    /// # Errors
    ///
    /// As [`Communicator::allreduce`].
    ///
    /// ```
    /// # use comm_api::CommunicatorExt;
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// assert_eq!(comm_local::LocalBackend.min_loc(2.5)?, (2.5, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn min_loc<T: Reduce>(&self, value: T) -> Result<(T, usize), CommError> {
        locate(self, value, ReduceOp::Min)
    }

    /// Returns the largest of the values of all ranks, and the lowest rank that has it.
    ///
    /// As [`ReduceOp::Max`] compares: -0 < +0, and a NaN is larger than every number. Two collectives: one for the
    /// value, one for the rank.
    ///
    /// # Errors
    ///
    /// As [`Communicator::allreduce`].
    ///
    /// ```
    /// # use comm_api::CommunicatorExt;
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// assert_eq!(comm_local::LocalBackend.max_loc(-7_i32)?, (-7, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn max_loc<T: Reduce>(&self, value: T) -> Result<(T, usize), CommError> {
        locate(self, value, ReduceOp::Max)
    }

    /// Sends the value of `root` to every rank.
    ///
    /// # Errors
    ///
    /// As [`Communicator::broadcast`].
    ///
    /// ```
    /// # use comm_api::CommunicatorExt;
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// assert_eq!(comm_local::LocalBackend.broadcast_value(7_u32, 0)?, 7);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn broadcast_value<T: CommData>(&self, value: T, root: usize) -> Result<T, CommError> {
        let mut buf = [value];
        self.broadcast(&mut buf, root)?;
        Ok(buf[0])
    }
}

impl<C: Communicator> CommunicatorExt for C {}

/// Finds the result of `op` and the lowest rank that has this value. The result has the bits of some rank's value; only a NaN is
/// replaced by the canonical one.
#[track_caller]
fn locate<C: Communicator, T: Reduce>(
    comm: &C,
    value: T,
    op: ReduceOp,
) -> Result<(T, usize), CommError> {
    let found = comm.allreduce_scalar(value, op)?;
    let (mine, found_bytes) = (bytes_of(&value), bytes_of(&found));
    let is_mine = mine == found_bytes || (is_nan::<T>(mine) && is_nan::<T>(found_bytes));
    let candidate = if is_mine { comm.rank() } else { usize::MAX };
    Ok((found, comm.allreduce_scalar(candidate, ReduceOp::Min)?))
}

/// Returns whether the bytes of a scalar are a NaN.
fn is_nan<T: Reduce>(bytes: &[u8]) -> bool {
    match T::SCALAR {
        ScalarKind::F32 => pod_read_unaligned::<f32>(bytes).is_nan(),
        ScalarKind::F64 => pod_read_unaligned::<f64>(bytes).is_nan(),
        _ => false,
    }
}
