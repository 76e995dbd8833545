//! Which route a large call of two ranks takes: through the slots, or by reading each other's memory.
//!
//! Which route is faster depends on how far apart the processors of the two ranks are, and that may change at
//! run time. So both routes are tried, and each call carries the duration of the previous one. Both ranks
//! read the same figures from the same lines, and nothing else influences the decision, so they always choose
//! alike.

use std::time::Duration;

/// The calls that have a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LargeCall {
    Allgatherv,
    Broadcast,
    Allreduce,
}

impl LargeCall {
    /// Returns the length of the longest block from which on either route may be faster; below it, the slots
    /// are.
    pub(crate) const fn choice_from(self) -> usize {
        match self {
            Self::Allgatherv => 32 * 1024,
            Self::Broadcast | Self::Allreduce => 64 * 1024,
        }
    }
}

/// From this length on, lengths are distinguished by their highest bit.
const LOWEST: usize = 15;
const CLASSES: usize = 16;

/// Returns whether a call takes the other route, not the preferred one: the measurements may have been
/// disturbed, or be outdated. That happens more and more rarely: even a route that is five times slower is
/// hardly noticeable.
const fn is_probe(call: u32) -> bool {
    matches!(call, 3 | 7 | 31 | 127) || call % 512 == 511
}

/// A route that payloads can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Slots,
    Read,
}

impl Route {
    const fn other(self) -> Self {
        match self {
            Self::Slots => Self::Read,
            Self::Read => Self::Slots,
        }
    }
}

