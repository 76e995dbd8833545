//! Mutants: communicators with one defect each, and how tests show that a case or a round of chaos notices
//! it.
//!
//! Not public: a backend has [`main`](crate::main).

use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use comm_api::{
    Blocks, CommData, CommError, Communicator, Operation, ReduceOp, ScalarKind,
    SharedMemoryProvider, SharedRegion, bytemuck, check,
};

use crate::chaos::{Fault, Round};
use crate::driver::{Job, Options};
use crate::orders::{Orders, Placement};
use crate::subject::{Seat, Subject};
use crate::{driver, rank, rank_cases, suite};

/// Changes one thing about a communicator `C`. Every method gets the correct communicator, and does the right
/// thing unless a mutation overrides it.
pub trait Mutation<C: Communicator + SharedMemoryProvider>: Send + Sync {
    /// Returns the seat that the communicator really takes.
    fn seat(&self, seat: Seat) -> Seat {
        seat
    }

    /// Stands for [`Communicator::rank`].
    fn rank(&self, comm: &C) -> usize {
        comm.rank()
    }

    /// Stands for [`Communicator::size`].
    fn size(&self, comm: &C) -> usize {
        comm.size()
    }

    /// Stands for [`Communicator::barrier`].
    #[track_caller]
    fn barrier(&self, comm: &C) -> Result<(), CommError> {
        comm.barrier()
    }

    /// Stands for [`Communicator::allgatherv_bytes`].
    #[track_caller]
    fn allgatherv(
        &self,
        comm: &C,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (rank, size) = (comm.rank(), comm.size());
        let checked = check::allgatherv_bytes(rank, size, send, recv, from, elem_size);
        refused(self, comm, Operation::Allgatherv, checked)?;
        comm.allgatherv_bytes(send, recv, from, elem_size)
    }

    /// Stands for [`Communicator::allreduce_bytes`].
    #[track_caller]
    fn allreduce(
        &self,
        comm: &C,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let checked = check::allreduce_bytes(send, recv, scalar, op);
        refused(self, comm, Operation::Allreduce, checked)?;
        comm.allreduce_bytes(send, recv, scalar, op)
    }

    /// Stands for [`Communicator::allreduce_in_place_bytes`].
    #[track_caller]
    fn allreduce_in_place(
        &self,
        comm: &C,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let checked = check::allreduce_in_place_bytes(buf, scalar, op);
        refused(self, comm, Operation::Allreduce, checked)?;
        comm.allreduce_in_place_bytes(buf, scalar, op)
    }

    /// Stands for [`Communicator::broadcast_bytes`].
    #[track_caller]
    fn broadcast(
        &self,
        comm: &C,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let checked = check::broadcast_bytes(comm.size(), buf, elem_size, root);
        refused(self, comm, Operation::Broadcast, checked)?;
        comm.broadcast_bytes(buf, elem_size, root)
    }

    /// Stands for [`Communicator::refuse`].
    fn refuse(&self, comm: &C, operation: Operation, error: &CommError) {
        comm.refuse(operation, error);
    }

    /// Changes what this rank has written, just before the fence that publishes it.
    fn before_fence(&self, written: &mut [u8]) {
        let _ = written;
    }

    /// Changes the error of a fence.
    fn fence_error(&self, error: CommError) -> CommError {
        error
    }

    /// Changes how many elements of a gathered region this rank requests.
    fn gathered_count(&self, comm: &C, count: usize) -> usize {
        let _ = comm;
        count
    }

    /// Changes what this rank has written, just before the exchange that publishes it.
    fn before_exchange(&self, comm: &C, written: &mut [u8]) {
        let _ = (comm, written);
    }

    /// Changes the outcome of an exchange.
    fn exchanged(&self, result: Result<(), CommError>) -> Result<(), CommError> {
        result
    }

    /// Returns whether a gathered region can be read before it was exchanged.
    fn reads_early(&self) -> bool {
        false
    }

    /// Changes the error of any call.
    fn error(&self, comm: &C, error: CommError) -> CommError {
        let _ = comm;
        error
    }
}

/// Passes on the result of a check, and lets the mutation announce a refusal: the wrapped communicator would do so by itself.
#[track_caller]
fn refused<C, M: Mutation<C> + ?Sized>(
    mutation: &M,
    comm: &C,
    operation: Operation,
    checked: Result<(), CommError>,
) -> Result<(), CommError>
where
    C: Communicator + SharedMemoryProvider,
{
    let checked = check::placed(checked);
    if let Err(error) = &checked {
        mutation.refuse(comm, operation, error);
    }
    checked
}

/// Wraps a communicator and applies its mutation.
pub struct Mutant<C, M: ?Sized> {
    comm: C,
    mutation: Arc<M>,
}

impl<C: Communicator + SharedMemoryProvider, M: Mutation<C> + ?Sized> Mutant<C, M> {
    /// Wraps `comm`.
    pub fn new(comm: C, mutation: Arc<M>) -> Self {
        Self { comm, mutation }
    }

    fn changed<T>(&self, result: Result<T, CommError>) -> Result<T, CommError> {
        result.map_err(|error| self.mutation.error(&self.comm, error))
    }

    fn region<T: CommData>(
        &self,
        created: Result<C::Region<T>, CommError>,
    ) -> Result<MutantRegion<C, M, T>, CommError> {
        Ok(MutantRegion {
            region: self.changed(created)?,
            writing: true,
            mutation: Arc::clone(&self.mutation),
        })
    }
}

