//! One rank of a job: what it has heard, what it waits for, and why it ends. Events in, steps out: without links, sleep or
//! a clock of its own.
//!
//! | state | it waits for | at most |
//! |---|---|---|
//! | idle | nothing that lasts | |
//! | running | the ranks or bytes of its call, by its [timers] | its timeout, twice around a verdict |
//! | asking | its own watch, to have read all links, before rank 0 answers | 10 s |
//! | explaining | what rank 0 makes of a broken link | 1 s, or its timeout, or until rank 0 is silent |
//! | consenting | another cause than the one it fails with | 0.5 s, a quarter of its timeout, or 10 s on rank 0 |
//! | deciding | the cause that its own watch has decided | 10 s |
//! | interrupted | its own watch, to tell the others | 1 s |
//! | failed | nothing | |

mod cause;
mod limit;
mod timers;

use std::time::{Duration, Instant};

use comm_api::FailureKind;
use comm_kit::Call;
use comm_kit::words::Lost;

use crate::link::Broken;
use crate::notice::{Cause, Flow, Notice};
use crate::socket::Patience;

use cause::{lost, undecided};
use limit::Limit;
use timers::{Action, Due, Moment, Timers};

/// How long a rank waits for the verdict of rank 0 whose link to it broke or cannot be trusted, and an
/// interrupted rank 0 for its watch.
const EXPLANATION: Duration = Duration::from_secs(1);

/// How long a rank that gave up by itself waits for another cause, which the others may have been told:
/// this, or a quarter of the timeout that was over, so that it fails soon after it.
const CONSENT: Duration = Duration::from_millis(500);

/// How long rank 0 waits for the watch, a thread of its own process, which may have to wait for a
/// processor.
const OWN_WATCH: Duration = Duration::from_secs(10);

/// The time between two answers of rank 0 in which nobody can have given up on it: this, or half of the
/// timeout if that is less.
const NO_PAUSE: Duration = Duration::from_millis(100);

/// What a rank is waiting for while it asks whether that can still come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// The others, to enter the call.
    Entering,
    /// Bytes, of ranks that have all entered.
    Moving,
}

/// A wait in a call, as it looks at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) sequence: u64,
    pub(crate) call: Call,
    pub(crate) outlook: Outlook,
    /// All whose bytes are waited for have begun to send them.
    pub(crate) underway: bool,
    /// A rank without which it cannot go on.
    pub(crate) waits_for: usize,
    pub(crate) flow: Flow,
    /// Since when nothing has moved.
    pub(crate) since: Instant,
    /// Since when nothing had moved at the first look.
    pub(crate) began: Instant,
}

/// What a rank that waits has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send a notice to rank 0.
    Tell(Notice),
    /// Wait until something comes, for this long at most.
    Sleep(Option<Duration>),
    /// Leave the call: what is left is to find the cause.
    Settle,
}

/// How a link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The process at the other end is gone.
    Closed,
    /// No way leads to the other end: the process there may live.
    Unreachable,
    /// What came is not what was sent.
    Altered,
}

#[derive(Debug)]
enum State {
    Idle,
    Running(Timers),
    Asking(Limit),
    Explaining(Box<Broke>, Limit),
    Consenting(Cause, Limit),
    Deciding(Limit),
    Interrupted(Limit),
    Failed(Cause),
}

/// A link that broke during a call.
#[derive(Debug)]
struct Broke {
    broken: Broken,
    loss: Loss,
    sequence: u64,
}

/// What one rank knows, and what it is in.
#[derive(Debug)]
pub(crate) struct Member {
    rank: usize,
    size: usize,
    pub(crate) timeout: Option<Duration>,
    /// Where rank 0 runs, for messages.
    place_of_rank_0: String,
    patience: Patience,
    state: State,
    /// What is to be told first.
    say: Option<Notice>,
    /// What rank 0 has told, and the first call that it has not answered.
    cause: Option<(Cause, u64)>,
    rank_0_left: Option<u64>,
    /// How the watch link ended, and why.
    lost: Option<(Loss, String)>,
    news: News,
    /// When this rank 0 was known to have missed nothing.
    caught_up: Duration,
}

