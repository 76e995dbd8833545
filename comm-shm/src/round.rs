//! How those who wait share the work of looking.

/// How many times each rank is looked at in one interval, by all who wait together.
const LOOKS: usize = 2;

/// Whom a waiting rank looks at, each time: a part of those it waits for, which goes round.
///
/// With 128 ranks waiting for 128 others, everybody looking at everybody costs more than two
/// processors have. So each looks at its share and starts somewhere else, evenly spread: together they look at
/// all of them. Nobody depends on another's look: each comes round to every rank by itself, too.
#[derive(Debug)]
pub(crate) struct Round {
    /// Where it starts, as a fraction of 2^32 of those who are waited for.
    start: u32,
    /// Where it goes on, once it has started.
    next: Option<usize>,
}

impl Round {
    /// Begins the round of a rank.
    pub(crate) fn of(rank: usize) -> Self {
        /// The golden ratio: its multiples spread evenly, however many there are.
        const GOLDEN: u32 = 0x9e37_79b9;
        let rank = u32::try_from(rank).unwrap_or(0);
        Self {
            start: rank.wrapping_mul(GOLDEN),
            next: None,
        }
    }

    /// Returns whom of `awaited` to look at now; so many `watchers` wait for them, this rank included.
    pub(crate) fn share<'a>(
        &mut self,
        awaited: &'a [usize],
        watchers: usize,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let all = awaited.len();
        let share = (LOOKS * all).div_ceil(watchers.max(1)).min(all);
        let first = self
            .next
            .unwrap_or_else(|| (self.start as usize * all) >> 32);
        self.next = Some((first + share) % all.max(1));
        (first..first + share).map(move |index| awaited[index % all])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn looks(rounds: &mut [Round], awaited: &[usize]) -> Vec<usize> {
        let watchers = rounds.len();
        rounds
            .iter_mut()
            .flat_map(|round| round.share(awaited, watchers).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn few_look_at_everybody_each_time() {
        for (watchers, awaited) in [(1, 1), (1, 7), (2, 255), (3, 1)] {
            let awaited: Vec<usize> = (watchers..watchers + awaited).collect();
            let mut rounds: Vec<Round> = (0..watchers).map(Round::of).collect();
            for _ in 0..3 {
                let seen: BTreeSet<usize> = looks(&mut rounds, &awaited).into_iter().collect();
                assert!(seen.iter().eq(&awaited), "{seen:?}");
            }
        }
    }

    #[test]
    fn many_share_the_work_and_leave_nobody_out_for_long() {
        for (watchers, awaited) in [
            (4, 4),
            (12, 4),
            (16, 240),
            (128, 128),
            (240, 16),
            (900, 124),
        ] {
            for clustered in [true, false] {
                let size = watchers + awaited;
                let is_awaited = |rank: &usize| {
                    if clustered {
                        *rank >= watchers
                    } else {
                        rank * awaited / size != (rank + 1) * awaited / size
                    }
                };
                let (missing, present): (Vec<_>, Vec<_>) = (0..size).partition(is_awaited);
                let mut rounds: Vec<Round> = present.into_iter().map(Round::of).collect();
                let first = looks(&mut rounds, &missing);
                let most = LOOKS * missing.len() + rounds.len();
                assert!(first.len() <= most, "{} looks", first.len());
                let mut seen: BTreeSet<usize> = first.into_iter().collect();
                seen.extend(looks(&mut rounds, &missing));
                assert!(seen.iter().eq(&missing), "{watchers} {awaited}: {seen:?}");
            }
        }
    }

    #[test]
    fn one_alone_comes_round_to_all() {
        let awaited: Vec<usize> = (0..100).collect();
        let mut round = Round::of(7);
        let mut seen = BTreeSet::new();
        // The others are counted and do not look, because they are stopped.
        for _ in 0..50 {
            seen.extend(round.share(&awaited, 100));
        }
        assert_eq!(seen.len(), 100);
        assert_eq!(round.share(&[], 3).count(), 0);
        assert_eq!(round.share(&[4], 0).next(), Some(4));
    }
}