impl<C: Communicator + SharedMemoryProvider, M: Mutation<C> + ?Sized> Communicator
    for Mutant<C, M>
{
    fn rank(&self) -> usize {
        self.mutation.rank(&self.comm)
    }

    fn size(&self) -> usize {
        self.mutation.size(&self.comm)
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.changed(self.mutation.barrier(&self.comm))
    }

    fn abort(&self, code: i32) -> ! {
        self.comm.abort(code)
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (mutation, comm) = (&self.mutation, &self.comm);
        self.changed(mutation.allgatherv(comm, send, recv, from, elem_size))
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let (mutation, comm) = (&self.mutation, &self.comm);
        self.changed(mutation.allreduce(comm, send, recv, scalar, op))
    }

    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let (mutation, comm) = (&self.mutation, &self.comm);
        self.changed(mutation.allreduce_in_place(comm, buf, scalar, op))
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let (mutation, comm) = (&self.mutation, &self.comm);
        self.changed(mutation.broadcast(comm, buf, elem_size, root))
    }

    fn refuse(&self, operation: Operation, error: &CommError) {
        self.mutation.refuse(&self.comm, operation, error);
    }
}

impl<C, M> SharedMemoryProvider for Mutant<C, M>
where
    C: Communicator + SharedMemoryProvider,
    M: Mutation<C> + ?Sized,
{
    type Region<T: CommData> = MutantRegion<C, M, T>;

    fn create_shared_region<T: CommData>(
        &self,
        count: usize,
    ) -> Result<Self::Region<T>, CommError> {
        self.region(self.comm.create_shared_region(count))
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<Self::Region<T>, CommError> {
        self.region(self.comm.create_partitioned_region(local_count))
    }

    fn create_gathered_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<Self::Region<T>, CommError> {
        let count = self.mutation.gathered_count(&self.comm, local_count);
        self.region(self.comm.create_gathered_region(count))
    }

    fn exchange<T: CommData>(&self, region: &mut Self::Region<T>) -> Result<(), CommError> {
        if region.writing {
            let written = bytemuck::cast_slice_mut(region.region.as_mut_slice());
            self.mutation.before_exchange(&self.comm, written);
        }
        let result = self.comm.exchange(&mut region.region);
        if !matches!(&result, Err(error) if !error.is_fatal()) {
            region.writing = false;
        }
        self.changed(self.mutation.exchanged(result))
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        self.changed(self.comm.split_local())
    }

    fn is_leader(&self) -> bool {
        self.comm.is_leader()
    }
}

impl<C: fmt::Debug, M: ?Sized> fmt::Debug for Mutant<C, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mutant").field(&self.comm).finish()
    }
}

/// Wraps the region of a mutant's communicator.
pub struct MutantRegion<C: SharedMemoryProvider, M: ?Sized, T: CommData> {
    region: C::Region<T>,
    writing: bool,
    mutation: Arc<M>,
}

impl<C, M, T> SharedRegion<T> for MutantRegion<C, M, T>
where
    C: Communicator + SharedMemoryProvider,
    M: Mutation<C> + ?Sized,
    T: CommData,
{
    fn as_slice(&self) -> &[T] {
        if self.writing && self.mutation.reads_early() {
            return &[];
        }
        self.region.as_slice()
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        self.region.as_mut_slice()
    }

    fn fence(&mut self) -> Result<(), CommError> {
        // A failed fence leaves a broken handle, which must not be written.
        let writing = std::mem::take(&mut self.writing);
        if writing {
            let written = bytemuck::cast_slice_mut(self.region.as_mut_slice());
            self.mutation.before_fence(written);
        }
        let result = self.region.fence();
        self.writing = match &result {
            Ok(()) => !writing,
            Err(error) => writing && !error.is_fatal(),
        };
        result.map_err(|error| self.mutation.fence_error(error))
    }
}

impl<C: SharedMemoryProvider, M: ?Sized, T: CommData> fmt::Debug for MutantRegion<C, M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutantRegion").finish_non_exhaustive()
    }
}

/// Returns the name of the subject that this process was started as a rank of, if it was.
#[must_use]
pub fn ordered_subject() -> Option<String> {
    Some(Orders::from_env()?.ok()?.subject)
}

/// Runs this process as a rank of `S`.
#[must_use]
pub fn rank_role<S: Subject>() -> ExitCode {
    match Orders::from_env() {
        Some(Ok(orders)) => rank::main(&rank_cases::<S>(), &orders),
        _ => driver::usage("this process was not started as a rank"),
    }
}

/// Runs one case in one world, with ranks that are ordered to run `subject`.
///
/// # Errors
///
/// If the case fails, as it should on a mutant: what went wrong.
///
/// # Panics
///
/// If there is no such case: the test would show nothing.
pub fn run_case<S: Subject>(
    subject: &'static str,
    case: &str,
    world: usize,
    threads: bool,
) -> Result<(), String> {
    let mut cases = suite::cases::<S>().into_iter();
    let Some(case) = cases.find(|known| known.name == case) else {
        panic!("there is no case '{case}'");
    };
    let placement = if threads {
        Placement::Threads
    } else {
        Placement::Processes
    };
    let job = Job::new::<S>(Arc::new(case), world, placement, &Options::default());
    job.of(subject).run().map(drop)
}

/// Runs a round with one kind of fault, with ranks that are ordered to run `subject`.
///
/// # Errors
///
/// If the round fails, as it should on a mutant: what went wrong.
///
/// # Panics
///
/// If there is no such fault: the test would show nothing.
pub fn run_chaos<S: Subject>(
    subject: &'static str,
    fault: &str,
    world: usize,
    seed: u64,
) -> Result<(), String> {
    let fault = match Fault::from_str(fault, false) {
        Ok(fault) => fault,
        Err(reason) => panic!("'{fault}': {reason}"),
    };
    let round = Round::new::<S>(fault, seed, world);
    round.of(subject).run().map(drop)
}
