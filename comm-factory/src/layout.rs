//! How work is divided among the ranks, and where each part begins.

/// Divides `total` items among `ranks` as evenly as possible: returns how many each rank has.
///
/// The first `total % ranks` ranks have one more than the others. All ranks get the same list, so you can
/// pass it to [`allgatherv`](comm_api::Communicator::allgatherv) directly.
///
/// # Panics
///
/// If `ranks` is 0.
///
/// ```
/// use comm_factory::{per_rank_counts, prefix_displs};
///
/// let counts = per_rank_counts(10, 4);
/// assert_eq!(counts, [3, 3, 2, 2]);
/// assert_eq!(prefix_displs(&counts), [0, 3, 6, 8]);
/// ```
#[must_use]
pub fn per_rank_counts(total: usize, ranks: usize) -> Vec<usize> {
    assert!(ranks > 0, "work cannot be divided among no ranks");
    let (each, one_more) = (total / ranks, total % ranks);
    let counts = (0..ranks).map(|rank| each + usize::from(rank < one_more));
    counts.collect()
}

/// Returns where the block of each rank begins if the blocks are in rank order without gaps.
///
/// Saturates at the largest `usize`, which `allgatherv` rejects.
///
/// ```
/// assert_eq!(comm_factory::prefix_displs(&[2, 0, 3]), [0, 2, 2]);
/// ```
#[must_use]
pub fn prefix_displs(counts: &[usize]) -> Vec<usize> {
    let begin = |next: &mut usize, &count: &usize| {
        let begin = *next;
        *next = begin.saturating_add(count);
        Some(begin)
    };
    counts.iter().scan(0, begin).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 1, &[0])]
    #[case(2, 4, &[1, 1, 0, 0])]
    #[case(8, 4, &[2, 2, 2, 2])]
    #[case(usize::MAX, 2, &[usize::MAX / 2 + 1, usize::MAX / 2])]
    fn nothing_is_lost(#[case] total: usize, #[case] ranks: usize, #[case] counts: &[usize]) {
        assert_eq!(per_rank_counts(total, ranks), counts);
        assert_eq!(counts.iter().sum::<usize>(), total);
    }

    #[test]
    #[should_panic(expected = "among no ranks")]
    fn no_ranks_can_do_no_work() {
        let _ = per_rank_counts(3, 0);
    }

    #[test]
    fn blocks_that_fit_nowhere_are_refused_and_do_not_wrap() {
        assert_eq!(prefix_displs(&[]), [0; 0]);
        let displs = prefix_displs(&[usize::MAX, 2, 3]);
        assert_eq!(displs, [0, usize::MAX, usize::MAX]);
    }
}
