//! How the first cause is found: a pure function of what the watch links said, and when.

use std::time::{Duration, Instant};

use comm_api::FailureKind;
use comm_kit::Call;
use comm_kit::words::{self, Lost, SLOW};

use crate::notice::{Cause, Flow, Notice};
use crate::variables;

/// How long a broken link waits for a death that explains it.
const EXPLANATION: Duration = Duration::from_millis(200);

/// How long a timeout waits for ranks that have just come to say so: some milliseconds pass before
/// they do.
const ARRIVAL: Duration = Duration::from_millis(50);

/// The longest that a report counts; longer than any timeout that somebody waits for.
const LONGEST_NEWS: Duration = Duration::from_hours(24 * 365);

/// What goes out to all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ruling {
    Cause(Cause),
    /// Rank 0 left for good, after the calls below this sequence.
    Farewell(u64),
    /// Bytes move: these ranks, whose timeouts are over, are to wait on.
    WaitOn(Vec<usize>),
}

/// Decides the first cause, from what each rank said last.
#[derive(Debug)]
pub(crate) struct Judge {
    members: Vec<Member>,
    decided: bool,
    pending: Option<Pending>,
    overdue: Option<Overdue>,
    warn_at: Option<Instant>,
    warning: Option<Warning>,
    /// When those who wait were last told that bytes move.
    reassured: Option<Instant>,
}

/// The first call in which a rank has waited for too long.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    /// When that is decided.
    at: Instant,
    sequence: u64,
    /// How long was too long.
    timeout: Duration,
}

/// What the log says about a call that waits for long.
#[derive(Debug)]
pub(crate) struct Warning {
    operation: &'static str,
    missing: String,
    waited: Duration,
}

impl Warning {
    /// Writes it to the log.
    pub(crate) fn log(&self) {
        words::log_waiting(self.operation, 0, &self.missing, self.waited);
    }
}

/// What the watch knows of one rank.
#[derive(Debug)]
struct Member {
    /// Where it runs, for messages.
    place: String,
    /// The call it waits in, or waited in last, and when it said so.
    waiting: Option<(u64, Call, Instant)>,
    /// The latest call it is known to have entered.
    entered: Option<u64>,
    /// The first call it takes no part in.
    left: Option<u64>,
    /// The stall it has reported: the call, for whom it waits, and until when that counts.
    stalled: Option<(u64, usize, Instant)>,
    /// What had gone over its ring links then.
    flow: Flow,
    /// The call of which it has moved bytes, and until when that counts.
    moving: Option<(u64, Instant)>,
    /// It has said that its timeout is over, and was not answered.
    appealed: bool,
}

/// What will be decided unless something better turns up.
#[derive(Debug)]
struct Pending {
    at: Instant,
    /// The other end of a link that broke, and how.
    peer: usize,
    reason: String,
    cause: Cause,
}

impl Judge {
    pub(crate) fn new(places: Vec<String>) -> Self {
        let member = |place| Member {
            place,
            waiting: None,
            entered: None,
            left: None,
            stalled: None,
            flow: Flow::default(),
            moving: None,
            appealed: false,
        };
        Self {
            members: places.into_iter().map(member).collect(),
            decided: false,
            pending: None,
            overdue: None,
            warn_at: None,
            warning: None,
            reassured: None,
        }
    }

