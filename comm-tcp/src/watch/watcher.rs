//! One rank's end of the watch.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use comm_api::FailureKind;
use comm_kit::clock::{Clock, sleep_limit};
use comm_kit::interrupt;
use comm_kit::words::{self, Lost};
use rustix::event::{PollFd, PollFlags};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::verdict::{distrusted, unreachable};
use crate::link::{Broken, Link, TURN, Voice};
use crate::notice::{Cause, Notice};
use crate::poll::poll_for;
use crate::socket::{Patience, silence};

/// How long a rank waits for the verdict of rank 0 whose link to it broke or cannot be trusted, and an
/// interrupted rank 0 for its watch.
const VERDICT: Duration = Duration::from_secs(1);

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

/// How a watch link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The process of rank 0 is gone.
    Closed,
    /// The machine of rank 0 cannot be reached.
    Unreachable,
    /// What came from rank 0 is not what it sent.
    Altered,
}

/// The watch link of one rank, and what came over it.
#[derive(Debug)]
pub(crate) struct Watcher {
    link: Link,
    rank: usize,
    /// Where rank 0 runs, for messages.
    place_of_rank_0: String,
    cause: Option<(Cause, u64)>,
    rank_0_left: Option<u64>,
    /// How the link ended, and why.
    lost: Option<(Loss, String)>,
    /// Rank 0 has not answered the last ping.
    unanswered: bool,
    /// Rank 0 has said that bytes move elsewhere.
    wait_on: bool,
    /// How many notices more of rank 0 the last look would have read.
    left_of_turn: usize,
    /// When this rank 0 was known to have missed nothing.
    caught_up: Duration,
    patience: Patience,
}

impl Watcher {
    pub(crate) fn new(
        link: Link,
        rank: usize,
        place_of_rank_0: String,
        patience: Patience,
    ) -> Self {
        Self {
            patience,
            link,
            rank,
            place_of_rank_0,
            cause: None,
            rank_0_left: None,
            lost: None,
            unanswered: false,
            wait_on: false,
            left_of_turn: TURN,
            caught_up: uptime(),
        }
    }

    /// Sends a notice to rank 0. If that fails rank 0 is gone, which the next look finds.
    pub(crate) fn tell(&mut self, notice: &Notice) {
        super::tell(&mut self.link, notice);
    }

    /// Returns a second way to send to rank 0, for another thread.
    pub(crate) fn voice(&self) -> std::io::Result<Voice> {
        self.link.voice()
    }

