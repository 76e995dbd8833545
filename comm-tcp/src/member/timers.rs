//! What a rank does about a wait that lasts, and when: a pure function of the times it is given.
//!
//! | after | it |
//! |---|---|
//! | 10 ms in which not all have entered | reports that it waits, so that the watch knows who is missing |
//! | every eighth of the timeout in the middle of a call | reports that bytes have moved, or that it is stalled, and behind whom |
//! | the timeout, less 1 s or a quarter of it | asks whether rank 0 is there |
//! | the timeout, and at least 150 ms after that question | gives up on a rank 0 that has not answered |
//! | the timeout | appeals to rank 0 to decide who is to blame |
//! | 1 s after the appeal | gives up |
//! | 50 ms without a byte, once a rank is known to be lost | ends a call that might still have finished |

use std::time::{Duration, Instant};

use comm_api::FailureKind;

use super::Outlook;

/// When a rank that waits reports it.
const REPORT: Duration = Duration::from_millis(10);

/// How long the bytes of a call may still come after a rank was lost that may have sent its own.
const GRACE: Duration = Duration::from_millis(50);

/// How long before its timeout a rank asks whether rank 0 is there to decide: this, or a quarter of
/// the timeout if that is less.
const EARLY: Duration = Duration::from_secs(1);

/// How long a rank whose time is over waits for the verdict of a rank 0 that is there.
const VERDICT: Duration = Duration::from_secs(1);

/// How long rank 0 has at least to answer that it is there, however short the timeout.
const ANSWER: Duration = Duration::from_millis(150);

/// What is known about a wait at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// Since when nothing has moved.
    pub(super) since: Instant,
    pub(super) outlook: Outlook,
    /// All whose bytes are waited for have begun to send: bytes that move are a sign of life.
    pub(super) underway: bool,
    /// The kind of the cause for which the call cannot be completed any more, if one was heard. The
    /// task was asked after that, in this call or an earlier one, and could not finish.
    pub(super) cause: Option<FailureKind>,
    /// Rank 0 owes the answer to a ping.
    pub(super) unanswered: bool,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Report to the watch that this rank waits for others to enter.
    ReportWaiting,
    /// Report to the watch that no byte moves.
    ReportStalled,
    /// Report to the watch that bytes move.
    ReportMoving,
    /// Ask whether rank 0 is there.
    Ping,
    /// Let rank 0 decide: the timeout is over.
    Appeal,
    /// Fail with the cause that was heard.
    Fail,
    /// Fail, and blame rank 0, which does not answer.
    BlameRank0,
    /// Fail, and blame the rank that is waited for: no verdict comes.
    BlamePeer,
}

/// What is due at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Now(Action),
    /// Nothing until this much time has passed, or ever.
    In(Option<Duration>),
}

/// Keeps the times of one wait, from the first look at which nothing moved.
#[derive(Debug)]
pub(super) struct Timers {
    timeout: Option<Duration>,
    began: Option<Instant>,
    reported_waiting: bool,
    reported_stalled: Option<Instant>,
    /// When rank 0 has said that bytes move elsewhere.
    waits_on: Option<Instant>,
    pinged: Option<Instant>,
    appealed: Option<Instant>,
}