/// The costs of both routes so far: the same on both ranks, apart from what this rank has yet to report.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    classes: [[Class; CLASSES]; 3],
    /// The last call that had a choice, and its duration here in nanoseconds; sent to the other rank with the
    /// next such call.
    last: Option<(LargeCall, usize, Route, u64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Class {
    calls: u32,
    /// Nanoseconds on the slower rank, 0 before the first call.
    slots: u64,
    read: u64,
}

impl Class {
    /// Returns the faster route, if both were tried.
    fn preferred(self) -> Option<Route> {
        let both = self.slots > 0 && self.read > 0;
        both.then_some(if self.read < self.slots {
            Route::Read
        } else {
            Route::Slots
        })
    }
}

impl Routes {
    /// Chooses the route of the next call. Nothing changes before all ranks have [arrived](Self::learn): one
    /// may refuse.
    pub(crate) fn choose(&self, call: LargeCall, len: usize) -> Route {
        let (classes, own) = (&self.classes[call as usize], class_of(len));
        let calls = classes[own].calls;
        // For a new length, the nearest known lengths are the best estimate.
        let preferred = |class: usize| classes.get(class)?.preferred();
        let nearest = (0..CLASSES).find_map(|distance| {
            let shorter = own.checked_sub(distance).and_then(preferred);
            shorter.or_else(|| preferred(own + distance))
        });
        match nearest {
            Some(preferred) if is_probe(calls) => preferred.other(),
            Some(preferred) => preferred,
            // With distant processors, slots cost more than reading does at its worst: a call that is never
            // repeated reads directly.
            None if calls % 2 == 0 => Route::Read,
            None => Route::Slots,
        }
    }

    /// Returns what this rank reports to the other one with a call.
    pub(crate) fn to_tell(&self) -> u64 {
        self.last.map_or(0, |(.., nanos)| nanos)
    }

    /// Takes what the ranks have reported; all have arrived at a call of `len` bytes.
    pub(crate) fn learn(&mut self, call: LargeCall, len: usize, told: [u64; 2]) {
        if let Some((call, len, route, _)) = self.last.take() {
            let class = &mut self.classes[call as usize][class_of(len)];
            let known = match route {
                Route::Slots => &mut class.slots,
                Route::Read => &mut class.read,
            };
            let took = told[0].max(told[1]).max(1);
            // Anything can delay a call, but nothing makes it too fast: a slower result counts only if it
            // persists.
            *known = match *known {
                0 => took,
                known => took.min(known.saturating_add(known.div_ceil(16))),
            };
        }
        let class = &mut self.classes[call as usize][class_of(len)];
        class.calls = class.calls.wrapping_add(1);
    }

    /// Records the duration of the call here, without the time in which this rank waited for the other.
    pub(crate) fn note(&mut self, call: LargeCall, len: usize, route: Route, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.last = Some((call, len, route, nanos));
    }
}

fn class_of(len: usize) -> usize {
    let bit = len.max(1).ilog2() as usize;
    bit.saturating_sub(LOWEST).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::LargeCall::{Allgatherv, Broadcast};
    use super::*;

    const MIB: usize = 1024 * 1024;

    /// Two ranks make calls; the function defines how long a route takes on each rank.
    fn run(
        ranks: &mut [Routes; 2],
        calls: u32,
        longest: usize,
        took: impl Fn(usize, Route) -> u64,
    ) -> Vec<Route> {
        let call = |_| {
            let routes = ranks
                .each_ref()
                .map(|rank| rank.choose(Allgatherv, longest));
            assert_eq!(routes[0], routes[1], "the ranks take different routes");
            let told = ranks.each_ref().map(Routes::to_tell);
            for (number, rank) in ranks.iter_mut().enumerate() {
                rank.learn(Allgatherv, longest, told);
                let took = Duration::from_nanos(took(number, routes[0]));
                rank.note(Allgatherv, longest, routes[0], took);
            }
            routes[0]
        };
        (0..calls).map(call).collect()
    }

    fn count(routes: &[Route], route: Route) -> usize {
        routes.iter().filter(|&&other| other == route).count()
    }

    #[test]
    fn both_are_tried_and_the_faster_one_is_taken() {
        for (slots, read, best) in [(50, 60, Route::Slots), (250, 60, Route::Read)] {
            let mut ranks = <[Routes; 2]>::default();
            let took = |rank, route| match route {
                Route::Slots => slots + rank as u64,
                Route::Read => read - rank as u64,
            };
            let routes = run(&mut ranks, 4, MIB, took);
            assert!((1..=3).contains(&count(&routes, Route::Read)), "{routes:?}");
            let routes = run(&mut ranks, 507, MIB, took);
            // Except for the probes.
            assert_eq!(count(&routes, best), 504, "{routes:?}");
        }
    }

    #[test]
    fn the_slower_rank_counts() {
        let mut ranks = <[Routes; 2]>::default();
        // On rank 0 the slots are faster, but rank 1 would wait.
        let took = |rank, route| match (route, rank) {
            (Route::Slots, 0) => 10,
            (Route::Slots, _) => 90,
            (Route::Read, _) => 60,
        };
        run(&mut ranks, 8, MIB, took);
        let routes = run(&mut ranks, 20, MIB, took);
        assert_eq!(count(&routes, Route::Read), 20, "{routes:?}");
    }

    #[test]
    fn a_change_is_noticed() {
        let mut ranks = <[Routes; 2]>::default();
        let near = |_, route| if route == Route::Slots { 50 } else { 60 };
        let far = |_, route| if route == Route::Slots { 300 } else { 60 };
        run(&mut ranks, 100, MIB, near);
        let routes = run(&mut ranks, 100, MIB, far);
        assert!(count(&routes, Route::Slots) <= 6, "{routes:?}");
        // No rank knows before the slots are tried again.
        let routes = run(&mut ranks, 600, MIB, near);
        assert!(count(&routes, Route::Slots) >= 80, "{routes:?}");
    }

    #[test]
    fn one_call_that_took_long_changes_nothing() {
        let mut ranks = <[Routes; 2]>::default();
        let usual = |_, route| if route == Route::Slots { 50 } else { 60 };
        run(&mut ranks, 200, MIB, usual);
        run(&mut ranks, 1, MIB, |_, _| 5000);
        let routes = run(&mut ranks, 300, MIB, usual);
        assert_eq!(count(&routes, Route::Slots), 300, "{routes:?}");
    }

    #[test]
    fn lengths_are_told_apart() {
        let mut ranks = <[Routes; 2]>::default();
        let short = |_, route| if route == Route::Slots { 300 } else { 60 };
        let long = |_, route| if route == Route::Slots { 400 } else { 600 };
        for _ in 0..8 {
            run(&mut ranks, 1, MIB, short);
            run(&mut ranks, 1, 4 * MIB, long);
        }
        assert_eq!(run(&mut ranks, 1, MIB, short), [Route::Read]);
        assert_eq!(run(&mut ranks, 1, 4 * MIB, long), [Route::Slots]);
        // A new length begins with the choice of the nearest one.
        assert_eq!(run(&mut ranks, 3, 8 * MIB, long), [Route::Slots; 3]);
        assert_eq!(run(&mut ranks, 3, MIB / 2, short), [Route::Read; 3]);
        // Each collective has its own figures.
        assert_eq!(ranks[0].choose(Broadcast, 4 * MIB), Route::Read);
        for longest in [0, Allgatherv.choice_from(), 262_144, usize::MAX] {
            run(&mut ranks, 2, longest, short);
        }
    }

    #[test]
    fn a_call_that_nobody_made_changes_nothing() {
        let mut ranks = <[Routes; 2]>::default();
        run(&mut ranks, 7, MIB, |_, _| 1);
        let before = format!("{ranks:?}");
        ranks[1].choose(Allgatherv, MIB);
        assert_eq!(format!("{ranks:?}"), before);
    }
}