    /// Lists what to poll, as long as the other end can still say something.
    pub(crate) fn interest<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if self.is_open() {
            fds.push(PollFd::new(&self.link, PollFlags::IN));
        }
    }

    /// Reads what has come: of rank 0 as much as it has to say in one turn.
    pub(crate) fn look(&mut self) {
        self.left_of_turn = TURN;
        while self.lost.is_none() && self.left_of_turn > 0 {
            self.left_of_turn -= 1;
            match super::next(&mut self.link) {
                Ok(Some(Notice::Cause { cause, answered })) => {
                    self.cause.get_or_insert((cause, answered));
                }
                Ok(Some(Notice::Pong)) => self.unanswered = false,
                Ok(Some(Notice::WaitOn)) => self.wait_on = true,
                Ok(Some(Notice::Goodbye { sequence })) => self.rank_0_left = Some(sequence),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(Broken { peer, reason }) => {
                    let loss = if self.link.is_altered() {
                        let reason = reason.clone();
                        self.tell(&Notice::Altered { peer, reason });
                        Loss::Altered
                    } else if self.link.is_unreachable() {
                        Loss::Unreachable
                    } else {
                        Loss::Closed
                    };
                    self.lost = Some((loss, reason));
                }
            }
        }
    }

    /// Gives up on rank 0 if its system has not answered for so long that its judge has decided, too, and what it decided
    /// would have come. Returns whether the link is silent.
    #[cold]
    pub(crate) fn mind_silence(&mut self) -> bool {
        let silence = silence(&self.link).filter(|_| self.is_open());
        let lasts = silence.map_or(Duration::ZERO, |silence| silence.lasts);
        if !self.patience.is_quiet(lasts) {
            return false;
        }
        let limit = self.patience.of_a_worker();
        if lasts >= limit {
            self.lost = Some((Loss::Unreachable, format!("no sign of it for {limit:?}")));
        }
        true
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
            (Some(_), _) => Some(Self::lost_rank_0(Lost::Dropped, &self.place_of_rank_0)),
            (None, Some((Loss::Altered, reason))) => {
                let (rank, rank_0) = (format!("rank {}", self.rank), "rank 0");
                let message = distrusted(&rank, rank_0, reason);
                Some(Cause::new(FailureKind::Io, Some(0), message))
            }
            (None, Some((Loss::Unreachable, reason))) => {
                let message = unreachable(&format!("{}: {reason}", self.place_of_rank_0));
                Some(Cause::new(FailureKind::PeerLost, Some(0), message))
            }
            (None, Some((Loss::Closed, reason))) => {
                let place = format!("{}: {reason}", self.place_of_rank_0);
                Some(Self::lost_rank_0(Lost::Ended, &place))
            }
            (None, None) => None,
        }
    }

    fn lost_rank_0(lost: Lost, place: &str) -> Cause {
        Cause::new(
            FailureKind::PeerLost,
            Some(0),
            words::lost(lost, Some(place)),
        )
    }

    /// Returns where rank 0 runs, for messages.
    pub(crate) fn place_of_rank_0(&self) -> &str {
        &self.place_of_rank_0
    }

    /// Asks rank 0 whether it is there.
    pub(crate) fn ping(&mut self) {
        self.unanswered = true;
        self.tell(&Notice::Ping);
    }

    /// Returns whether rank 0 owes an answer: it cannot say who is late, being late itself.
    pub(crate) fn is_unanswered(&self) -> bool {
        // Who has left in good order owes nothing.
        self.unanswered && self.rank_0_left.is_none()
    }

    /// Returns whether rank 0 has said since the last time that the timeout begins anew.
    pub(crate) fn waits_on(&mut self) -> bool {
        std::mem::take(&mut self.wait_on)
    }

    /// Returns whether there may be more to read that no poll tells of.
    pub(crate) fn is_behind(&self) -> bool {
        self.left_of_turn == 0 && self.is_open()
    }

    /// Returns whether the other end can still say something.
    pub(crate) fn is_open(&self) -> bool {
        self.lost.is_none()
    }

    /// Reports a broken link and waits for what rank 0 makes of it: for the timeout, after which rank 0 is
    /// `silent`, but only for a moment if the link leads there or cannot be trusted.
    pub(crate) fn explain(
        &mut self,
        broken: &Broken,
        sequence: u64,
        (is_altered, is_unreachable): (bool, bool),
        (timeout, silent): (Option<Duration>, Cause),
    ) -> Cause {
        let Broken { peer, reason } = broken.clone();
        self.tell(&if is_altered {
            Notice::Altered { peer, reason }
        } else {
            Notice::Broken {
                sequence,
                peer,
                reason,
            }
        });
        let mut clock = Clock::start();
        let limit = match timeout {
            _ if is_altered || broken.peer == 0 => VERDICT,
            Some(timeout) => timeout.max(VERDICT),
            None => Duration::MAX,
        };
        let deadline = clock.now().checked_add(limit);
        loop {
            self.look();
            if let Some(cause) = self.verdict(sequence, Outlook::Moving) {
                return cause;
            }
            // What rank 0 says comes late if its machine cannot be reached for a while.
            let waits_on = broken.peer == 0 && self.mind_silence();
            if !self.wait(&mut clock, deadline.filter(|_| !waits_on)) && !waits_on {
                break;
            }
            if interrupt::requested() {
                return self.interrupt();
            }
        }
        if is_altered {
            let (rank, peer) = (
                format!("rank {}", self.rank),
                format!("rank {}", broken.peer),
            );
            let message = distrusted(&rank, &peer, &broken.reason);
            return Cause::new(FailureKind::Io, Some(broken.peer), message);
        }
        if broken.peer != 0 && self.is_open() {
            // A rank 0 that is there says something.
            return self.give_up(silent, timeout);
        }
        let link = format!("its link to rank {} broke: {}", self.rank, broken.reason);
        let message = if is_unreachable {
            unreachable(&link)
        } else {
            words::lost(Lost::Ended, Some(&link))
        };
        let cause = Cause::new(FailureKind::PeerLost, Some(broken.peer), message);
        self.give_up(cause, None)
    }

    /// Tells rank 0 that this rank fails for a cause that nobody told it; returns the one that counts:
    /// another, if the others were told another. `timeout` is the one that was over, if one was.
    #[cold]
    pub(crate) fn give_up(&mut self, cause: Cause, timeout: Option<Duration>) -> Cause {
        self.tell(&Notice::GaveUp(cause.clone()));
        let consent = timeout.map_or(CONSENT, |timeout| CONSENT.min(timeout / 4));
        let limit = if self.rank == 0 { OWN_WATCH } else { consent };
        self.told_within(limit).unwrap_or(cause)
    }

    /// Returns the cause that the watch of this rank 0 has decided, before this rank could answer.
    #[cold]
    pub(crate) fn decided(&mut self) -> Cause {
        self.told_within(OWN_WATCH).unwrap_or_else(|| {
            let message = "the watch found a cause and did not say which; restart the job";
            Cause::new(FailureKind::Io, Some(0), message)
        })
    }

    /// Waits for a cause, for a bounded time.
    fn told_within(&mut self, limit: Duration) -> Option<Cause> {
        let mut clock = Clock::start();
        let deadline = Some(clock.now() + limit);
        loop {
            self.look();
            if let Some((cause, _)) = &self.cause {
                return Some(cause.clone());
            }
            if !self.wait(&mut clock, deadline) {
                return None;
            }
        }
    }

    /// Lets the watch of this rank 0 read all links, if so much time has passed since the last answer
    /// that somebody may have given up on it: it may have been stopped.
    #[inline]
    pub(crate) fn catch_up(&mut self, timeout: Option<Duration>) {
        let now = uptime();
        let limit = timeout.map_or(NO_PAUSE, |timeout| NO_PAUSE.min(timeout / 2));
        if now.saturating_sub(self.caught_up) >= limit {
            self.read_all();
        }
        self.caught_up = now;
    }

    #[cold]
    fn read_all(&mut self) {
        self.ping();
        let mut clock = Clock::start();
        let deadline = Some(clock.now() + OWN_WATCH);
        while self.is_unanswered() && self.cause.is_none() && self.wait(&mut clock, deadline) {
            self.look();
        }
    }

    /// Sleeps until something comes or `deadline` is over, if there is one; returns whether something still can.
    fn wait(&self, clock: &mut Clock, deadline: Option<Instant>) -> bool {
        let now = clock.now();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
        if left.is_some_and(|left| left.is_zero()) || !self.is_open() {
            return false;
        }
        if self.is_behind() {
            return true;
        }
        let limit = sleep_limit(left);
        let mut fds = Vec::new();
        self.interest(&mut fds);
        let polled = poll_for(&mut fds, Some(limit));
        clock.waited(limit);
        polled.is_ok()
    }

    /// Ends the job because this rank was interrupted while it waited.
    #[cold]
    pub(crate) fn interrupt(&mut self) -> Cause {
        self.tell(&Notice::Interrupted);
        if self.rank == 0 {
            // The watch is a thread of this process, which may end now; it tells rank 0 last.
            let mut clock = Clock::start();
            let deadline = Some(clock.now() + VERDICT);
            while self.cause.is_none() && self.wait(&mut clock, deadline) {
                self.look();
            }
        }
        Cause::new(FailureKind::Aborted, Some(self.rank), words::interrupted())
    }
}

/// Returns how long this machine has been up, times included in which it was suspended.
fn uptime() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let Timespec { tv_sec, tv_nsec } = clock_gettime(CLOCK);
    let seconds = u64::try_from(tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(tv_nsec).unwrap_or(0))
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
