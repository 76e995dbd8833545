//! The communicator of 0.18: a trait with typed methods, implemented for every type with the trait of `comm-api`.

use std::any::TypeId;

use comm_api::bytemuck::{cast_slice, cast_slice_mut};
use comm_api::{Operation, Reduce, ScalarKind, check};

use crate::error::CommError;
use crate::kind::ReduceOp;

/// Marks a type whose values can be sent: plain old data with a default.
///
/// Implemented for every scalar, for arrays of them, and for `repr(C)` structs that derive `Pod` and `Default`.
/// `bool`, tuples and structs with padding are not plain old data; 0.18 accepts them on one rank without MPI.
pub trait CommData: comm_api::CommData + Default {}

impl<T: comm_api::CommData + Default> CommData for T {}

/// Performs collective operations among the ranks of one job.
///
/// The trait of 0.18, with its required methods, so that mocks are written as before. Every communicator of
/// `comm-api` implements it; the contract of each call is documented there.
///
/// ```
/// use cobre_comm::{CommError, Communicator};
///
/// fn meet<C: Communicator>(comm: &C) -> Result<bool, CommError> {
///     comm.barrier()?;
///     Ok(comm.rank() < comm.size())
/// }
///
/// # fn main() -> Result<(), CommError> {
/// assert!(meet(&cobre_comm::LocalBackend)?);
/// # Ok(())
/// # }
/// ```
pub trait Communicator: Send + Sync {
    /// Gathers a block from every rank, on every rank: `counts[r]` elements of rank `r` from `recv[displs[r]]` on.
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidBufferSize`] if `counts` or `displs` does not have one entry per rank, `send` does not have
    /// the length of its count, a block ends past `recv` or two overlap. [`CommError::CollectiveFailed`] if the ranks
    /// cannot complete it together.
    #[track_caller]
    fn allgatherv<T: CommData>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
    ) -> Result<(), CommError>;

    /// Combines one buffer from every rank, element by element and in rank order, on every rank.
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidBufferSize`] if the lengths differ or are 0. [`CommError::CollectiveFailed`] for elements
    /// that are no scalars, for [`ReduceOp::BitwiseOr`] of floats, and if the ranks cannot complete it together.
    #[track_caller]
    fn allreduce<T: CommData>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError>;

    /// Sends the buffer of `root` to every rank.
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidRoot`] if `root` is not a rank. [`CommError::CollectiveFailed`] if the ranks cannot complete
    /// it together.
    #[track_caller]
    fn broadcast<T: CommData>(&self, buf: &mut [T], root: usize) -> Result<(), CommError>;

    /// Waits until every rank has called it.
    ///
    /// # Errors
    ///
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    #[track_caller]
    fn barrier(&self) -> Result<(), CommError>;

    /// Returns the rank of this process, in `0..size()`.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Ends this process with `error_code` (1 if it is 0), and the job with it.
    fn abort(&self, error_code: i32) -> !;
}

impl<C: comm_api::Communicator> Communicator for C {
    #[inline]
    fn allgatherv<T: CommData>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
    ) -> Result<(), CommError> {
        let gathered = comm_api::Communicator::allgatherv(self, send, recv, counts, displs);
        gathered.map_err(Into::into)
    }

    #[inline]
    fn allreduce<T: CommData>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError> {
        match reduction(send, recv, op) {
            Ok(scalar) => {
                let (send, recv) = (cast_slice(send), cast_slice_mut(recv));
                let reduced = self.allreduce_bytes(send, recv, scalar, op.into());
                reduced.map_err(Into::into)
            }
            Err(error) => {
                // Announce the refusal, so that the other ranks do not wait for this one.
                self.refuse(Operation::Allreduce, &error);
                Err(error.here().into())
            }
        }
    }

    #[inline]
    fn broadcast<T: CommData>(&self, buf: &mut [T], root: usize) -> Result<(), CommError> {
        comm_api::Communicator::broadcast(self, buf, root).map_err(Into::into)
    }

    #[inline]
    fn barrier(&self) -> Result<(), CommError> {
        comm_api::Communicator::barrier(self).map_err(Into::into)
    }

    #[inline]
    fn rank(&self) -> usize {
        comm_api::Communicator::rank(self)
    }

    #[inline]
    fn size(&self) -> usize {
        comm_api::Communicator::size(self)
    }

    fn abort(&self, error_code: i32) -> ! {
        comm_api::Communicator::abort(self, error_code)
    }
}

/// Checks a reduction as 0.18 does, and returns its scalar.
#[inline]
fn reduction<T: CommData>(
    send: &[T],
    recv: &[T],
    op: ReduceOp,
) -> Result<ScalarKind, comm_api::CommError> {
    let scalar = scalar::<T>();
    // Lengths are checked before the type, and different lengths before empty buffers.
    let checked = scalar.unwrap_or(ScalarKind::U8);
    check::allreduce(send.len(), recv.len(), checked, op.into())?;
    if send.is_empty() {
        return Err(comm_api::CommError::invalid_buffer_size(
            comm_api::Operation::Allreduce,
            comm_api::Argument::Send,
            1,
            0,
        ));
    }
    scalar.ok_or_else(|| {
        let element = std::any::type_name::<T>();
        let message = format!("{element} is no scalar; reduce its fields one by one");
        comm_api::CommError::failed("allreduce", comm_api::FailureKind::Refused, None, message)
    })
}

/// Returns the scalar that `T` is. The compiler knows the answer for each `T`.
#[inline]
fn scalar<T: 'static>() -> Option<ScalarKind> {
    macro_rules! find {
        ($($scalar:ty),+) => {
            $(if TypeId::of::<T>() == TypeId::of::<$scalar>() {
                return Some(<$scalar as Reduce>::SCALAR);
            })+
        };
    }
    find!(f64, i32, u64, i64, u32, f32, u8, i8, u16, i16, usize, isize);
    None
}
