//! Who is to blame for a call that takes too long, and what the log says meanwhile.

use std::time::{Duration, Instant};

use comm_api::FailureKind;
use comm_kit::words::{self, SLOW};

use super::{Judge, Member, Ruling, Warning};
use crate::notice::Cause;
use crate::variables;

impl Judge {
    /// Decides a call in the middle of which no byte moves any more. Everybody accuses a neighbour;
    /// the one to blame is accused and has not complained itself.
    pub(super) fn stall(
        &mut self,
        sequence: u64,
        peer: usize,
        timeout: Duration,
        now: Instant,
    ) -> Option<Ruling> {
        if self.moves(sequence, now) {
            return self.wait_on();
        }
        let fresh = |member: &Member| member.stuck_behind(sequence, now);
        let accused = self.members.iter().filter_map(fresh);
        let silent =
            accused.filter(|&rank| self.members.get(rank).is_some_and(|s| fresh(s).is_none()));
        let silent = silent.min();
        // Through with this call, and waiting in a later one: what it sent did not arrive.
        let is_through = |rank: usize| {
            let waiting = self.members[rank].waiting;
            waiting.is_some_and(|(call, ..)| call > sequence)
        };
        let link = match silent {
            Some(rank) if is_through(rank) => {
                let mut members = self.members.iter();
                let waits = members.position(|member| fresh(member) == Some(rank));
                waits.map(|waits| (rank, waits))
            }
            Some(_) => None,
            None => self.swallowed(|member| fresh(member).is_some()),
        };
        if let Some((rank, next)) = link {
            return self.cut(rank, next, timeout);
        }
        let rank = silent.unwrap_or(peer);
        let message = words::stalled(&self.list(&[rank]), Some(timeout), variables::TIMEOUT);
        self.decide(Cause::new(FailureKind::TimedOut, Some(rank), message))
    }

    /// Decides that a link between two ranks that both live carries nothing.
    fn cut(&mut self, rank: usize, other: usize, timeout: Duration) -> Option<Ruling> {
        let message = format!(
            "no byte came through the link between {} and {} within {timeout:?} although both \
             live; look at the network between them, then restart the job",
            self.list(&[rank]),
            self.list(&[other])
        );
        self.decide(Cause::new(FailureKind::TimedOut, None, message))
    }

    /// Finds the ring link on which bytes were sent that did not arrive, between two ranks that are both
    /// stuck: who of them is to blame nobody knows.
    fn swallowed(&self, is_stuck: impl Fn(&Member) -> bool) -> Option<(usize, usize)> {
        let size = self.members.len();
        let links = (0..size).map(|rank| (rank, (rank + 1) % size));
        links.into_iter().find(|&(rank, next)| {
            let (one, other) = (&self.members[rank], &self.members[next]);
            let ((sent, received), (sent_back, came)) = (one.flow.next, other.flow.prev);
            is_stuck(one) && is_stuck(other) && (sent > came || sent_back > received)
        })
    }

    /// Decides a call that a rank has waited for too long: ranks that differ, or ranks that are
    /// missing, unless they are stuck behind others in the middle of an earlier call.
    pub(super) fn time_out(
        &mut self,
        sequence: u64,
        timeout: Duration,
        now: Instant,
    ) -> Option<Ruling> {
        let there = |member: &Member| member.waiting.filter(|&(s, ..)| s == sequence);
        let calls = self.members.iter().enumerate();
        let calls = calls.filter_map(|(rank, member)| Some((rank, there(member)?.1)));
        if let Some((rank, message)) = words::differing(calls) {
            return self.decide(Cause::new(FailureKind::Mismatch, Some(rank), message));
        }
        let missing = self.missing(sequence);
        let stuck = |&rank: &usize| {
            let Member {
                stalled, moving, ..
            } = self.members[rank];
            stalled.is_some_and(|(call, _, until)| call < sequence && now < until)
                || moving.is_some_and(|(call, until)| call < sequence && now < until)
        };
        let (stuck, mut idle): (Vec<usize>, Vec<usize>) =
            missing.iter().partition(|rank| stuck(rank));
        if idle.is_empty() {
            if self.moves(sequence, now) {
                return self.wait_on();
            }
            idle = stuck;
        }
        let Some(&rank) = idle.first() else {
            // All have come. If the last of them did just now, it is for them to finish. If the one that rank 0 waits for has waited
            // for as long, its entry was lost.
            let peer = self.members[0].stuck_behind(sequence, now)?;
            let lost = self.members.get(peer).is_some_and(|it| it.appealed);
            return if lost {
                self.cut(0, peer, timeout)
            } else {
                None
            };
        };
        let message = words::absent(&self.list(&idle), Some(timeout), variables::TIMEOUT);
        self.decide(Cause::new(FailureKind::TimedOut, Some(rank), message))
    }

    /// Returns whether something was reported that counts for a while, and whose age therefore
    /// matters.
    pub(crate) fn remembers(&self, now: Instant) -> bool {
        !self.decided && self.news.is_some_and(|until| now < until)
    }

    /// Returns whether somebody moves bytes of call `sequence` or an earlier one.
    fn moves(&self, sequence: u64, now: Instant) -> bool {
        let mut moving = self.members.iter().filter_map(|member| member.moving);
        moving.any(|(call, until)| call <= sequence && now < until)
    }

    /// Lets those wait on who wait while bytes of call `sequence` move, before they ask: on a slow link an
    /// answer to them would stand in line behind these bytes.
    pub(super) fn reassure(
        &mut self,
        sequence: u64,
        timeout: Duration,
        now: Instant,
    ) -> Option<Ruling> {
        // Many may move bytes; each eighth of a timeout one of them suffices.
        let soon = self.reassured.is_some_and(|at| now < at + timeout / 16);
        if soon || self.decided {
            return None;
        }
        self.reassured = Some(now);
        let waits = |member: &Member| member.waiting.is_some_and(|(call, ..)| call >= sequence);
        let members = self.members.iter().enumerate();
        let waiting = members.filter(|(_, member)| waits(member));
        Some(Ruling::WaitOn(waiting.map(|(rank, _)| rank).collect()))
    }

    /// Lets those wait on who have said that their timeout is over.
    fn wait_on(&mut self) -> Option<Ruling> {
        if self.decided {
            return None;
        }
        let members = self.members.iter_mut().enumerate();
        let appealed = members
            .filter_map(|(rank, member)| std::mem::take(&mut member.appealed).then_some(rank));
        Some(Ruling::WaitOn(appealed.collect()))
    }

    fn missing(&self, sequence: u64) -> Vec<usize> {
        let absent = |member: &Member| member.waiting.is_none_or(|(s, ..)| s < sequence);
        let members = self.members.iter().enumerate();
        let missing = members.filter(|(_, member)| absent(member));
        missing.map(|(rank, _)| rank).collect()
    }

    pub(super) fn warn(&mut self, now: Instant, passed: u64) {
        let waiting = || self.members.iter().filter_map(|member| member.waiting);
        let latest = waiting()
            .filter(|&(sequence, ..)| sequence >= passed)
            .max_by_key(|&(sequence, _, since)| (sequence, std::cmp::Reverse(since)));
        self.warn_at = None;
        let Some((sequence, call, since)) = latest else {
            return;
        };
        if now < since + SLOW {
            self.warn_at = Some(since + SLOW);
            return;
        }
        let missing = self.missing(sequence);
        if !missing.is_empty() {
            self.warning = Some(Warning {
                operation: call.operation(),
                missing: self.list(&missing),
                waited: now - since,
            });
            self.warn_at = Some(now + SLOW);
        }
    }
}
