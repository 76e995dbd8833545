//! The reference, with which all other communicators are compared: threads, one mutex, one condition
//! variable.
//!
//! The code is meant to be obviously correct, not fast. Every collective is a meeting: each rank stores its
//! call and its contribution, waits until all ranks have, and takes the contributions of all.
//!
//! The conformance suite uses the reference as its oracle and as its first subject with more than one rank.
//! For tests, not a backend for programs.

mod fold;
mod meeting;
mod region;

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comm_api::{
    Blocks, CommData, CommError, Communicator, Operation, ReduceOp, ScalarKind,
    SharedMemoryProvider, check,
};
use comm_kit::words::Lost;
use comm_kit::{Call, Gate, Pass, Transport, exit_code};

#[doc(hidden)]
pub use fold::{Plain, fold_all};
use meeting::{Meeting, Met};
pub use region::ReferenceRegion;

/// Takes part as one rank; dropping it leaves the communicator.
#[derive(Debug)]
pub struct Reference {
    gate: Gate<Member>,
}

/// The transport to the other ranks of one meeting. A call changes the number of the next step.
#[derive(Debug)]
struct Member {
    rank: usize,
    meeting: Arc<Meeting>,
}

impl Transport for Member {
    type State = u64;

    fn refuse(&self, step: &mut u64, reason: &str) {
        self.meeting.refuse(self.rank, *step, reason);
        *step += 1;
    }

    fn panicked(&self, _: &mut u64) {
        self.meeting.leave(self.rank, Lost::PanickedInside);
    }
}

/// The meetings that still have free seats, by name.
static FOYER: Mutex<Option<HashMap<String, Arc<Meeting>>>> = Mutex::new(None);

impl Reference {
    /// Joins the communicator `name` of this process as `rank`, and waits for the others.
    ///
    /// # Errors
    ///
    /// If the seat is taken, the size disagrees, or the others do not join within the timeout.
    pub fn open(
        name: &str,
        rank: usize,
        size: usize,
        timeout: Option<Duration>,
    ) -> Result<Self, CommError> {
        let meeting = {
            let mut foyer = FOYER.lock().unwrap_or_else(PoisonError::into_inner);
            let foyer = foyer.get_or_insert_default();
            let meeting = foyer
                .entry(name.to_owned())
                .or_insert_with(|| Arc::new(Meeting::new(size, timeout)));
            let meeting = Arc::clone(meeting);
            if meeting.sit(rank, size)? {
                foyer.remove(name);
            }
            meeting
        };
        let comm = Self::at(rank, meeting);
        comm.barrier()?;
        Ok(comm)
    }

    /// Creates the communicators of all ranks of a world.
    pub(crate) fn world(size: usize, timeout: Duration) -> Vec<Self> {
        let meeting = Arc::new(Meeting::new(size, Some(timeout)));
        let ranks = 0..size;
        ranks
            .map(|rank| Self::at(rank, Arc::clone(&meeting)))
            .collect()
    }

    fn at(rank: usize, meeting: Arc<Meeting>) -> Self {
        let member = Member { rank, meeting };
        Self {
            gate: Gate::new(rank, member, 0),
        }
    }

    /// Meets the other ranks in `call`, with `data`.
    #[track_caller]
    fn meet(&self, call: Call, data: &[u8]) -> Result<Met, CommError> {
        meet(&mut self.gate.enter(call.operation())?, call, data)
    }
}

/// Meets the other ranks in the next step of the current call.
fn meet(pass: &mut Pass<'_, Member>, call: Call, data: &[u8]) -> Result<Met, CommError> {
    let step = **pass;
    **pass += 1;
    let member = pass.transport();
    let met = member.meeting.meet(member.rank, step, call, data);
    met.map_err(|error| pass.fail(error))
}

impl Drop for Reference {
    fn drop(&mut self) {
        if let Some((member, _)) = self.gate.leave() {
            member.meeting.leave(member.rank, Lost::by_drop());
        }
    }
}

impl Communicator for Reference {
    fn rank(&self) -> usize {
        self.gate.rank()
    }

    fn size(&self) -> usize {
        self.gate.transport().meeting.size()
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.meet(Call::barrier(), &[]).map(drop)
    }

    fn abort(&self, code: i32) -> ! {
        self.gate.transport().meeting.abort(self.rank(), code);
        std::process::exit(exit_code(code))
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (rank, size) = (self.rank(), self.size());
        let check = check::allgatherv_bytes(rank, size, send, recv, from, elem_size);
        self.gate.checked(check)?;
        let met = self.meet(Call::allgatherv(from.counts, elem_size), send)?;
        for (block, &displ) in met.data.iter().zip(from.displs) {
            if !block.is_empty() {
                let start = displ * elem_size;
                recv[start..start + block.len()].copy_from_slice(block);
            }
        }
        Ok(())
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let check = check::allreduce_bytes(send, recv, scalar, op);
        self.gate.checked(check)?;
        let met = self.meet(Call::allreduce(send.len(), scalar, op), send)?;
        fold::bytes(&met.data, recv, scalar, op);
        Ok(())
    }

    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let check = check::allreduce_in_place_bytes(buf, scalar, op);
        self.gate.checked(check)?;
        let met = self.meet(Call::allreduce(buf.len(), scalar, op), buf)?;
        fold::bytes(&met.data, buf, scalar, op);
        Ok(())
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let check = check::broadcast_bytes(self.size(), buf, elem_size, root);
        self.gate.checked(check)?;
        let data: &[u8] = if self.rank() == root { buf } else { &[] };
        let met = self.meet(Call::broadcast(buf.len(), elem_size, root), data)?;
        buf.copy_from_slice(&met.data[root]);
        Ok(())
    }

    fn refuse(&self, _: Operation, error: &CommError) {
        self.gate.refuse(error);
    }
}

impl SharedMemoryProvider for Reference {
    type Region<T: CommData> = ReferenceRegion<T>;

    fn create_shared_region<T: CommData>(
        &self,
        count: usize,
    ) -> Result<ReferenceRegion<T>, CommError> {
        let mine = if self.is_leader() { count } else { 0 };
        check::placed(self.create(Call::shared_region(count, size_of::<T>()), mine))
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ReferenceRegion<T>, CommError> {
        let call = Call::partitioned_region(size_of::<T>());
        check::placed(self.create(call, local_count))
    }

    fn create_gathered_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ReferenceRegion<T>, CommError> {
        let call = Call::gathered_region(size_of::<T>());
        check::placed(self.create(call, local_count))
    }

    fn exchange<T: CommData>(&self, region: &mut ReferenceRegion<T>) -> Result<(), CommError> {
        let checked = region.check_exchange(self.gate.id());
        let call = Call::exchange(self.gate.checked(checked)?);
        let at = Location::caller();
        region.exchange(|mine| {
            let mut pass = self.gate.enter_from(Operation::Exchange, at)?;
            meet(&mut pass, call, mine)
        })
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        let met = self.meet(Call::split_local(), &[])?;
        Ok(Box::new(Self::at(self.rank(), met.room)))
    }

    fn is_leader(&self) -> bool {
        self.rank() == 0
    }
}
