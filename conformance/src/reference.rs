//! The communicator that the others are compared with: threads, one mutex, one condition variable.
//!
//! Written to be obviously correct, not fast. Every collective is a meeting: each rank puts
//! down what it called and what it brought, waits until all have, and takes what all brought.
//!
//! Not public: it is the oracle of this suite and its first subject with more than one rank, not a
//! backend for programs.

mod meeting;
mod region;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comm_api::{
    CommData, CommError, Communicator, FailureKind, ReduceOp, ScalarKind, SharedMemoryProvider,
    check,
};
use comm_kit::fold_into;

use meeting::{Call, Meeting, Met};
pub use region::ReferenceRegion;

/// Takes part as one rank; dropped, it leaves.
#[derive(Debug)]
pub struct Reference {
    rank: usize,
    meeting: Arc<Meeting>,
    next: AtomicU64,
    busy: AtomicBool,
}

/// The meetings that still have free seats, by name.
static FOYER: Mutex<Option<HashMap<String, Arc<Meeting>>>> = Mutex::new(None);

impl Reference {
    /// Joins the communicator `name` of this process as `rank`, and waits for the others.
    ///
    /// # Errors
    ///
    /// If the seat is taken, the size disagrees, or the others do not come within the timeout.
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
        comm.meet("open", "open".to_owned(), &[])?;
        Ok(comm)
    }

    fn at(rank: usize, meeting: Arc<Meeting>) -> Self {
        Self {
            rank,
            meeting,
            next: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        }
    }

    /// Meets the others with `data`, having called `what`.
    fn meet(&self, operation: &'static str, what: String, data: &[u8]) -> Result<Met, CommError> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(CommError::failed(
                operation,
                FailureKind::Refused,
                Some(self.rank),
                "another thread of this rank is inside a collective of this communicator",
            ));
        }
        let step = self.next.fetch_add(1, Ordering::Relaxed);
        let call = Call::Made {
            what,
            data: data.into(),
        };
        let met = self.meeting.meet(self.rank, step, operation, call);
        self.busy.store(false, Ordering::Release);
        met
    }

    /// Announces what a check refused and passes it on.
    fn checked(
        &self,
        operation: &'static str,
        check: Result<(), CommError>,
    ) -> Result<(), CommError> {
        if let Err(error) = &check {
            self.refuse(operation, error);
        }
        check
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let reason = if std::thread::panicking() {
            "panicked"
        } else {
            "dropped its communicator"
        };
        self.meeting.leave(self.rank, reason);
    }
}

impl Communicator for Reference {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.meeting.size()
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.meet("barrier", "barrier".to_owned(), &[]).map(drop)
    }

    fn abort(&self, code: i32) -> ! {
        self.meeting.abort(self.rank);
        std::process::exit(if code == 0 { 1 } else { code })
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        counts: &[usize],
        displs: &[usize],
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (rank, size) = (self.rank, self.size());
        let check = check::allgatherv_bytes(rank, size, send, recv, counts, displs, elem_size);
        self.checked("allgatherv", check)?;
        let what = format!("allgatherv of {counts:?} elements of {elem_size} bytes");
        let met = self.meet("allgatherv", what, send)?;
        for (block, &displ) in met.data.iter().zip(displs) {
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
        self.checked("allreduce", check::allreduce_bytes(send, recv, scalar, op))?;
        let len = send.len() / scalar.size();
        let met = self.meet(
            "allreduce",
            format!("allreduce of {len} {scalar} by {op}"),
            send,
        )?;
        recv.copy_from_slice(&met.data[0]);
        for next in &met.data[1..] {
            fold_into(recv, next, scalar, op)?;
        }
        Ok(())
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let check = check::broadcast_bytes(self.size(), buf, elem_size, root);
        self.checked("broadcast", check)?;
        let bytes = buf.len();
        let what = format!("broadcast of {bytes} bytes in elements of {elem_size} from {root}");
        let data: &[u8] = if self.rank == root { buf } else { &[] };
        let met = self.meet("broadcast", what, data)?;
        buf.copy_from_slice(&met.data[root]);
        Ok(())
    }

    fn refuse(&self, operation: &'static str, error: &CommError) {
        // Inside another collective, this one has no place in the sequence that others could see.
        if !self.busy.swap(true, Ordering::Acquire) {
            let step = self.next.fetch_add(1, Ordering::Relaxed);
            self.meeting.refuse(self.rank, step, operation, error);
            self.busy.store(false, Ordering::Release);
        }
    }
}

impl SharedMemoryProvider for Reference {
    type Region<T: CommData> = ReferenceRegion<T>;

    fn create_shared_region<T: CommData>(
        &self,
        count: usize,
    ) -> Result<ReferenceRegion<T>, CommError> {
        let operation = "create_shared_region";
        let what = format!(
            "{operation} of {count} elements of {} bytes",
            size_of::<T>()
        );
        let mine = if self.is_leader() { count } else { 0 };
        self.create(operation, what, mine)
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ReferenceRegion<T>, CommError> {
        let operation = "create_partitioned_region";
        let what = format!("{operation} in elements of {} bytes", size_of::<T>());
        self.create(operation, what, local_count)
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        let met = self.meet("split_local", "split_local".to_owned(), &[])?;
        Ok(Box::new(Self::at(self.rank, met.room)))
    }

    fn is_leader(&self) -> bool {
        self.rank == 0
    }
}
