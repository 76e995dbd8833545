//! The region of the reference: every rank holds a copy, and fences exchange what was written.

use std::sync::Arc;

use comm_api::{CommData, CommError, SharedRegion, bytemuck};

use super::Reference;
use super::meeting::{Call, Meeting};

/// Holds one rank's copy of a region, which is the same on all ranks in a read phase.
#[derive(Debug)]
pub struct ReferenceRegion<T> {
    rank: usize,
    meeting: Arc<Meeting>,
    step: u64,
    phase: Phase,
    whole: Vec<T>,
    /// Where the part of each rank begins, and where the last one ends.
    bounds: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Write,
    Read,
    Broken,
}

impl Reference {
    /// Creates a region of which this rank owns `mine` elements.
    ///
    /// Two rounds: who owns how much, and whether all of them found the memory.
    pub(super) fn create<T: CommData>(
        &self,
        operation: &'static str,
        what: String,
        mine: usize,
    ) -> Result<ReferenceRegion<T>, CommError> {
        let met = self.meet(operation, what, &mine.to_ne_bytes())?;
        let counts = met
            .data
            .iter()
            .map(|bytes| match bytes.as_ref().try_into() {
                Ok(bytes) => usize::from_ne_bytes(bytes),
                Err(_) => 0,
            });
        let mut bounds = vec![0_usize];
        bounds.extend(counts.scan(0_usize, |end, count| {
            *end = end.saturating_add(count);
            Some(*end)
        }));
        let total = bounds[self.meeting.size()];
        let whole = allocate::<T>(total);
        let found = [u8::from(whole.is_some())];
        let all_found = self.meet(operation, format!("room for {operation}"), &found)?;
        let short = all_found.data.iter().position(|found| found[0] == 0);
        match (whole, short) {
            (Some(whole), None) => Ok(ReferenceRegion {
                rank: self.rank,
                meeting: met.room,
                step: 0,
                phase: Phase::Write,
                whole,
                bounds,
            }),
            _ => Err(CommError::AllocationFailed {
                requested_bytes: total.saturating_mul(size_of::<T>()),
                message: format!(
                    "rank {} has no room for the region",
                    short.unwrap_or(self.rank)
                ),
            }),
        }
    }
}

fn allocate<T: CommData>(count: usize) -> Option<Vec<T>> {
    let mut whole = Vec::new();
    whole.try_reserve_exact(count).ok()?;
    whole.resize(count, T::zeroed());
    Some(whole)
}

impl<T: CommData> SharedRegion<T> for ReferenceRegion<T> {
    fn as_slice(&self) -> &[T] {
        assert!(
            self.phase == Phase::Read,
            "as_slice: the region is in phase {:?}; call fence() to end a write phase",
            self.phase
        );
        &self.whole
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        assert!(
            self.phase == Phase::Write,
            "as_mut_slice: the region is in phase {:?}; call fence() to end a read phase",
            self.phase
        );
        &mut self.whole[self.bounds[self.rank]..self.bounds[self.rank + 1]]
    }

    fn fence(&mut self) -> Result<(), CommError> {
        let phase = std::mem::replace(&mut self.phase, Phase::Broken);
        let mine = match phase {
            Phase::Write => &self.whole[self.bounds[self.rank]..self.bounds[self.rank + 1]],
            Phase::Read | Phase::Broken => &[],
        };
        let call = Call::Made {
            what: format!("fence {} of a region", self.step),
            data: bytemuck::cast_slice(mine).into(),
        };
        let met = self.meeting.meet(self.rank, self.step, "fence", call);
        let met = match met {
            Ok(met) if phase != Phase::Broken => met,
            Ok(_) => return Err(CommError::InvalidCommunicator),
            Err(error) => {
                self.meeting
                    .leave(self.rank, "holds a handle that a failed fence has broken");
                return Err(error);
            }
        };
        self.step += 1;
        self.phase = match phase {
            Phase::Write => {
                for (bounds, data) in self.bounds.windows(2).zip(&met.data) {
                    let part = &mut self.whole[bounds[0]..bounds[1]];
                    bytemuck::cast_slice_mut(part).copy_from_slice(data);
                }
                Phase::Read
            }
            Phase::Read | Phase::Broken => Phase::Write,
        };
        Ok(())
    }
}

impl<T> Drop for ReferenceRegion<T> {
    fn drop(&mut self) {
        self.meeting
            .leave(self.rank, "dropped its handle to the region");
    }
}
