//! The region of the reference: every rank holds a copy, and fences and exchanges copy what the others wrote.

use std::ops::Range;
use std::sync::Arc;

use comm_api::{CommData, CommError, SharedRegion, bytemuck, check};
use comm_kit::memory::zeroed_vec;
use comm_kit::words::Lost;
use comm_kit::{Call, CommId, Origin, Parts, Phases};

use super::meeting::{Meeting, Met};
use super::{Reference, meet};

/// One rank's copy of a region, which is the same on all ranks in a read phase.
#[derive(Debug)]
pub struct ReferenceRegion<T> {
    rank: usize,
    meeting: Arc<Meeting>,
    step: u64,
    phases: Phases,
    whole: Vec<T>,
    parts: Parts,
}

impl Reference {
    /// Creates a region of which this rank owns `mine` elements.
    ///
    /// Takes two steps: how much each rank owns, and whether all of them allocated the memory.
    #[track_caller]
    pub(super) fn create<T: CommData>(
        &self,
        call: Call,
        mine: usize,
    ) -> Result<ReferenceRegion<T>, CommError> {
        let mut pass = self.gate.enter(call.operation())?;
        let origin = Origin {
            communicator: self.gate.id(),
            number: *pass,
        };
        let (rank, elem_size) = (pass.rank(), size_of::<T>());
        let mut meeting = Arc::clone(&pass.transport().meeting);
        let share = |own: u64| {
            let met = meet(&mut pass, call, &own.to_ne_bytes())?;
            // Every step creates a new meeting; the last one becomes that of the region.
            meeting = met.room;
            let numbers = met.data.iter();
            let numbers = numbers.map(|number| bytemuck::pod_read_unaligned(number));
            Ok(numbers.collect())
        };
        let create = |parts: Parts| Ok((zeroed_vec(parts.len())?, parts));
        let (whole, parts) = Parts::create_on_all((rank, mine), elem_size, share, create)?;
        Ok(ReferenceRegion {
            rank,
            meeting,
            step: 0,
            phases: if call == Call::gathered_region(elem_size) {
                Phases::gathered(origin)
            } else {
                Phases::new()
            },
            whole,
            parts,
        })
    }
}

impl<T> ReferenceRegion<T> {
    fn mine(&self) -> Range<usize> {
        self.parts.range(self.rank)
    }
}

impl<T: CommData> ReferenceRegion<T> {
    pub(super) fn check_exchange(&self, communicator: CommId) -> Result<u64, CommError> {
        self.phases.check_exchange(communicator, self.rank)
    }

    /// Ends the write phase with `meet`, which passes on the part of this rank and returns those of all.
    pub(super) fn exchange(
        &mut self,
        meet: impl FnOnce(&[u8]) -> Result<Met, CommError>,
    ) -> Result<(), CommError> {
        let mine = bytemuck::cast_slice(&self.whole[self.mine()]);
        let mut parts = Vec::new();
        let result = self.phases.exchange_alone(|| {
            parts = meet(mine)?.data;
            Ok(())
        });
        match &result {
            Ok(()) => self.take(&parts),
            Err(error) if error.is_fatal() => self.meeting.leave(self.rank, Lost::Dropped),
            Err(_) => {}
        }
        result
    }

    /// Copies the parts of all ranks to their places.
    fn take(&mut self, parts: &[Arc<[u8]>]) {
        for (rank, data) in parts.iter().enumerate() {
            let part = &mut self.whole[self.parts.range(rank)];
            bytemuck::cast_slice_mut(part).copy_from_slice(data);
        }
    }
}

impl<T: CommData> SharedRegion<T> for ReferenceRegion<T> {
    fn as_slice(&self) -> &[T] {
        self.phases.expect_read();
        &self.whole
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        self.phases.expect_write();
        let mine = self.mine();
        &mut self.whole[mine]
    }

    fn fence(&mut self) -> Result<(), CommError> {
        check::placed(self.phases.check_fence(self.rank))?;
        let ended = self.phases.close();
        let mine: &[T] = if ended.was_write() {
            &self.whole[self.mine()]
        } else {
            &[]
        };
        let data = bytemuck::cast_slice(mine);
        let met = self.meeting.meet(self.rank, self.step, Call::fence(), data);
        // A broken handle must not let the others wait in vain.
        let met = met.inspect_err(|_| self.meeting.leave(self.rank, Lost::Dropped));
        let met = check::placed(met)?;
        self.step += 1;
        if ended.was_write() {
            self.take(&met.data);
        }
        self.phases.open(ended);
        Ok(())
    }
}

impl<T> Drop for ReferenceRegion<T> {
    fn drop(&mut self) {
        self.meeting.leave(self.rank, Lost::by_drop());
    }
}
