//! MPI counts are `i32`, so longer buffers are sent in pieces.

/// The maximum number of words of one call.
pub(crate) const MOST: usize = if cfg!(comm_mpi_small_counts) {
    // Small enough that the larger sizes of the suite are cut, and a divisor of none of them.
    9973
} else {
    i32::MAX as usize
};

/// Describes how the blocks of an `allgatherv` are sent; a function of what all ranks agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// There is nothing to send.
    Nothing,
    /// In one call.
    Whole,
    /// Block by block, each in pieces.
    Pieces,
}

/// Counts and displacements as MPI takes them.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) counts: Vec<i32>,
    pub(crate) displs: Vec<i32>,
    /// The sum of the counts.
    pub(crate) total: usize,
    /// Whether the displacements fit; displacements are local to each rank.
    pub(crate) placed: bool,
}

impl Lists {
    /// Fills in the lists in words, `scale` per element; `most` is the maximum that MPI accepts.
    ///
    /// Does not overflow if every block lies in a buffer, with `scale` words per element.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        counts: &[usize],
        displs: &[usize],
        scale: usize,
        most: usize,
    ) -> Route {
        let narrow = |words: usize| i32::try_from(words).unwrap_or(i32::MAX);
        let (mut total, mut reach) = (0_usize, 0);
        self.counts.clear();
        self.displs.clear();
        self.counts.extend(counts.iter().map(|&count| {
            total = total.saturating_add(count * scale);
            narrow(count * scale)
        }));
        self.displs.extend(displs.iter().map(|&displ| {
            reach = reach.max(displ * scale);
            narrow(displ * scale)
        }));
        (self.total, self.placed) = (total, reach <= most);
        match total {
            0 => Route::Nothing,
            _ if total <= most => Route::Whole,
            _ => Route::Pieces,
        }
    }

    /// Creates the lists of `size` blocks of `each` words, end to end; `size * each` fits.
    pub(crate) fn even(&mut self, size: usize, each: usize) {
        let each = i32::try_from(each).unwrap_or(i32::MAX);
        self.counts.clear();
        self.counts.resize(size, each);
        self.pack();
    }

    /// Lays the blocks end to end instead; valid if the sum of the counts fits.
    pub(crate) fn pack(&mut self) {
        let mut end = 0;
        self.displs.clear();
        self.displs.extend(self.counts.iter().map(|&count| {
            let start = end;
            end += count;
            start
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: usize = i32::MAX as usize;

    #[test]
    fn short_lists_go_whole() {
        let mut lists = Lists::default();
        assert_eq!(lists.fill(&[2, 0, 3], &[4, 9, 0], 2, BIG), Route::Whole);
        assert_eq!(
            (lists.counts, lists.displs),
            (vec![4, 0, 6], vec![8, 18, 0])
        );
        assert_eq!((lists.total, lists.placed), (10, true));
    }

    #[test]
    fn nothing_is_not_sent() {
        let mut lists = Lists::default();
        assert_eq!(lists.fill(&[0, 0], &[0, 5], 8, BIG), Route::Nothing);
        // Elements of size zero have counts but no bytes.
        assert_eq!(lists.fill(&[7, 9], &[0, 7], 0, BIG), Route::Nothing);
    }

    #[test]
    fn a_sum_that_does_not_fit_is_cut() {
        let mut lists = Lists::default();
        assert_eq!(lists.fill(&[BIG, 1], &[0, BIG], 1, BIG), Route::Pieces);
        assert_eq!(
            lists.fill(&[BIG - 1, 1], &[0, BIG - 1], 1, BIG),
            Route::Whole
        );
        assert_eq!(lists.fill(&[5, 5], &[0, 5], 1, 9), Route::Pieces);
    }

    #[test]
    fn a_displacement_that_does_not_fit_is_the_ranks_own_business() {
        let mut lists = Lists::default();
        assert_eq!(lists.fill(&[1, 2], &[0, BIG + 1], 1, BIG), Route::Whole);
        assert!(!lists.placed);
        lists.pack();
        assert_eq!(lists.displs, [0, 1]);
    }

    #[test]
    fn even_blocks_lie_end_to_end() {
        let mut lists = Lists::default();
        lists.even(3, 5);
        assert_eq!((lists.counts, lists.displs), (vec![5; 3], vec![0, 5, 10]));
    }
}
