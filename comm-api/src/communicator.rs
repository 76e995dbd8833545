//! The communicator: what a program calls and what a backend implements.

use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use crate::blocks::Blocks;
use crate::check;
use crate::element::{CommData, Reduce};
use crate::error::CommError;
use crate::label::Label;
use crate::memory;
use crate::op::{ReduceOp, ScalarKind};
use crate::operation::Operation;

/// Performs collective operations among the ranks of one job.
///
/// A program calls the typed methods ([`allgatherv`](Self::allgatherv),
/// [`allreduce`](Self::allreduce), [`broadcast`](Self::broadcast), [`barrier`](Self::barrier)),
/// generic over the backend. A backend implements the byte-level ones and begins each with the checks of
/// [`check`], so that a call is refused on a laptop for the same reason and with the same words as on a
/// cluster; the typed ones are provided once, on top.
///
/// # Contract
///
/// - **Identity.** `rank()` is in `0..size()`, unique, and never changes.
/// - **Same order.** All ranks call the same collectives in the same order, with arguments that
///   agree: element type, operation, root, length, counts. Backends that check give every rank
///   [`Mismatch`](crate::FailureKind::Mismatch) otherwise. Of the element type they compare the size and, for the scalars,
///   which one it is ([`Label`]): `f64` is not `u64`.
/// - **Same bits.** `allreduce` is a left fold in rank order, whatever the backend, the size or
///   the algorithm. That is enough for a fixed number of ranks: a sum of partial sums of `f64`
///   rounds differently when the parts change. Sums with the same bits for any number of ranks
///   and threads are in the crate `comm-exact`. Floats follow IEEE 754. A library that was linked
///   with `-ffast-math` may set FTZ and DAZ on the threads of its process when it is loaded, which
///   turns subnormal numbers into zeros. If only some of the ranks load such a library, they get
///   different bits; nothing checks that.
/// - **No interference.** Thousands of collectives may follow each other in any mix. Two threads
///   inside collectives of *one* communicator are refused
///   ([`Refused`](crate::FailureKind::Refused)); many communicators may live in one process.
/// - **Refusals are shared.** A rank whose arguments are refused returns at once; the others get
///   `Refused` with its rank and reason in that call, and the communicator stays usable.
/// - **Nothing hangs.** If a rank dies or never enters a call, the others get an error in bounded
///   time, and every later call returns that first cause again, see [`CommError::is_fatal`].
/// - **On MPI** the last two and the comparison of calls hold with `COBRE_COMM_CHECK=1`; without
///   it a call has no timeout, like the calls of MPI. A rank that dies ends the job.
/// - **Errors say where.** Every method that can fail is `#[track_caller]`, and so are the functions between it and the place
///   where the error is created. So an error ends with the file and the line of the call in the program, also through pointers,
///   wrappers and `dyn`. A method that is passed as a function (`.map(Communicator::barrier)`) has no such line, and names its own.
/// - **One outcome.** Whether a call succeeded is decided in one place, and all ranks that learn the
///   outcome learn the same one. One exception remains: a rank gives up alone when it receives
///   nothing any longer, at its timeout, or when it is interrupted. Its contribution may be in
///   flight by then, and the call may succeed on the others. No protocol over links that can fail
///   excludes this (the two generals' problem); the next call fails on all ranks.
///
/// Deliberately absent: point-to-point messages, non-blocking collectives, gather and scatter.
///
/// ```
/// use comm_api::{CommError, Communicator, ReduceOp};
///
/// fn mean<C: Communicator>(comm: &C, mine: &[f64]) -> Result<f64, CommError> {
///     let local = [mine.iter().sum::<f64>(), mine.len() as f64];
///     let mut global = [0.0; 2];
///     comm.allreduce(&local, &mut global, ReduceOp::Sum)?;
///     Ok(global[0] / global[1])
/// }
///
/// # fn main() -> Result<(), CommError> {
/// assert_eq!(mean(&comm_local::LocalBackend, &[1.0, 2.0, 6.0])?, 3.0);
/// # Ok(())
/// # }
/// ```
pub trait Communicator: Send + Sync {
    /// Returns the rank of this process, in `0..size()`.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Waits until every rank has entered.
    ///
    /// ```text
    ///          enters        leaves
    /// rank 0   ├─────────────────┤
    /// rank 1         ├───────────┤    no rank leaves before the last has entered
    /// rank 2                   ├─┤
    /// ```
    ///
    /// # Errors
    ///
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together,
    /// [`CommError::InvalidCommunicator`] in a forked child.
    ///
    /// ```
    /// # use comm_api::Communicator;
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// comm_local::LocalBackend.barrier()?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn barrier(&self) -> Result<(), CommError>;