    /// Takes what `rank` said.
    pub(crate) fn hear(&mut self, rank: usize, notice: Notice, now: Instant) -> Option<Ruling> {
        match notice {
            Notice::Waiting { sequence, call } => {
                self.members[rank].waiting = Some((sequence, call, now));
                self.members[rank].entered = Some(sequence);
                self.warn_at.get_or_insert(now + SLOW);
                self.deserted()
            }
            Notice::TimedOut {
                sequence,
                call,
                timeout,
            } => {
                self.members[rank].waiting = Some((sequence, call, now));
                self.members[rank].appealed = true;
                self.overdue.get_or_insert(Overdue {
                    at: now + ARRIVAL,
                    sequence,
                    timeout,
                });
                None
            }
            Notice::Stalled {
                sequence,
                peer,
                last,
                timeout,
                flow,
            } => {
                self.members[rank].flow = flow;
                self.members[rank].stalled = Some((sequence, peer, news_until(now, timeout)));
                self.members[rank].appealed |= last;
                last.then(|| self.stall(sequence, peer, timeout, now))?
            }
            Notice::Moving { sequence, timeout } => {
                self.members[rank].moving = Some((sequence, news_until(now, timeout)));
                self.reassure(sequence, timeout, now)
            }
            Notice::Broken {
                sequence,
                peer,
                reason,
            } => {
                self.members[rank].entered = Some(sequence);
                self.torn(rank, peer, &reason, now)
            }
            Notice::Altered { peer, reason } => self.alter(rank, peer, &reason),
            Notice::Goodbye { sequence } => {
                self.members[rank].left = Some(sequence);
                let deserted = self.deserted();
                if rank == 0 && deserted.is_none() {
                    return Some(Ruling::Farewell(sequence));
                }
                deserted
            }
            Notice::Lost(lost) => self.lost(rank, lost, None),
            Notice::Abort { code } => self.abort(rank, words::aborted(code)),
            Notice::Interrupted => self.abort(rank, words::interrupted()),
            // It has failed already, for this cause; the others can have no better one.
            Notice::GaveUp(cause) => self.decide(cause),
            // The thread answers pings itself, and only it sends the others.
            Notice::Ping | Notice::Pong | Notice::WaitOn | Notice::Cause { .. } => None,
        }
    }

    /// Notes that the watch link of `rank` ended.
    pub(crate) fn lose(&mut self, rank: usize, reason: &str) -> Option<Ruling> {
        if self.members[rank].left.is_some() {
            return None;
        }
        self.lost(rank, Lost::Ended, Some(reason))
    }

    /// Notes that `rank` received from `peer` what `peer` did not send. No death explains that.
    pub(crate) fn alter(&mut self, rank: usize, peer: usize, reason: &str) -> Option<Ruling> {
        let message = distrusted(&self.list(&[rank]), &self.list(&[peer]), reason);
        self.decide(Cause::new(FailureKind::Io, Some(peer), message))
    }

    /// Returns how long nothing falls due.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Duration> {
        let pending = self.pending.as_ref().map(|pending| pending.at);
        let overdue = self.overdue.map(|overdue| overdue.at);
        let next = [pending, overdue, self.warn_at].into_iter().flatten();
        let next = next.min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Returns what the log is to say about who is waited for.
    pub(crate) fn warning(&mut self) -> Option<Warning> {
        self.warning.take()
    }

    /// Decides what has waited long enough. Rank 0 is through with all calls before `passed`, so nobody
    /// waits for anybody in one of them.
    pub(crate) fn due(&mut self, now: Instant, passed: u64) -> Option<Ruling> {
        if self.warn_at.is_some_and(|at| at <= now) {
            self.warn(now, passed);
        }
        if let Some(pending) = self.pending.take_if(|pending| pending.at <= now) {
            return if self.members[pending.peer].left.is_some() {
                self.lost(pending.peer, Lost::Dropped, Some(&pending.reason))
            } else {
                self.decide(pending.cause)
            };
        }
        let overdue = self.overdue.take_if(|overdue| overdue.at <= now)?;
        self.time_out(overdue, now)
    }

    /// The first cause wins: later ones are not heard.
    fn decide(&mut self, cause: Cause) -> Option<Ruling> {
        if self.decided {
            return None;
        }
        self.decided = true;
        self.pending = None;
        self.overdue = None;
        self.warn_at = None;
        Some(Ruling::Cause(cause))
    }

    fn abort(&mut self, rank: usize, message: String) -> Option<Ruling> {
        self.decide(Cause::new(FailureKind::Aborted, Some(rank), message))
    }

    /// Decides that a rank is lost; `link` says what became of its link, where that is how it was
    /// noticed.
    fn lost(&mut self, rank: usize, lost: Lost, link: Option<&str>) -> Option<Ruling> {
        let mut place = self.members[rank].place.clone();
        if let Some(link) = link {
            place = format!("{place}: {link}");
        }
        let message = words::lost(lost, Some(&place));
        self.decide(Cause::new(FailureKind::PeerLost, Some(rank), message))
    }

    /// Finds a rank that left before a call that another waits in.
    fn deserted(&mut self) -> Option<Ruling> {
        let latest = self
            .members
            .iter()
            .filter_map(|member| member.entered)
            .max()?;
        let mut members = self.members.iter();
        let rank = members.position(|member| member.left.is_some_and(|left| left <= latest))?;
        self.lost(rank, Lost::Dropped, None)
    }