impl Timers {
    /// Creates the timers of a wait; without a timeout it has no end.
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Self {
            timeout,
            began: None,
            reported_waiting: false,
            reported_stalled: None,
            waits_on: None,
            pinged: None,
            appealed: None,
        }
    }

    /// Notes that nothing has moved since then.
    pub(super) fn waiting(&mut self, since: Instant) {
        self.began.get_or_insert(since);
    }

    /// Begins the timeout anew: bytes move elsewhere.
    pub(super) fn wait_on(&mut self, now: Instant) {
        self.waits_on = Some(now);
        self.pinged = None;
        self.appealed = None;
    }

    /// Returns the next action that is due, and counts it as done; once none is left, when to ask
    /// again.
    pub(super) fn due(&mut self, moment: &Moment) -> Due {
        match self.next(moment) {
            Ok(next) => Due::In(next.map(|next| next.saturating_duration_since(moment.now))),
            Err(action) => Due::Now(action),
        }
    }

    /// Returns when something falls due, or as an error what already has.
    fn next(&mut self, moment: &Moment) -> Result<Option<Instant>, Action> {
        let times = [
            fail(moment)?,
            self.report_waiting(moment)?,
            self.report_stalled(moment)?,
            self.time_out(moment)?,
        ];
        Ok(times.into_iter().flatten().min())
    }

    fn report_waiting(&mut self, moment: &Moment) -> Result<Option<Instant>, Action> {
        if moment.outlook == Outlook::Moving || self.reported_waiting {
            return Ok(None);
        }
        let at = self.start(moment) + REPORT;
        if moment.now >= at {
            self.reported_waiting = true;
            return Err(Action::ReportWaiting);
        }
        Ok(Some(at))
    }

    /// Again and again: by it the watch tells ranks that move bytes, however slowly, from ranks that are
    /// stuck behind others, and both from ranks that are not there.
    fn report_stalled(&mut self, moment: &Moment) -> Result<Option<Instant>, Action> {
        let Some((timeout, _)) = self.deadline(moment) else {
            return Ok(None);
        };
        if moment.outlook == Outlook::Entering && !moment.underway {
            return Ok(None);
        }
        let last = self.reported_stalled.or(self.began);
        let last = last.unwrap_or(moment.since);
        let at = last + (timeout / 8).max(REPORT);
        if moment.now < at {
            return Ok(Some(at));
        }
        self.reported_stalled = Some(moment.now);
        match moment.outlook {
            _ if moment.since > last => Err(Action::ReportMoving),
            Outlook::Moving => Err(Action::ReportStalled),
            Outlook::Entering => Ok(Some(moment.now + (timeout / 8).max(REPORT))),
        }
    }

    fn time_out(&mut self, moment: &Moment) -> Result<Option<Instant>, Action> {
        let Some((timeout, deadline)) = self.deadline(moment) else {
            return Ok(None);
        };
        let now = moment.now;
        let early = self.start(moment) + timeout.saturating_sub(EARLY.min(timeout / 4));
        if now < early {
            self.pinged = None;
            return Ok(Some(early));
        }
        if now < deadline {
            if self.pinged.is_none() {
                self.pinged = Some(now);
                return Err(Action::Ping);
            }
            return Ok(Some(deadline));
        }
        let (at, action) = match (self.pinged, self.appealed) {
            (Some(pinged), _) if moment.unanswered => (pinged + ANSWER, Action::BlameRank0),
            (_, Some(appealed)) => (appealed + VERDICT, Action::BlamePeer),
            (_, None) => {
                self.appealed = Some(now);
                return Err(Action::Appeal);
            }
        };
        if now >= at {
            return Err(action);
        }
        Ok(Some(at))
    }

    /// Returns since when the wait counts: ranks that enter one after the other do not prolong it,
    /// bytes that move do.
    fn start(&self, moment: &Moment) -> Instant {
        let start = match moment.outlook {
            Outlook::Entering if !moment.underway => self.began.unwrap_or(moment.since),
            Outlook::Entering | Outlook::Moving => moment.since,
        };
        self.waits_on.map_or(start, |anew| anew.max(start))
    }

    /// Returns the timeout and when it is over.
    fn deadline(&self, moment: &Moment) -> Option<(Duration, Instant)> {
        let timeout = self.timeout?;
        Some((timeout, self.start(moment).checked_add(timeout)?))
    }
}

fn fail(moment: &Moment) -> Result<Option<Instant>, Action> {
    let Some(kind) = moment.cause else {
        return Ok(None);
    };
    let may_finish = moment.outlook == Outlook::Moving && kind == FailureKind::PeerLost;
    let at = moment.since + GRACE;
    if !may_finish || moment.now >= at {
        return Err(Action::Fail);
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests;