    /// Ends this process with `code` (1 if `code` is 0) and the job with it.
    ///
    /// The current or next call of every other rank fails with
    /// [`Aborted`](crate::FailureKind::Aborted), naming this rank. Nothing is dropped and no
    /// destructor runs.
    fn abort(&self, code: i32) -> !;

    /// Gathers blocks of bytes; what a backend implements for [`allgatherv`](Self::allgatherv).
    ///
    /// The counts and displacements of `from` are in elements of `elem_size` bytes. The typed method passes what the program
    /// passed, and a direct call may pass anything: an implementation begins with [`check::allgatherv_bytes`], and announces a
    /// refusal as [`refuse`](Self::refuse) does.
    ///
    /// # Errors
    ///
    /// As [`allgatherv`](Self::allgatherv).
    #[track_caller]
    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError>;

    /// Reduces bytes; what a backend implements for [`allreduce`](Self::allreduce).
    ///
    /// With one rank `recv` is `send`, bit for bit. With more it is `send` of rank 0 folded with
    /// that of ranks 1, 2, .. by [`ReduceOp::fold_into`], element by element. An
    /// implementation begins with [`check::allreduce_bytes`].
    ///
    /// # Errors
    ///
    /// As [`allreduce`](Self::allreduce).
    #[track_caller]
    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError>;

