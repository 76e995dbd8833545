//! How the first cause is found: a pure function of what the watch links said, and when.

mod late;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use comm_api::{FailureKind, Operation};
use comm_kit::Call;
use comm_kit::words::{self, Lost, SLOW};

use crate::notice::{Cause, Flow, Notice};

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
    /// The last word was said: a cause, or the farewell of rank 0, after which those who wait for it name it.
    decided: bool,
    /// The latest call that a rank is known to have entered.
    latest: Option<u64>,
    /// The earliest call that a rank takes no part in.
    first_left: Option<u64>,
    /// Until when something that was reported counts.
    news: Option<Instant>,
    pending: Option<Pending>,
    /// The calls in which ranks have waited for too long, as they said so.
    overdue: BTreeMap<u64, Overdue>,
    warn_at: Option<Instant>,
    warning: Option<Warning>,
    /// When those who wait were last told that bytes move.
    reassured: Option<Instant>,
}

/// A call in which a rank has waited for too long.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    /// When that is decided.
    at: Instant,
    /// How long was too long.
    timeout: Duration,
}

/// What the log says about a call that waits for long.
#[derive(Debug)]
pub(crate) struct Warning {
    operation: Operation,
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

impl Member {
    /// Returns for whom it is stuck in call `sequence`, if it has said so lately.
    fn stuck_behind(&self, sequence: u64, now: Instant) -> Option<usize> {
        let (call, peer, until) = self.stalled?;
        (call == sequence && now < until).then_some(peer)
    }
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
            left: None,
            stalled: None,
            flow: Flow::default(),
            moving: None,
            appealed: false,
        };
        Self {
            members: places.into_iter().map(member).collect(),
            decided: false,
            latest: None,
            first_left: None,
            news: None,
            pending: None,
            overdue: BTreeMap::new(),
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
                self.members[rank].appealed = false;
                self.latest = self.latest.max(Some(sequence));
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
                // No rank waits in more than one call.
                let room = self.overdue.len() < self.members.len();
                if room && !self.decided {
                    let at = now + ARRIVAL;
                    let overdue = self.overdue.entry(sequence);
                    overdue.or_insert(Overdue { at, timeout });
                }
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
                let until = self.news_until(now, timeout);
                self.members[rank].stalled = Some((sequence, peer, until));
                self.members[rank].appealed |= last;
                last.then(|| self.stall(sequence, peer, timeout, now))?
            }
            Notice::Moving { sequence, timeout } => {
                let until = self.news_until(now, timeout);
                self.members[rank].moving = Some((sequence, until));
                self.reassure(sequence, timeout, now)
            }
            Notice::Broken {
                sequence,
                peer,
                reason,
            } => {
                self.latest = self.latest.max(Some(sequence));
                self.torn(rank, peer, &reason, now)
            }
            Notice::Altered { peer, reason } => self.alter(rank, peer, &reason),
            Notice::Goodbye { sequence } => {
                self.members[rank].left = Some(sequence);
                let first = self.first_left.get_or_insert(sequence);
                *first = sequence.min(*first);
                let deserted = self.deserted();
                if rank == 0 && deserted.is_none() {
                    // A rank that waits for rank 0 from now on names it, and must not hear another cause.
                    self.close();
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

    /// Notes that no way leads to `rank` any more, as the end of its watch link says.
    pub(crate) fn lose_sight(&mut self, rank: usize, reason: &str) -> Option<Ruling> {
        let member = &self.members[rank];
        if member.left.is_some() {
            return None;
        }
        let message = unreachable(&format!("{}: {reason}", member.place));
        self.decide(Cause::new(FailureKind::PeerLost, Some(rank), message))
    }

    /// Notes that `rank` received from `peer` what `peer` did not send. No death explains that.
    pub(crate) fn alter(&mut self, rank: usize, peer: usize, reason: &str) -> Option<Ruling> {
        let message = distrusted(&self.list(&[rank]), &self.list(&[peer]), reason);
        self.decide(Cause::new(FailureKind::Io, Some(peer), message))
    }

    /// Returns how long nothing falls due.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Duration> {
        let pending = self.pending.as_ref().map(|pending| pending.at);
        let overdue = self.overdue.values().map(|overdue| overdue.at).min();
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
        let due = |(&sequence, overdue): (&u64, &Overdue)| {
            (overdue.at <= now).then_some((sequence, overdue.timeout))
        };
        let due: Vec<(u64, Duration)> = self.overdue.iter().filter_map(due).collect();
        due.into_iter().find_map(|(sequence, timeout)| {
            self.overdue.remove(&sequence);
            self.time_out(sequence, timeout, now)
        })
    }

    /// The first cause wins: later ones are not heard.
    fn decide(&mut self, cause: Cause) -> Option<Ruling> {
        if self.decided {
            return None;
        }
        self.close();
        Some(Ruling::Cause(cause))
    }

    /// Decides nothing any more.
    fn close(&mut self) {
        self.decided = true;
        self.pending = None;
        self.overdue.clear();
        self.warn_at = None;
    }

    /// Returns until when a report counts: a rank in the middle of a call repeats it much more often.
    fn news_until(&mut self, now: Instant, timeout: Duration) -> Instant {
        let until = now + (timeout / 2).clamp(ARRIVAL, LONGEST_NEWS);
        self.news = self.news.max(Some(until));
        until
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
        let latest = self.latest?;
        if self.decided || self.first_left? > latest {
            return None;
        }
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

    /// Lists ranks with their places, as far as a line goes.
    fn list(&self, ranks: &[usize]) -> String {
        let place = |rank: usize| Some(self.members.get(rank)?.place.as_str());
        words::ranks_at(ranks, place)
    }
}

/// Says that a rank cannot be reached any more; `link` says where it runs and what became of the link to it.
pub(crate) fn unreachable(link: &str) -> String {
    format!(
        "it is unreachable ({link}) and may still run; look at the network of its machine and of this one, then \
         restart the job"
    )
}

/// Says that what `peer` sent to `rank` was changed on its way.
pub(crate) fn distrusted(rank: &str, peer: &str, reason: &str) -> String {
    format!(
        "the link between {rank} and {peer} cannot be trusted ({reason}); look at the network \
         between them, then restart the job"
    )
}

#[cfg(test)]
mod tests;
