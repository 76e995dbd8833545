//! A communicator that follows a script.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use comm_api::bytemuck::cast_slice;
use comm_api::{
    Blocks, CommData, CommError, Communicator, Operation, Reduce, ReduceOp, ScalarKind, check,
};

/// Answers the collectives of a program with the lines of a script, one after the other.
///
/// # Contract
///
/// - A collective takes the next line of the script. If the line is for another collective, or its data have
///   another length or element size, the collective panics and shows both.
/// - Arguments are checked as on every backend; a refused call takes no line.
/// - After a fatal error every later collective returns that error again, as on every backend.
/// - Dropping the communicator with lines left panics: the program did less than the script expects.
/// - [`abort`](Communicator::abort) panics, so that a test survives it.
///
/// It has no regions. Programs that need them can use [`threads`](crate::threads), whose regions are real: a
/// rank that returns from its body makes the next `fence` or `exchange` of the others fail, and a region that
/// is too large is `AllocationFailed` on all ranks.
///
/// ```
/// use comm_api::{CommError, Communicator, ReduceOp};
/// use comm_testing::Script;
///
/// fn mean<C: Communicator>(comm: &C, mine: f64) -> Result<f64, CommError> {
///     let mut sum = [0.0, 0.0];
///     comm.allreduce(&[mine, 1.0], &mut sum, ReduceOp::Sum)?;
///     Ok(sum[0] / sum[1])
/// }
///
/// // As if three others had sent 7 in all.
/// let comm = Script::new(0, 4).then_allreduce(&[8.0, 4.0]);
/// assert_eq!(mean(&comm, 1.0), Ok(2.0));
/// ```
#[derive(Debug)]
pub struct Script {
    rank: usize,
    size: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Scripted>,
    cause: Option<CommError>,
}

/// The result of the next collective.
#[derive(Debug)]
enum Scripted {
    /// The collective with this name writes these bytes to its buffer; `element` is the size of an element.
    Answer {
        operation: Operation,
        element: usize,
        bytes: Vec<u8>,
    },
    /// The collective fails, whichever it is.
    Fail(CommError),
}

impl Script {
    /// Creates a communicator that is `rank` of `size`, with an empty script.
    ///
    /// # Panics
    ///
    /// If `rank` is not below `size`.
    #[must_use]
    pub fn new(rank: usize, size: usize) -> Self {
        assert!(rank < size, "rank {rank} is not below size {size}");
        let state = Mutex::default();
        Self { rank, size, state }
    }

    /// Adds a line: a barrier that succeeds.
    #[must_use]
    pub fn then_barrier(self) -> Self {
        self.then(Operation::Barrier, 0, &[])
    }

    /// Adds a line: an `allgatherv` that leaves `recv` in the whole receive buffer.
    #[must_use]
    pub fn then_allgatherv<T: CommData>(self, recv: &[T]) -> Self {
        self.then(Operation::Allgatherv, size_of::<T>(), cast_slice(recv))
    }

    /// Adds a line: an `allreduce`, in place or not, with this result.
    #[must_use]
    pub fn then_allreduce<T: Reduce>(self, recv: &[T]) -> Self {
        self.then(Operation::Allreduce, size_of::<T>(), cast_slice(recv))
    }

    /// Adds a line: a `broadcast` after which the buffer holds `buf`.
    #[must_use]
    pub fn then_broadcast<T: CommData>(self, buf: &[T]) -> Self {
        self.then(Operation::Broadcast, size_of::<T>(), cast_slice(buf))
    }

    /// Adds a line: the next collective fails, whichever it is.
    #[must_use]
    pub fn then_fail(self, error: CommError) -> Self {
        self.lock().lines.push_back(Scripted::Fail(error));
        self
    }

    fn then(self, operation: Operation, element: usize, bytes: &[u8]) -> Self {
        let bytes = bytes.to_vec();
        self.lock().lines.push_back(Scripted::Answer {
            operation,
            element,
            bytes,
        });
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next line for `called`, and its bytes for `buf`.
    #[track_caller]
    fn follow(
        &self,
        called: Operation,
        called_element: usize,
        buf: &mut [u8],
    ) -> Result<(), CommError> {
        let mut state = self.lock();
        if let Some(cause) = &state.cause {
            return Err(cause.again(called));
        }
        match state.lines.pop_front() {
            Some(Scripted::Fail(error)) => {
                let error = error.again(called).here();
                if error.is_fatal() {
                    // Drops the remaining lines, which are for programs that continue after the error.
                    state.lines.clear();
                    state.cause = Some(error.clone());
                }
                Err(error)
            }
            Some(Scripted::Answer {
                operation,
                element,
                bytes,
            }) => {
                let wanted = (operation, bytes.len(), element);
                let is = (called, buf.len(), called_element);
                assert_eq!(
                    wanted, is,
                    "the script and the program differ (collective, bytes, bytes of an element)"
                );
                buf.copy_from_slice(&bytes);
                Ok(())
            }
            None => panic!("the script has ended, and the program calls {called}"),
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let left = self.lock().lines.len();
        assert!(
            left == 0 || std::thread::panicking(),
            "the program ended {left} lines before its script: {:?}",
            self.lock().lines
        );
    }
}

impl Communicator for Script {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.follow(Operation::Barrier, 0, &mut [])
    }

    fn abort(&self, code: i32) -> ! {
        panic!("rank {} called abort({code})", self.rank)
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (rank, size) = (self.rank, self.size);
        check::placed(check::allgatherv_bytes(
            rank, size, send, recv, from, elem_size,
        ))?;
        self.follow(Operation::Allgatherv, elem_size, recv)
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        check::placed(check::allreduce_bytes(send, recv, scalar, op))?;
        self.follow(Operation::Allreduce, scalar.size(), recv)
    }

    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        check::placed(check::allreduce_in_place_bytes(buf, scalar, op))?;
        self.follow(Operation::Allreduce, scalar.size(), buf)
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        check::placed(check::broadcast_bytes(self.size, buf, elem_size, root))?;
        self.follow(Operation::Broadcast, elem_size, buf)
    }
}