    /// Reduces bytes in place; what a backend implements for
    /// [`allreduce_in_place`](Self::allreduce_in_place).
    ///
    /// The same call as [`allreduce_bytes`](Self::allreduce_bytes), with the same name and the same
    /// fingerprint: each rank chooses whether to pass one buffer or two. The default keeps a copy of
    /// `buf` for the duration of the call, and does not check first how much memory is free; the
    /// backends of this workspace need no copy. An implementation begins with
    /// [`check::allreduce_in_place_bytes`].
    ///
    /// # Errors
    ///
    /// As [`allreduce_in_place`](Self::allreduce_in_place), and [`CommError::AllocationFailed`] if the
    /// allocator has no room for the copy; the others then get [`Refused`](crate::FailureKind::Refused).
    #[track_caller]
    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let copy = check::allreduce_in_place_bytes(buf, scalar, op)
            .and_then(|()| memory::zeroed_vec::<u8>(buf.len()));
        match copy {
            Ok(mut send) => {
                send.copy_from_slice(buf);
                self.allreduce_bytes(&send, buf, scalar, op)
            }
            Err(error) => refused(self, Operation::Allreduce, error),
        }
    }

    /// Distributes bytes; what a backend implements for [`broadcast`](Self::broadcast).
    ///
    /// An implementation begins with [`check::broadcast_bytes`].
    ///
    /// # Errors
    ///
    /// As [`broadcast`](Self::broadcast).
    #[track_caller]
    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError>;

    /// Announces to the other ranks that this one refused the arguments of `operation`.
    ///
    /// Called by methods that are written on top of the byte level, just before they return `error`. A backend that checks takes
    /// one place in the sequence and lets the matching call of the others fail with
    /// [`Refused`](crate::FailureKind::Refused), this rank and the reason, without waiting for
    /// them. The default does nothing, which is right if there are no other ranks.
    #[track_caller]
    fn refuse(&self, operation: Operation, error: &CommError) {
        let _ = (operation, error);
    }

    /// Gathers a block from every rank, on every rank.
    ///
    /// Block `r` of `recv`, `counts[r]` elements from `displs[r]` on, receives what rank `r`
    /// sends. Elements of `recv` outside every block stay unchanged.
    ///
    /// ```text
    ///          before            after, on every rank
    /// rank 0   send [a b]        recv [a b . c d e]
    /// rank 1   send [c]               counts [2, 1, 2]
    /// rank 2   send [d e]             displs [0, 3, 4]
    /// ```
    ///
    /// # Contract
    ///
    /// All ranks pass the same `counts`. `displs` are local to each rank: they need not be
    /// monotone or contiguous and may differ between ranks. Zero counts are fine. No rank returns
    /// before all have contributed.
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidBufferSize`], in this order, if `counts` or `displs` does not have one
    /// entry per rank, `send` does not have `counts[rank()]` elements, a block ends past `recv`,
    /// or two blocks overlap. [`CommError::CollectiveFailed`] if the ranks cannot complete it
    /// together.
    ///
    /// ```
    /// # use comm_api::Communicator;
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// let mut recv = [0.0; 4];
    /// comm_local::LocalBackend.allgatherv(&[1.5, 2.5], &mut recv, &[2], &[1])?;
    /// assert_eq!(recv, [0.0, 1.5, 2.5, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    fn allgatherv<T: CommData>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
    ) -> Result<(), CommError>
    where
        Self: Sized,
    {
        if size_of::<T>() == 0 {
            // The byte level cannot count them.
            let (rank, size) = (self.rank(), self.size());
            let checked = check::allgatherv(rank, size, send.len(), recv.len(), counts, displs);
            if let Err(error) = checked {
                return refused(self, Operation::Allgatherv, error);
            }
        }
        let (send, recv) = (cast_slice(send), cast_slice_mut(recv));
        let _labelled = Label::of::<T>().put();
        self.allgatherv_bytes(send, recv, Blocks::new(counts, displs), size_of::<T>())
    }

    /// Combines one buffer from every rank, element by element, on every rank.
    ///
    /// ```text
    ///          before              after, on every rank
    /// rank 0   send [a0 b0]        recv [(a0 + a1) + a2   (b0 + b1) + b2]
    /// rank 1   send [a1 b1]
    /// rank 2   send [a2 b2]
    /// ```
    ///
    /// # Contract
    ///
    /// Per element a left fold in rank order, see [`ReduceOp::fold_into`]: the same bits
    /// on every rank and every backend. With one rank the result is the input, bit for bit.
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidBufferSize`] if the lengths differ,
    /// [`CommError::UnsupportedReduction`] for a bitwise operation on floats.
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    ///
    /// ```
    /// # use comm_api::{Communicator, ReduceOp};
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// let mut least = [0_i32; 2];
    /// comm_local::LocalBackend.allreduce(&[7, -3], &mut least, ReduceOp::Min)?;
    /// assert_eq!(least, [7, -3]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    fn allreduce<T: Reduce>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError>
    where
        Self: Sized,
    {
        self.allreduce_bytes(cast_slice(send), cast_slice_mut(recv), T::SCALAR, op)
    }

    /// Combines one buffer from every rank, element by element, and replaces it by the result.
    ///
    /// ```text
    ///          before             after, on every rank
    /// rank 0   buf [a0 b0]        buf [(a0 + a1) + a2   (b0 + b1) + b2]
    /// rank 1   buf [a1 b1]
    /// rank 2   buf [a2 b2]
    /// ```
    ///
    /// # Contract
    ///
    /// [`allreduce`](Self::allreduce) with one buffer instead of two: the same bits, and the same call.
    /// Some ranks may pass one buffer and others two, and errors call it `allreduce`. On local, shm and tcp no
    /// second buffer is allocated internally.
    ///
    /// # Errors
    ///
    /// [`CommError::UnsupportedReduction`] for a bitwise operation on floats.
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    ///
    /// ```
    /// # use comm_api::{Communicator, ReduceOp};
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// let mut gradient = [0.5, -2.0];
    /// comm_local::LocalBackend.allreduce_in_place(&mut gradient, ReduceOp::Sum)?;
    /// assert_eq!(gradient, [0.5, -2.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    fn allreduce_in_place<T: Reduce>(&self, buf: &mut [T], op: ReduceOp) -> Result<(), CommError>
    where
        Self: Sized,
    {
        self.allreduce_in_place_bytes(cast_slice_mut(buf), T::SCALAR, op)
    }

    /// Sends the buffer of `root` to every rank.
    ///
    /// ```text
    ///          before           after
    /// rank 0   buf [. .]        buf [x y]
    /// rank 1   buf [x y]        buf [x y]     root = 1
    /// rank 2   buf [. .]        buf [x y]
    /// ```
    ///
    /// # Contract
    ///
    /// All ranks pass the same `root` and a buffer of the same length; zero is fine.
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidRoot`] if `root` is not a rank.
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    ///
    /// ```
    /// # use comm_api::{CommError, Communicator};
    /// # fn main() -> Result<(), CommError> {
    /// let mut seed = [42_u64];
    /// comm_local::LocalBackend.broadcast(&mut seed, 0)?;
    /// assert_eq!(seed, [42]);
    /// let error = comm_local::LocalBackend.broadcast(&mut seed, 1);
    /// assert_eq!(error, Err(CommError::invalid_root("broadcast", 1, 1)));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    fn broadcast<T: CommData>(&self, buf: &mut [T], root: usize) -> Result<(), CommError>
    where
        Self: Sized,
    {
        let _labelled = Label::of::<T>().put();
        self.broadcast_bytes(cast_slice_mut(buf), size_of::<T>(), root)
    }
}