/// What a wait has to know about rank 0.
#[derive(Debug, Default)]
struct News {
    /// Rank 0 has not answered the last ping.
    unanswered: bool,
    /// Rank 0 has said that bytes move elsewhere.
    wait_on: bool,
    /// The system of rank 0 has not answered for a while.
    quiet: bool,
}

impl Member {
    /// Creates a rank of `size`; the machine has been `up` for so long.
    pub(crate) fn new(
        (rank, size): (usize, usize),
        place_of_rank_0: String,
        timeout: Option<Duration>,
        up: Duration,
    ) -> Self {
        Self {
            rank,
            size,
            timeout,
            place_of_rank_0,
            patience: Patience::of(timeout),
            state: State::Idle,
            say: None,
            cause: None,
            rank_0_left: None,
            lost: None,
            news: News::default(),
            caught_up: up,
        }
    }

    /// Takes what rank 0 said.
    pub(crate) fn heard(&mut self, notice: Notice) {
        match notice {
            Notice::Cause { cause, answered } => {
                self.cause.get_or_insert((cause, answered));
            }
            Notice::Pong => self.news.unanswered = false,
            Notice::WaitOn => self.news.wait_on = true,
            Notice::Goodbye { sequence } => self.rank_0_left = Some(sequence),
            _ => {}
        }
    }

    /// Notes that the watch link ended.
    pub(crate) fn watch_ended(&mut self, loss: Loss, reason: String) {
        self.lost = Some((loss, reason));
    }

    /// Notes for how long nothing has come from the system of rank 0. A rank gives up on it when its judge has decided, too,
    /// and what it decided would have come.
    pub(crate) fn silent(&mut self, lasts: Duration) {
        self.news.quiet = self.patience.is_quiet(lasts);
        let limit = self.patience.of_a_worker();
        if lasts >= limit && self.is_open() {
            self.lost = Some((Loss::Unreachable, format!("no sign of it for {limit:?}")));
        }
    }

    /// Notes that a data or ring link broke during a call.
    pub(crate) fn broke(&mut self, sequence: u64, broken: Broken, loss: Loss) {
        let Broken { peer, reason } = broken.clone();
        let (notice, limit) = if loss == Loss::Altered {
            (Notice::Altered { peer, reason }, Some(EXPLANATION))
        } else {
            let limit = match self.timeout {
                _ if peer == 0 => Some(EXPLANATION),
                timeout => timeout.map(|timeout| timeout.max(EXPLANATION)),
            };
            let broken = Notice::Broken {
                sequence,
                peer,
                reason,
            };
            (broken, limit)
        };
        let broke = Broke {
            broken,
            loss,
            sequence,
        };
        self.say = Some(notice);
        self.state = State::Explaining(Box::new(broke), Limit::of(limit));
    }

    /// Ends the job because this rank was interrupted while it waited.
    pub(crate) fn interrupted(&mut self) {
        self.say = Some(Notice::Interrupted);
        self.state = if self.rank == 0 {
            // The watch is a thread of this process, which may end now; it tells rank 0 last.
            State::Interrupted(Limit::of(EXPLANATION))
        } else {
            State::Failed(self.aborted())
        };
    }

    /// Returns whether an interrupt may end the wait.
    pub(crate) fn may_be_interrupted(&self) -> bool {
        matches!(self.state, State::Running(_) | State::Explaining(..))
    }

    /// Returns whether so much time has passed since the last answer of this rank 0 that somebody may have given up on it:
    /// it may have been stopped.
    #[inline]
    pub(crate) fn is_late(&mut self, up: Duration) -> bool {
        let limit = self
            .timeout
            .map_or(NO_PAUSE, |timeout| NO_PAUSE.min(timeout / 2));
        let last = std::mem::replace(&mut self.caught_up, up);
        up.saturating_sub(last) >= limit
    }

    /// Lets the watch of this rank 0 read all links.
    pub(crate) fn ask(&mut self) {
        self.news.unanswered = true;
        self.say = Some(Notice::Ping);
        self.state = State::Asking(Limit::of(OWN_WATCH));
    }

