//! Waits in invented time.

use FailureKind::{Mismatch, PeerLost};
use Outlook::{Entering, Moving};

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A wait that is looked at whenever its timers ask for it.
struct Wait {
    timers: Timers,
    start: Instant,
    moment: Moment,
    /// Rank 0 answers no ping.
    silent: bool,
    /// What was done, and how long after the start.
    done: Vec<(Duration, Action)>,
}

impl Wait {
    fn new(outlook: Outlook, timeout: Option<Duration>) -> Self {
        let start = Instant::now();
        let mut timers = Timers::new(timeout);
        timers.waiting(start);
        Self {
            timers,
            start,
            moment: Moment {
                now: start,
                since: start,
                outlook,
                underway: false,
                cause: None,
                unanswered: false,
            },
            silent: false,
            done: Vec::new(),
        }
    }

    /// Lets the time pass until `end`, as the engine would: it does what is due, sleeps, and looks
    /// again. Returns whether the wait is over.
    fn pass(&mut self, end: Duration) -> bool {
        let end = self.start + end;
        loop {
            match self.timers.due(&self.moment) {
                Due::Now(action) => {
                    self.done.push((self.moment.now - self.start, action));
                    match action {
                        Action::Ping => self.moment.unanswered = self.silent,
                        Action::Fail | Action::BlameRank0 | Action::BlamePeer => return true,
                        _ => {}
                    }
                }
                Due::In(Some(rest)) if self.moment.now + rest <= end => {
                    assert!(rest > Duration::ZERO, "a sleep of no time");
                    self.moment.now += rest;
                }
                Due::In(_) => {
                    self.moment.now = end;
                    return false;
                }
            }
        }
    }

    /// Something moves at the end of what has passed.
    fn moved(&mut self) {
        self.moment.since = self.moment.now;
        self.timers.waiting(self.moment.since);
    }

    fn only(&self, action: Action) -> Vec<Duration> {
        let done = self.done.iter().filter(|&&(_, done)| done == action);
        done.map(|&(at, _)| at).collect()
    }
}

#[test]
fn a_wait_for_others_is_reported_once() {
    let mut wait = Wait::new(Entering, None);
    assert!(!wait.pass(ms(9)));
    assert_eq!(wait.done, []);
    assert!(!wait.pass(ms(60_000)));
    assert_eq!(wait.done, [(ms(10), Action::ReportWaiting)]);
}

#[test]
fn without_a_timeout_nothing_else_falls_due() {
    let mut wait = Wait::new(Moving, None);
    assert_eq!(wait.timers.due(&wait.moment), Due::In(None));
    wait.moment.now += Duration::from_secs(1 << 20);
    assert_eq!(wait.timers.due(&wait.moment), Due::In(None));
}

#[test]
fn a_timeout_beyond_the_end_of_time_is_none() {
    let mut wait = Wait::new(Moving, Some(Duration::MAX));
    assert_eq!(wait.timers.due(&wait.moment), Due::In(None));
}

#[test]
fn a_rank_0_that_answers_has_a_second_to_decide() {
    let mut wait = Wait::new(Entering, Some(ms(8000)));
    assert!(wait.pass(ms(20_000)));
    assert_eq!(
        wait.done,
        [
            (ms(10), Action::ReportWaiting),
            (ms(7000), Action::Ping),
            (ms(8000), Action::Appeal),
            (ms(9000), Action::BlamePeer),
        ]
    );
}

#[test]
fn a_rank_0_that_does_not_answer_is_blamed_at_the_timeout() {
    let mut wait = Wait::new(Entering, Some(ms(8000)));
    wait.silent = true;
    assert!(wait.pass(ms(20_000)));
    let last = wait.done.split_off(1);
    assert_eq!(
        last,
        [(ms(7000), Action::Ping), (ms(8000), Action::BlameRank0)]
    );
}

#[test]
fn however_short_the_timeout_rank_0_has_time_to_answer() {
    let mut wait = Wait::new(Entering, Some(ms(40)));
    wait.silent = true;
    assert!(wait.pass(ms(1000)));
    // Asked at three quarters of the timeout.
    assert_eq!(wait.only(Action::Ping), [ms(30)]);
    assert_eq!(wait.only(Action::BlameRank0), [ms(180)]);

    let mut wait = Wait::new(Entering, Some(ms(40)));
    wait.silent = true;
    assert!(!wait.pass(ms(100)));
    // It answers after all, and decides in time or not.
    wait.moment.unanswered = false;
    assert!(wait.pass(ms(5000)));
    assert_eq!(wait.only(Action::Appeal), [ms(100)]);
    assert_eq!(wait.only(Action::BlamePeer), [ms(1100)]);
}

