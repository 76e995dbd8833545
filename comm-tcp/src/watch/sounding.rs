//! Whether anything that rank 0 sends still arrives, asked before it blames a rank that has not come or does not
//! acknowledge: if nothing does, rank 0 is the one to name.
//!
//! The kernel of a rank that computes or is stopped acknowledges, too, so a link on which nothing is acknowledged
//! leads nowhere. A rank that waits answers, which ends the doubt at once.

use std::time::{Duration, Instant};

use super::tell;
use super::verdict::Judge;
use crate::link::Link;
use crate::notice::{Cause, Notice};
use crate::socket::hurry;

/// How long the other end of a link has to acknowledge.
const ACKNOWLEDGED: Duration = Duration::from_millis(200);

/// How long rank 0 waits for that to show.
const SHOWN: Duration = Duration::from_millis(800);

/// The shortest timeout that leaves time for that: a call fails within half of it more.
const SHORTEST: Duration = Duration::from_secs(2);

/// How long it has for what is told after that.
const UNHURRIED: Duration = Duration::from_secs(5);

/// A cause that is told unless nothing that rank 0 sends arrives.
#[derive(Debug)]
pub(super) struct Sounding {
    cause: Cause,
    until: Instant,
    /// Those on other machines.
    asked: Vec<usize>,
    /// Those of them whose links have ended in silence.
    silent: Vec<usize>,
    answered: bool,
}

impl Sounding {
    /// Asks all workers on other machines; `silent` is the one whose link has ended already, if that is the
    /// cause, and `timeout` the one that was over, if one was. Returns the cause if there is nothing to find
    /// out, or no time to.
    pub(super) fn begin(
        cause: Cause,
        silent: Option<usize>,
        timeout: Option<Duration>,
        links: &mut [Option<Link>],
        judge: &Judge,
        now: Instant,
    ) -> Result<Self, Cause> {
        if cause.rank == Some(0) || timeout.is_some_and(|timeout| timeout < SHORTEST) {
            return Err(cause);
        }
        let mut asked = Vec::from_iter(silent);
        let mut silent = asked.clone();
        for (rank, link) in links.iter_mut().enumerate().skip(1) {
            let Some(link) = link else { continue };
            let hurried = hurry(link, ACKNOWLEDGED);
            if matches!(hurried, Ok(false)) {
                continue;
            }
            tell(link, &Notice::Ping);
            // Several links may have ended at once, and this one not have been read since.
            if link.is_silent() {
                silent.push(rank);
            } else if hurried.is_err() {
                continue;
            }
            asked.push(rank);
        }
        // The way to one machine may be broken at either end.
        if judge.are_together(&asked) {
            unhurry(links);
            return Err(cause);
        }
        Ok(Self {
            cause,
            until: now + SHOWN,
            asked,
            silent,
            answered: false,
        })
    }

    /// Returns how long nothing falls due.
    pub(super) fn next_due(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// Notes that a worker has answered.
    pub(super) fn answer(&mut self, rank: usize) {
        self.answered |= self.asked.contains(&rank);
    }

    /// Notes that the link of a worker has ended in silence.
    pub(super) fn end(&mut self, rank: usize) {
        if self.asked.contains(&rank) && !self.silent.contains(&rank) {
            self.silent.push(rank);
        }
    }

    /// Returns the cause once it is known.
    pub(super) fn found(&self, judge: &Judge, now: Instant) -> Option<Cause> {
        if !self.answered && self.silent.len() == self.asked.len() {
            let mut silent = self.silent.clone();
            silent.sort_unstable();
            let message = format!(
                "nothing that {} sends arrives at {} any more; look at the network of its machine, then \
                 restart the job",
                judge.list(&[0]),
                judge.list(&silent)
            );
            return Some(Cause::new(self.cause.kind, Some(0), message));
        }
        (self.answered || now >= self.until).then(|| self.cause.clone())
    }

    /// Returns the cause if there is no time to find out.
    pub(super) fn into_cause(self) -> Cause {
        self.cause
    }
}

/// Gives all links time again, for the cause that goes out next.
pub(super) fn unhurry(links: &[Option<Link>]) {
    for link in links.iter().flatten() {
        let _ = hurry(link, UNHURRIED);
    }
}

#[cfg(test)]
mod tests {
    use comm_api::FailureKind::TimedOut;

    use super::*;

    fn sounding(now: Instant) -> (Sounding, Judge) {
        let places = (0..4).map(|rank| format!("host-{rank}")).collect();
        let sounding = Sounding {
            cause: Cause::new(TimedOut, Some(1), "late"),
            until: now + Duration::from_millis(800),
            asked: vec![1, 2, 3],
            silent: Vec::new(),
            answered: false,
        };
        (sounding, Judge::new(places))
    }

    #[test]
    fn rank_0_is_named_if_nothing_arrives_anywhere() {
        let now = Instant::now();
        let (mut sounding, judge) = sounding(now);
        for rank in [3, 1, 1] {
            sounding.end(rank);
            assert_eq!(sounding.found(&judge, now), None);
        }
        sounding.end(2);
        let cause = sounding.found(&judge, now).unwrap();
        assert_eq!((cause.kind, cause.rank), (TimedOut, Some(0)));
        for part in ["rank 0 (host-0)", "ranks 1 (host-1), 2 (host-2), 3"] {
            assert!(cause.message.contains(part), "{cause:?}");
        }
    }

    #[test]
    fn who_is_late_stays_named_if_anything_may_have_arrived() {
        let now = Instant::now();
        let (mut sounding, judge) = sounding(now);
        sounding.end(1);
        sounding.end(3);
        assert_eq!(
            sounding.found(&judge, now + Duration::from_millis(400)),
            None
        );
        let late = Some(Cause::new(TimedOut, Some(1), "late"));
        assert_eq!(
            sounding.found(&judge, now + Duration::from_millis(800)),
            late
        );
        sounding.answer(2);
        assert_eq!(sounding.found(&judge, now), late);
    }

    /// The machine of two workers has vanished, or the way to it: that says nothing about rank 0.
    #[test]
    fn ranks_of_one_machine_that_all_fall_silent_are_one_witness() {
        let places = ["one", "other", "other", "third"].map(str::to_owned);
        let judge = Judge::new(places.to_vec());
        assert!(judge.are_together(&[]) && judge.are_together(&[1, 2]));
        assert!(!judge.are_together(&[1, 2, 3]));
    }
}