    /// Notes that the watch of this rank 0 has decided a cause before rank 0 could answer.
    pub(crate) fn await_decision(&mut self) {
        self.state = State::Deciding(Limit::of(OWN_WATCH));
    }

    /// Returns what a rank that is stuck has to do: in a call as `view` shows it, or with the call behind it.
    #[cold]
    pub(crate) fn stuck(&mut self, view: Option<&View>, now: Instant) -> Step {
        if let Some(notice) = self.say.take() {
            return Step::Tell(notice);
        }
        match (&self.state, view) {
            (State::Idle, Some(view)) => {
                let mut timers = Timers::new(self.timeout);
                timers.waiting(view.began);
                self.state = State::Running(timers);
                self.run(view, now)
            }
            (State::Running(_), Some(view)) => self.run(view, now),
            _ => self.settle(now),
        }
    }

    /// Returns whether the rank waits in a call, as far as it has had to wait for long.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Ends a wait whose call is complete.
    #[inline]
    pub(crate) fn rest(&mut self) {
        if !matches!(self.state, State::Idle) {
            self.state = State::Idle;
        }
    }

    /// Returns why the call has failed.
    #[cold]
    pub(crate) fn take_cause(&mut self) -> Cause {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Failed(cause) => cause,
            _ => undecided(),
        }
    }

    /// Returns the cause for which `sequence` cannot be completed any more, as far as is known.
    pub(crate) fn verdict(&self, sequence: u64, outlook: Outlook) -> Option<Cause> {
        if let Some((cause, answered)) = &self.cause {
            // Rank 0 had seen all enter before it lost a rank: the answer is on its way.
            let answer_comes = self.rank > 0
                && outlook == Outlook::Entering
                && cause.kind == FailureKind::PeerLost
                && sequence < *answered;
            return (!answer_comes).then(|| cause.clone());
        }
        match (self.rank_0_left, &self.lost) {
            (Some(left), _) if sequence < left => None,
            (Some(_), _) => Some(lost(0, Lost::Dropped, &self.place_of_rank_0)),
            (None, Some((loss, reason))) => {
                let link = format!("{}: {reason}", self.place_of_rank_0);
                Some(self.link_lost(0, *loss, reason, &link))
            }
            (None, None) => None,
        }
    }

    /// Does what the timers of a call ask for.
    fn run(&mut self, view: &View, now: Instant) -> Step {
        let &View {
            sequence,
            call,
            outlook,
            underway,
            waits_for: peer,
            flow,
            since,
            ..
        } = view;
        let cause = self.verdict(sequence, outlook);
        let State::Running(timers) = &mut self.state else {
            return Step::Settle;
        };
        if std::mem::take(&mut self.news.wait_on) {
            timers.wait_on(now);
        }
        let due = timers.due(&Moment {
            now,
            since,
            outlook,
            underway,
            cause: cause.as_ref().map(|cause| cause.kind),
            // A rank 0 that has left in good order owes nothing.
            unanswered: self.news.unanswered && self.rank_0_left.is_none(),
        });
        let action = match due {
            Due::Now(action) => action,
            Due::In(limit) => return Step::Sleep(limit),
        };
        // A rank without a timeout is never late, and reports nothing that needs it.
        let timeout = self.timeout.unwrap_or_default();
        let stalled = |last| Notice::Stalled {
            sequence,
            peer,
            last,
            timeout,
            flow,
        };
        // The others send their entries to this rank.
        let collects = self.rank == 0 && self.size > 2;
        Step::Tell(match action {
            Action::ReportWaiting => Notice::Waiting { sequence, call },
            Action::ReportStalled => stalled(false),
            Action::ReportMoving => Notice::Moving { sequence, timeout },
            Action::Ping => {
                self.news.unanswered = true;
                Notice::Ping
            }
            Action::Appeal if outlook == Outlook::Moving => stalled(true),
            // All wait in this call, and what one of them has begun to send does not come: only rank 0 knows whose that is.
            Action::Appeal if collects && underway => stalled(true),
            Action::Appeal => {
                let timed_out = Notice::TimedOut {
                    sequence,
                    call,
                    timeout,
                };
                if !collects {
                    return Step::Tell(timed_out);
                }
                // For the case that all wait in this call, and an entry was lost.
                self.say = Some(timed_out);
                stalled(false)
            }
            Action::Fail => {
                let cause = cause.unwrap_or_else(|| self.late(peer, outlook));
                self.state = State::Failed(cause);
                return Step::Settle;
            }
            Action::BlameRank0 => {
                self.give_up(self.late(0, Outlook::Entering), self.timeout);
                return Step::Settle;
            }
            Action::BlamePeer => {
                self.give_up(self.late(peer, outlook), self.timeout);
                return Step::Settle;
            }
        })
    }

    /// Goes on to the cause of a call that has failed.
    fn settle(&mut self, now: Instant) -> Step {
        let (is_open, heard) = (self.is_open(), self.cause.is_some());
        let left = match &mut self.state {
            State::Idle | State::Running(_) | State::Failed(_) => return Step::Settle,
            State::Asking(limit)
            | State::Explaining(_, limit)
            | State::Consenting(_, limit)
            | State::Deciding(limit)
            | State::Interrupted(limit) => limit.left(now),
        };
        let is_over = !is_open || left.is_some_and(|left| left.is_zero());
        let told = || self.cause.as_ref().map(|(cause, _)| cause.clone());
        let state = match &self.state {
            State::Asking(_) if heard || is_over || !self.news.unanswered => State::Idle,
            State::Explaining(broke, _) => {
                if let Some(cause) = self.verdict(broke.sequence, Outlook::Moving) {
                    State::Failed(cause)
                } else if is_open && broke.broken.peer == 0 && self.news.quiet {
                    // What rank 0 says comes late if its machine cannot be reached for a while.
                    return Step::Sleep(None);
                } else if is_over {
                    return self.unexplained();
                } else {
                    return Step::Sleep(left);
                }
            }
            State::Consenting(mine, _) if heard || is_over => {
                State::Failed(told().unwrap_or_else(|| mine.clone()))
            }
            State::Deciding(_) if heard || is_over => {
                State::Failed(told().unwrap_or_else(undecided))
            }
            State::Interrupted(_) if heard || is_over => State::Failed(self.aborted()),
            _ => return Step::Sleep(left),
        };
        self.state = state;
        Step::Settle
    }

    /// Gives up on a link that broke and of which rank 0 has said nothing.
    fn unexplained(&mut self) -> Step {
        let State::Explaining(broke, _) = std::mem::replace(&mut self.state, State::Idle) else {
            return Step::Settle;
        };
        let Broken { peer, reason } = &broke.broken;
        if broke.loss == Loss::Altered {
            self.state = State::Failed(self.link_lost(*peer, broke.loss, reason, ""));
            return Step::Settle;
        }
        if *peer != 0 && self.is_open() {
            // A rank 0 that is there says something.
            self.give_up(self.late(0, Outlook::Entering), self.timeout);
        } else {
            let link = format!("its link to rank {} broke: {reason}", self.rank);
            self.give_up(self.link_lost(*peer, broke.loss, reason, &link), None);
        }
        // Rank 0 gets the notice first.
        self.say.take().map_or(Step::Settle, Step::Tell)
    }

    /// Fails for a cause that nobody told this rank, unless the others were told another. `timeout` is the one that was over,
    /// if one was.
    fn give_up(&mut self, mine: Cause, timeout: Option<Duration>) {
        self.say = Some(Notice::GaveUp(mine.clone()));
        let consent = timeout.map_or(CONSENT, |timeout| CONSENT.min(timeout / 4));
        let limit = if self.rank == 0 { OWN_WATCH } else { consent };
        self.state = State::Consenting(mine, Limit::of(limit));
    }

    /// Returns whether rank 0 can still say something.
    pub(crate) fn is_open(&self) -> bool {
        self.lost.is_none()
    }
}

#[cfg(test)]
mod tests;