/// Announces a refusal to the other ranks and returns it.
#[cold]
#[track_caller]
pub(crate) fn refused<C: Communicator + ?Sized, R>(
    comm: &C,
    operation: Operation,
    error: CommError,
) -> Result<R, CommError> {
    comm.refuse(operation, &error);
    Err(error.here())
}

/// Forwards the object-safe methods through a pointer; the typed ones are provided on top.
macro_rules! forward {
    ($($pointer:ty),+) => {$(
        impl<C: Communicator + ?Sized> Communicator for $pointer {
            #[inline]
            fn rank(&self) -> usize {
                (**self).rank()
            }

            #[inline]
            fn size(&self) -> usize {
                (**self).size()
            }

            #[inline]
            fn barrier(&self) -> Result<(), CommError> {
                (**self).barrier()
            }

            fn abort(&self, code: i32) -> ! {
                (**self).abort(code)
            }

            #[inline]
            fn allgatherv_bytes(
                &self,
                send: &[u8],
                recv: &mut [u8],
                from: Blocks<'_>,
                elem_size: usize,
            ) -> Result<(), CommError> {
                (**self).allgatherv_bytes(send, recv, from, elem_size)
            }

            #[inline]
            fn allreduce_bytes(
                &self,
                send: &[u8],
                recv: &mut [u8],
                scalar: ScalarKind,
                op: ReduceOp,
            ) -> Result<(), CommError> {
                (**self).allreduce_bytes(send, recv, scalar, op)
            }

            #[inline]
            fn allreduce_in_place_bytes(
                &self,
                buf: &mut [u8],
                scalar: ScalarKind,
                op: ReduceOp,
            ) -> Result<(), CommError> {
                (**self).allreduce_in_place_bytes(buf, scalar, op)
            }

            #[inline]
            fn broadcast_bytes(
                &self,
                buf: &mut [u8],
                elem_size: usize,
                root: usize,
            ) -> Result<(), CommError> {
                (**self).broadcast_bytes(buf, elem_size, root)
            }

            fn refuse(&self, operation: Operation, error: &CommError) {
                (**self).refuse(operation, error);
            }
        }
    )+};
}

forward!(Box<C>, &C, Arc<C>);
