//! How a rank waits: it spins, then yields, then sleeps in the kernel.

use std::io;
use std::time::{Duration, Instant};

use comm_kit::clock::Clock;
use rustix::event::{PollFd, Timespec, poll};

/// How long to wait in which way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    spin: Duration,
    yielding: Duration,
    /// How many waits are still to begin without spinning.
    sharing: u16,
}

/// How soon what was waited for comes after a yield if a rank of the job was given the processor; a
/// busy process of another job keeps it for longer.
const SOON: Duration = Duration::from_micros(200);

/// How long a yield and a look take at least if somebody was given the processor: more than twice
/// what they take where nobody else wants it.
const TAKEN: Duration = Duration::from_micros(3);

/// For how many waits it is taken for granted that the ranks share a processor.
const SHARING: u16 = 200;

/// What to do until the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    Spin,
    Yield,
    Sleep,
}

impl Patience {
    /// Chooses by the ranks on this machine and the processors this process may use.
    ///
    /// A sleep and a wake-up cost ten times what a message costs, so a rank looks again and again
    /// for a while. With as many processors as ranks it keeps its own for about one round trip: a
    /// busy process of another job that it was given to would keep it for milliseconds. After that,
    /// and at once with more ranks than processors, it gives the processor away between two looks:
    /// the rank that is waited for may be the one that needs it.
    pub(crate) fn new(local_ranks: usize) -> Self {
        let spin = if local_ranks <= processors() { 20 } else { 0 };
        Self {
            spin: Duration::from_micros(spin),
            yielding: Duration::from_millis(1),
            sharing: 0,
        }
    }
}

/// Returns how many processors this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The time of one wait.
#[derive(Debug)]
pub(crate) struct Idle {
    patience: Patience,
    /// Started by the first look at which nothing moved.
    clock: Option<Clock>,
    since: Option<Instant>,
    yielded: Option<(Instant, u32)>,
    /// Since the clock was looked at, see [`gives_way`](Self::gives_way).
    gave_way: bool,
}

impl Idle {
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            patience,
            clock: None,
            since: None,
            yielded: None,
            gave_way: false,
        }
    }

    /// Something moved: the wait begins anew.
    pub(crate) fn moved(&mut self) {
        if self.since.take().is_some() {
            self.gave_way = false;
        }
        if let (Some((first, yields)), Some(clock)) = (self.yielded.take(), &mut self.clock) {
            let took = clock.now() - first;
            self.patience.sharing = if shares(took, yields) { SHARING } else { 0 };
        }
    }

    /// Returns what was learnt, for the next wait.
    pub(crate) fn finish(&mut self) -> Patience {
        self.moved();
        self.patience
    }

    /// Takes note of a sleep that was to end within `planned`.
    pub(crate) fn slept(&mut self, planned: Duration) {
        self.clock.get_or_insert_with(Clock::start).waited(planned);
    }

    /// Returns whether to give the processor away before anything else, even a look at the clock, where
    /// ranks share processors. What is waited for mostly comes then. Not twice without such a look: ranks
    /// that enter one after the other must not keep the time from counting.
    pub(crate) fn gives_way(&mut self) -> bool {
        self.patience.spin.is_zero() && !std::mem::replace(&mut self.gave_way, true)
    }

    /// Returns how to wait on, the time, and since when nothing has moved.
    pub(crate) fn pause(&mut self) -> (Pause, Instant, Instant) {
        let now = match &mut self.clock {
            Some(clock) => clock.now(),
            None => self.clock.insert(Clock::start()).last(),
        };
        let since = *self.since.get_or_insert_with(|| {
            self.patience.sharing = self.patience.sharing.saturating_sub(1);
            now
        });
        let idle = now - since;
        let Patience {
            spin,
            yielding,
            sharing,
        } = self.patience;
        let pause = if idle < spin && sharing == 0 {
            Pause::Spin
        } else if idle < spin + yielding {
            // Who never spins has nothing to learn from how long that takes.
            if !spin.is_zero() {
                self.yielded.get_or_insert((now, 0)).1 += 1;
            }
            Pause::Yield
        } else {
            Pause::Sleep
        };
        (pause, now, since)
    }
}

/// Returns, of a wait that has ended, whether a rank of the job has the same processor: the yields in it
/// were taken up, and not for long.
fn shares(took: Duration, yields: u32) -> bool {
    took < SOON && took >= TAKEN * yields
}

/// Polls for at most `limit`; an interruption counts as a poll without events.
pub(crate) fn poll_for(fds: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    // A day at most: some systems take no longer times, and the callers ask again.
    let limit = limit.map(|limit| limit.min(Duration::from_hours(24)));
    let limit = limit.map(|limit| Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    match poll(fds, limit.as_ref()) {
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::INTR) => {
            for fd in fds {
                fd.clear_revents();
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn yields_that_nobody_takes_up_are_no_sign_of_sharing() {
        assert!(!shares(micros(1), 1));
        assert!(!shares(micros(30), 25));
        assert!(shares(micros(8), 1));
        assert!(shares(micros(30), 3));
        // A busy process of another job.
        assert!(!shares(micros(3000), 1));
    }

    #[test]
    fn ranks_that_share_processors_give_theirs_away_once_before_they_look_at_the_clock() {
        let patience = |spin| Patience {
            spin: micros(spin),
            yielding: micros(1000),
            sharing: 0,
        };
        let mut idle = Idle::new(patience(0));
        for _ in 0..2 {
            assert!(idle.gives_way());
            assert!(!idle.gives_way());
            // The next rank that enters during a yield does not prolong the time without a clock.
            idle.moved();
            assert!(!idle.gives_way());
            assert_eq!(idle.pause().0, Pause::Yield);
            assert!(!idle.gives_way());
            idle.moved();
        }
        assert!(!Idle::new(patience(20)).gives_way());
    }

    #[test]
    fn a_rank_that_shared_a_processor_spins_again_once_it_no_longer_does() {
        let patience = Patience {
            spin: micros(20),
            yielding: micros(1000),
            sharing: SHARING,
        };
        let mut idle = Idle::new(patience);
        assert_eq!(idle.pause().0, Pause::Yield);
        // As if a thousand yields had come back at once.
        idle.yielded = idle.yielded.map(|(first, _)| (first, 1_000_000));
        let patience = idle.finish();
        assert_eq!(Idle::new(patience).pause().0, Pause::Spin);
    }
}
