//! A communicator that says it is one of many and writes down what reaches it.

use std::sync::Mutex;

use comm_api::{Blocks, CommError, Communicator, Operation, ReduceOp, ScalarKind, check};

/// What an `allgatherv` leaves in each byte of the receive buffer. As a length it is more than any memory holds.
const FILLED: u8 = 0x7f;

/// Answers as rank `rank` of `size` and keeps a record of the calls that got through.
#[derive(Debug)]
pub(crate) struct Recorder {
    rank: usize,
    size: usize,
    log: Mutex<Vec<Event>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Allgatherv {
        send_bytes: usize,
        elem_size: usize,
    },
    Allreduce {
        bytes: usize,
        scalar: ScalarKind,
        op: ReduceOp,
    },
    InPlace {
        bytes: usize,
        scalar: ScalarKind,
        op: ReduceOp,
    },
    Broadcast {
        bytes: usize,
        elem_size: usize,
        root: usize,
    },
    Refused(Operation, CommError),
}

impl Recorder {
    pub(crate) fn new(rank: usize, size: usize) -> Self {
        Self {
            rank,
            size,
            log: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.log
            .lock()
            .expect("nobody panics with the lock")
            .clone()
    }

    /// Announces what a check refused, as a backend does.
    fn checked(
        &self,
        operation: Operation,
        checked: Result<(), CommError>,
    ) -> Result<(), CommError> {
        checked.inspect_err(|error| self.refuse(operation, error))
    }

    fn note(&self, event: Event) {
        self.log
            .lock()
            .expect("nobody panics with the lock")
            .push(event);
    }
}

impl Communicator for Recorder {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn barrier(&self) -> Result<(), CommError> {
        Ok(())
    }

    fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let checked = check::allgatherv_bytes(self.rank, self.size, send, recv, from, elem_size);
        self.checked(Operation::Allgatherv, checked)?;
        recv.fill(FILLED);
        self.note(Event::Allgatherv {
            send_bytes: send.len(),
            elem_size,
        });
        Ok(())
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let checked = check::allreduce_bytes(send, recv, scalar, op);
        self.checked(Operation::Allreduce, checked)?;
        self.note(Event::Allreduce {
            bytes: send.len(),
            scalar,
            op,
        });
        Ok(())
    }

    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let checked = check::allreduce_in_place_bytes(buf, scalar, op);
        self.checked(Operation::Allreduce, checked)?;
        let bytes = buf.len();
        self.note(Event::InPlace { bytes, scalar, op });
        Ok(())
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let checked = check::broadcast_bytes(self.size, buf, elem_size, root);
        self.checked(Operation::Broadcast, checked)?;
        self.note(Event::Broadcast {
            bytes: buf.len(),
            elem_size,
            root,
        });
        Ok(())
    }

    fn refuse(&self, operation: Operation, error: &CommError) {
        self.note(Event::Refused(operation, error.clone()));
    }
}
