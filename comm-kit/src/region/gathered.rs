//! Gathered regions: which communicator created one, and which rank owns which part.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use comm_api::CommError;

use crate::words;

/// Distinguishes a communicator of this process from all others, past and present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommId(u64);

impl CommId {
    /// The communicator of a single-rank job, of which there is one per process.
    pub const LOCAL: Self = Self(0);

    /// Returns an id that no other communicator of this process has.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: the ids only have to differ.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The origin of a gathered region.
///
/// Two regions with the same origin are the same region on every rank: the communicator is compared locally,
/// and the number is compared between ranks, [exactly](crate::Call::exchange).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The communicator that created the region, the only one that can exchange it.
    pub communicator: CommId,
    /// The position of the creation in the sequence of that communicator, which is the same on all ranks.
    pub number: u64,
}

/// Holds which elements of a region each rank owns. The parts lie in rank order, one after the other.
///
/// ```
/// use comm_kit::Parts;
///
/// let parts = Parts::new(vec![2, 0, 3], 8).unwrap();
/// assert_eq!((parts.len(), parts.range(2)), (5, 2..5));
/// assert!(Parts::new(vec![usize::MAX, 1], 8).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    counts: Vec<usize>,
    displs: Vec<usize>,
    total: usize,
}

impl Parts {
    /// Lays out `counts[r]` elements of `elem_size` bytes for each rank `r`.
    ///
    /// # Errors
    ///
    /// [`CommError::AllocationFailed`] if the elements exceed the address space. All ranks have the same
    /// counts, so either all of them get this error or none.
    pub fn new(counts: Vec<usize>, elem_size: usize) -> Result<Self, CommError> {
        let mut total = 0_usize;
        let mut displs = Vec::with_capacity(counts.len());
        for &count in &counts {
            displs.push(total);
            total = total.saturating_add(count);
        }
        let exact = counts
            .iter()
            .try_fold(0_usize, |sum, &count| sum.checked_add(count));
        let bytes = exact.and_then(|count| count.checked_mul(elem_size));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(words::too_large(total, elem_size));
        }
        Ok(Self {
            counts,
            displs,
            total,
        })
    }

    /// Lays out the counts that the ranks exchanged, one count of elements per rank.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn agreed(
        counts: impl IntoIterator<Item = u64>,
        elem_size: usize,
    ) -> Result<Self, CommError> {
        let counts = counts.into_iter().map(usize::try_from);
        let counts = counts.map(|count| count.unwrap_or(usize::MAX));
        Self::new(counts.collect(), elem_size)
    }

    /// Creates a region of which `rank` owns `count` elements, on all ranks or on none.
    ///
    /// `share` exchanges one number per rank. It is called twice inside the call that creates the region,
    /// each time at its own position in the sequence: first for the counts, then for whether every rank has
    /// the memory. `create` allocates the memory.
    ///
    /// # Errors
    ///
    /// Those of `share`, and [`CommError::AllocationFailed`] on all ranks if `create` failed on one of them.
    pub fn create_on_all<R>(
        (rank, count): (usize, usize),
        elem_size: usize,
        mut share: impl FnMut(u64) -> Result<Vec<u64>, CommError>,
        create: impl FnOnce(Self) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        // All ranks have the same counts, so either all of them stop here or none.
        let parts = Self::agreed(share(count as u64)?, elem_size)?;
        let bytes = parts.len() * elem_size;
        let created = create(parts);
        let all = share(u64::from(created.is_ok()))?;
        match (created, all.iter().position(|&has_room| has_room != 1)) {
            (Ok(region), None) => Ok(region),
            (created, short) => Err(words::no_room(bytes, short.unwrap_or(rank), created.err())),
        }
    }

    /// Returns how many elements each rank owns.
    #[must_use]
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Returns where the part of each rank begins.
    #[must_use]
    pub fn displs(&self) -> &[usize] {
        &self.displs
    }

    /// Returns how many elements all ranks own together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.total
    }

    /// Returns whether no rank owns any elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the elements that `rank` owns.
    #[must_use]
    pub fn range(&self, rank: usize) -> Range<usize> {
        self.displs[rank]..self.displs[rank] + self.counts[rank]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_in_rank_order() {
        let parts = Parts::new(vec![3, 0, 4], 8).unwrap();
        assert_eq!(
            (parts.counts(), parts.displs()),
            (&[3, 0, 4][..], &[0, 3, 3][..])
        );
        let ranges = [0, 1, 2].map(|rank| parts.range(rank));
        assert_eq!(ranges, [0..3, 3..3, 3..7]);
        assert!(Parts::new(vec![0, 0], 8).unwrap().is_empty());
    }

    #[test]
    fn a_region_is_created_on_all_ranks_or_on_none() {
        // Rank 1 of three, whose neighbours own 3 and 4 elements; `room` is what they report about their
        // memory.
        let create = |room: [u64; 2], own: Result<(), CommError>| {
            let mut shared = Vec::new();
            let share = |mine| {
                shared.push(mine);
                let others = if shared.len() == 1 { [3, 4] } else { room };
                Ok(vec![others[0], mine, others[1]])
            };
            let created = Parts::create_on_all((1, 2), 8, share, |parts| own.map(|()| parts));
            (created.map(|parts| parts.counts().to_vec()), shared)
        };
        assert_eq!(create([1, 1], Ok(())), (Ok(vec![3, 2, 4]), vec![2, 1]));
        let (elsewhere, shared) = create([1, 0], Ok(()));
        let message = elsewhere.unwrap_err().to_string();
        assert!(
            message.contains("72 bytes") && message.contains("rank 2"),
            "{message}"
        );
        assert_eq!(shared, [2, 1]);
        let own = words::no_room(72, 1, None);
        assert_eq!(create([1, 1], Err(own.clone())), (Err(own), vec![2, 0]));
    }

    #[test]
    fn what_cannot_be_addressed_is_refused_with_all_its_bytes() {
        let requested = |counts, elem_size| match Parts::new(counts, elem_size) {
            Err(CommError::AllocationFailed {
                requested_bytes, ..
            }) => requested_bytes,
            other => panic!("{other:?}"),
        };
        assert_eq!(requested(vec![usize::MAX, 1], 8), usize::MAX);
        assert_eq!(requested(vec![1 << 62, 1 << 62], 1), 1 << 63);
        assert_eq!(requested(vec![1 << 33, 1 << 33], 5 << 30), usize::MAX);
        // Elements of size zero take no memory, but their count must be representable.
        assert_eq!(requested(vec![usize::MAX, 1], 0), 0);
        assert_eq!(
            Parts::new(vec![usize::MAX, 0], 0).unwrap().len(),
            usize::MAX
        );
    }

    #[test]
    fn communicators_differ() {
        let ids = [CommId::LOCAL, CommId::next(), CommId::next()];
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    }
}