    fn torn(&mut self, rank: usize, peer: usize, reason: &str, now: Instant) -> Option<Ruling> {
        if peer >= self.members.len() {
            return None;
        }
        if let Some(ruling) = self.deserted() {
            return Some(ruling);
        }
        if self.pending.is_none() && !self.decided {
            let message = format!(
                "the link between {} and {} broke ({reason}) while both live; look at the network \
                 between them, then restart the job",
                self.list(&[rank]),
                self.list(&[peer])
            );
            self.pending = Some(Pending {
                at: now + EXPLANATION,
                peer,
                reason: reason.to_owned(),
                cause: Cause::new(FailureKind::Io, Some(peer), message),
            });
        }
        None
    }

    /// Decides a call in the middle of which no byte moves any more. Everybody accuses a neighbour;
    /// the one to blame is accused and has not complained itself.
    fn stall(
        &mut self,
        sequence: u64,
        peer: usize,
        timeout: Duration,
        now: Instant,
    ) -> Option<Ruling> {
        if self.moves(sequence, now) {
            return self.wait_on();
        }
        let fresh = |member: &Member| {
            let (call, peer, until) = member.stalled?;
            (call == sequence && now < until).then_some(peer)
        };
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
            let message = format!(
                "no byte came through the link between {} and {} within {timeout:?} although both \
                 live; look at the network between them, then restart the job",
                self.list(&[rank]),
                self.list(&[next])
            );
            return self.decide(Cause::new(FailureKind::TimedOut, None, message));
        }
        let rank = silent.unwrap_or(peer);
        let message = words::stalled(&self.list(&[rank]), Some(timeout), variables::TIMEOUT);
        self.decide(Cause::new(FailureKind::TimedOut, Some(rank), message))
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
    fn time_out(&mut self, overdue: Overdue, now: Instant) -> Option<Ruling> {
        let Overdue {
            sequence, timeout, ..
        } = overdue;
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
        // All have come, the last of them just now: it is for them to finish.
        let &rank = idle.first()?;
        let message = words::absent(&self.list(&idle), Some(timeout), variables::TIMEOUT);
        self.decide(Cause::new(FailureKind::TimedOut, Some(rank), message))
    }

    /// Returns whether something was reported that counts for a while, and whose age therefore
    /// matters.
    pub(crate) fn remembers(&self, now: Instant) -> bool {
        let until = |member: &Member| {
            let stalled = member.stalled.map(|(_, _, until)| until);
            stalled.max(member.moving.map(|(_, until)| until))
        };
        !self.decided && self.members.iter().filter_map(until).any(|it| now < it)
    }

    /// Returns whether somebody moves bytes of call `sequence` or an earlier one.
    fn moves(&self, sequence: u64, now: Instant) -> bool {
        let mut moving = self.members.iter().filter_map(|member| member.moving);
        moving.any(|(call, until)| call <= sequence && now < until)
    }

    /// Lets those wait on who wait while bytes of call `sequence` move, before they ask: on a slow link an
    /// answer to them would stand in line behind these bytes.
    fn reassure(&mut self, sequence: u64, timeout: Duration, now: Instant) -> Option<Ruling> {
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

    fn warn(&mut self, now: Instant, passed: u64) {
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

    /// Returns whether all these ranks run in one place.
    pub(super) fn are_together(&self, ranks: &[usize]) -> bool {
        let mut places = ranks.iter().map(|&rank| &self.members[rank].place);
        let first = places.next();
        places.all(|place| Some(place) == first)
    }

    /// Lists ranks with their places, as far as a line goes.
    pub(super) fn list(&self, ranks: &[usize]) -> String {
        let place = |rank: usize| Some(self.members.get(rank)?.place.as_str());
        words::ranks_at(ranks, place)
    }
}

/// Says that what `peer` sent to `rank` was changed on its way.
pub(super) fn distrusted(rank: &str, peer: &str, reason: &str) -> String {
    format!(
        "the link between {rank} and {peer} cannot be trusted ({reason}); look at the network \
         between them, then restart the job"
    )
}

/// Returns until when a report counts: whoever is in the middle of a call repeats it much more often.
fn news_until(now: Instant, timeout: Duration) -> Instant {
    now + (timeout / 2).clamp(ARRIVAL, LONGEST_NEWS)
}

#[cfg(test)]
mod tests;