#[test]
fn a_rank_that_sleeps_through_its_timeout_appeals_without_asking_first() {
    let mut wait = Wait::new(Entering, Some(ms(8000)));
    wait.silent = true;
    wait.moment.now += ms(30_000);
    assert!(wait.pass(ms(60_000)));
    assert_eq!(
        wait.done,
        [
            (ms(30_000), Action::ReportWaiting),
            (ms(30_000), Action::Appeal),
            (ms(31_000), Action::BlamePeer),
        ]
    );
}

#[test]
fn a_stall_is_reported_every_eighth_of_the_timeout() {
    let mut wait = Wait::new(Moving, Some(ms(8000)));
    assert!(!wait.pass(ms(7500)));
    let seconds: Vec<Duration> = (1..=7).map(Duration::from_secs).collect();
    assert_eq!(wait.only(Action::ReportStalled), seconds);
    assert_eq!(wait.only(Action::ReportWaiting), []);

    let mut short = Wait::new(Moving, Some(ms(16)));
    assert!(!short.pass(ms(15)));
    assert_eq!(short.only(Action::ReportStalled), [ms(10)]);
}

#[test]
fn bytes_that_move_put_off_the_timeout_and_are_reported() {
    let mut wait = Wait::new(Moving, Some(ms(8000)));
    for half in 1..=30 {
        assert!(!wait.pass(ms(500 * half)));
        wait.moved();
    }
    let seconds: Vec<Duration> = (1..=15).map(Duration::from_secs).collect();
    assert_eq!(wait.only(Action::ReportMoving), seconds);
    assert_eq!(wait.only(Action::ReportStalled), []);
    assert_eq!(wait.only(Action::Ping), []);
    assert!(wait.pass(ms(60_000)));
    assert_eq!(wait.only(Action::Ping), [ms(22_000)]);
    assert_eq!(wait.only(Action::Appeal), [ms(23_000)]);
    assert_eq!(wait.only(Action::BlamePeer), [ms(24_000)]);
}

#[test]
fn a_question_that_bytes_overtook_is_asked_again() {
    let mut wait = Wait::new(Moving, Some(ms(8000)));
    assert!(!wait.pass(ms(7500)));
    wait.moved();
    assert!(!wait.pass(ms(15_400)));
    assert_eq!(wait.only(Action::Ping), [ms(7000), ms(14_500)]);
}

#[test]
fn ranks_that_enter_one_by_one_do_not_put_off_the_timeout() {
    let mut wait = Wait::new(Entering, Some(ms(8000)));
    assert!(!wait.pass(ms(5000)));
    wait.moved();
    assert!(wait.pass(ms(60_000)));
    assert_eq!(wait.only(Action::Appeal), [ms(8000)]);
}

#[test]
fn bytes_of_entries_that_are_underway_put_off_the_timeout() {
    let mut wait = Wait::new(Entering, Some(ms(8000)));
    wait.moment.underway = true;
    assert!(!wait.pass(ms(5500)));
    wait.moved();
    assert!(wait.pass(ms(60_000)));
    assert_eq!(wait.only(Action::ReportMoving), [ms(6000)]);
    assert_eq!(wait.only(Action::Appeal), [ms(13_500)]);
}

#[test]
fn a_rank_that_is_told_to_wait_on_has_its_timeout_anew() {
    let mut wait = Wait::new(Entering, Some(ms(8000)));
    assert!(!wait.pass(ms(8100)));
    wait.timers.wait_on(wait.moment.now);
    assert!(wait.pass(ms(60_000)));
    assert_eq!(wait.only(Action::Appeal), [ms(8000), ms(16_100)]);
}

#[test]
fn a_cause_ends_a_wait_at_once_unless_the_bytes_may_still_come() {
    for (outlook, kind, end) in [
        (Entering, PeerLost, 0),
        (Entering, Mismatch, 0),
        (Moving, Mismatch, 0),
        (Moving, PeerLost, 50),
    ] {
        let mut wait = Wait::new(outlook, Some(ms(8000)));
        wait.moment.cause = Some(kind);
        assert!(wait.pass(ms(8000)));
        assert_eq!(wait.done, [(ms(end), Action::Fail)], "{outlook:?} {kind:?}");
    }
}

#[test]
fn bytes_that_come_after_a_loss_prolong_the_grace() {
    let mut wait = Wait::new(Moving, Some(ms(8000)));
    wait.moment.cause = Some(PeerLost);
    assert!(!wait.pass(ms(40)));
    wait.moved();
    assert!(!wait.pass(ms(80)));
    assert!(wait.pass(ms(100)));
    assert_eq!(wait.done, [(ms(90), Action::Fail)]);
}
