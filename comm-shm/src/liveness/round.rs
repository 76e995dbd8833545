//! How waiting ranks share the work of checking whether the others live.
//!
//! If 128 ranks wait for 128 others and each checks all of them, they need more time than two processors
//! have. So they take turns: a word in the segment holds the next rank to check, and each check takes the
//! next few ranks. Any subset of the waiting ranks covers all ranks, because no rank is assigned to another.

use crate::protocol::sync::{AtomicU32, Ordering};

/// How many times each rank is checked in one interval, by all waiting ranks together.
const LOOKS: usize = 2;

/// Returns which of the `size` ranks to check now, and moves `turn` past them; `watchers` ranks wait,
/// including this one.
pub(crate) fn share(
    turn: &AtomicU32,
    size: usize,
    watchers: usize,
) -> impl Iterator<Item = usize> + use<> {
    let share = (LOOKS * size).div_ceil(watchers.max(1)).min(size);
    // Relaxed: it orders nothing. Whatever another process wrote, the value names a rank.
    let first = turn.fetch_add(u32::try_from(share).unwrap_or(0), Ordering::Relaxed);
    (first as usize..).take(share).map(move |rank| rank % size)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn any_watchers_cover_all_ranks_twice_per_interval() {
        for (watchers, size) in [(1, 1), (1, 2), (2, 257), (4, 8), (128, 256), (900, 1024)] {
            let turn = AtomicU32::new(u32::MAX);
            let looks = |times: usize| -> Vec<usize> {
                let look = |_| share(&turn, size, watchers);
                (0..times).flat_map(look).collect()
            };
            for interval in 0..3 {
                let seen = looks(watchers);
                assert!(
                    seen.len() <= LOOKS * size + watchers,
                    "{} looks",
                    seen.len()
                );
                let seen: BTreeSet<usize> = seen.into_iter().collect();
                assert!(seen.into_iter().eq(0..size), "{watchers} {size} {interval}");
            }
        }
    }

    #[test]
    fn one_that_still_looks_covers_all_ranks() {
        let turn = AtomicU32::new(7);
        let looks = (0..50).flat_map(|_| share(&turn, 100, 100));
        assert_eq!(looks.collect::<BTreeSet<usize>>().len(), 100);
        assert_eq!(share(&turn, 0, 0).count(), 0);
        assert_eq!(share(&turn, 1, 0).collect::<Vec<_>>(), [0]);
    }
}
