//! All paths through the phases, with simulated time.

use std::time::Duration;

use tokio::time::Instant;

use super::{ASK, Escalation, FAILED, Grace, HURRIED, KILL, LAST_WORDS, OnFailure, REPORT};
use crate::supervise::signals::Signal;
use crate::verdict::outcome::Ending;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_failure_is_reported_then_asked_then_killed_then_given_up() {
    let now = Instant::now();
    let mut job = Escalation::new(OnFailure::EndOthers, None, Grace::new());
    assert_eq!(job.next(), None);
    job.failed(2, now);
    job.failed(0, now + MS);
    assert_eq!(job.tick(now + REPORT - MS), None);
    assert_eq!(
        job.next(),
        Some(now + REPORT),
        "the second failure buys no time"
    );
    assert_eq!(job.tick(now + REPORT), Some(Signal::Terminate));
    assert_eq!(job.tick(now + REPORT + ASK), Some(Signal::Kill));
    assert_eq!(job.tick(now + REPORT + ASK), None);
    assert!(!job.given_up());
    assert_eq!(job.tick(now + REPORT + ASK + KILL), None);
    assert!(job.given_up());
    assert_eq!(job.ending(), Ending::RankFailed(2));
    assert!(!job.timed_out() && job.patience() == Some(FAILED));
}

#[test]
fn survivors_may_finish_until_the_deadline() {
    let now = Instant::now();
    let deadline = now + Duration::from_secs(9);
    let mut job = Escalation::new(OnFailure::LetOthersFinish, Some(deadline), Grace::new());
    job.failed(1, now);
    assert_eq!(job.next(), Some(deadline));
    assert_eq!(job.tick(deadline - MS), None);
    assert_eq!(job.tick(deadline), Some(Signal::Terminate));
    assert_eq!(job.ending(), Ending::RankFailed(1), "the first cause stays");
    assert!(job.timed_out() && job.patience() == Some(HURRIED));
}

#[test]
fn the_deadline_strikes_once() {
    let now = Instant::now();
    let mut job = Escalation::new(OnFailure::EndOthers, Some(now), Grace::new());
    assert_eq!(job.tick(now), Some(Signal::Terminate));
    assert_eq!(job.tick(now), None);
    assert_eq!(job.next(), Some(now + ASK));
    job.failed(0, now);
    assert_eq!(job.ending(), Ending::TimedOut);
}

#[test]
fn a_deadline_during_the_report_cuts_it_short() {
    let now = Instant::now();
    let mut job = Escalation::new(OnFailure::EndOthers, Some(now + 100 * MS), Grace::new());
    job.failed(0, now);
    assert_eq!(job.tick(now + 100 * MS), Some(Signal::Terminate));
    assert_eq!(job.next(), Some(now + 100 * MS + ASK));
}

#[test]
fn a_stop_is_passed_on_and_the_second_kills() {
    let now = Instant::now();
    for signal in [Signal::Interrupt, Signal::Hangup, Signal::Terminate] {
        let mut job = Escalation::new(OnFailure::EndOthers, None, Grace::new());
        assert_eq!(job.stop(signal, now), Some(signal));
        assert_eq!(job.stop(Signal::Interrupt, now), Some(Signal::Kill));
        assert_eq!(job.stop(Signal::Interrupt, now), None);
        assert_eq!(job.ending(), Ending::Stopped(signal));
        assert!(job.patience() == Some(HURRIED));
    }
}

#[test]
fn a_stop_has_the_grace_of_its_signal() {
    let now = Instant::now();
    let long = 20 * Duration::from_secs(1);
    for (signal, grace) in [(Signal::Terminate, long), (Signal::Hangup, ASK)] {
        let graces = Grace::from([(Signal::Terminate, long)]);
        let mut job = Escalation::new(OnFailure::EndOthers, None, graces);
        assert_eq!(job.stop(signal, now), Some(signal));
        assert_eq!(job.stopping(), Some((signal, now + grace)));
        assert_eq!(job.tick(now + grace - MS), None);
        assert_eq!(job.tick(now + grace), Some(Signal::Kill));
        assert_eq!(job.stopping(), None);
    }
}

#[test]
fn a_scheduler_that_sends_its_signal_twice_does_not_kill() {
    let now = Instant::now();
    let mut job = Escalation::new(OnFailure::EndOthers, None, Grace::new());
    assert_eq!(job.stop(Signal::Terminate, now), Some(Signal::Terminate));
    assert_eq!(job.stop(Signal::Terminate, now), None);
    assert_eq!(job.stop(Signal::Hangup, now), Some(Signal::Hangup));
    assert_eq!(job.next(), Some(now + ASK), "and buys no time");
    assert_eq!(job.ending(), Ending::Stopped(Signal::Terminate));
    assert_eq!(job.stop(Signal::Kill, now), Some(Signal::Kill));
}

#[test]
fn the_last_words_of_a_lost_rank_are_waited_for() {
    let now = Instant::now();
    let mut job = Escalation::new(OnFailure::EndOthers, None, Grace::new());
    job.last_words(true);
    assert_eq!(job.next(), None, "no rank failed");
    job.failed(0, now);
    job.last_words(true);
    assert_eq!(job.tick(now + REPORT), None);
    assert_eq!(job.tick(now + LAST_WORDS - MS), None);
    // The lost rank ended: from now on the others have only the usual time.
    job.last_words(false);
    assert_eq!(job.tick(now + LAST_WORDS - MS), Some(Signal::Terminate));
    let mut hangs = Escalation::new(OnFailure::EndOthers, None, Grace::new());
    hangs.failed(0, now);
    hangs.last_words(true);
    assert_eq!(hangs.tick(now + LAST_WORDS), Some(Signal::Terminate));
    hangs.last_words(true);
    assert_eq!(hangs.next(), Some(now + LAST_WORDS + ASK));
}

#[test]
fn a_job_that_stood_still_has_the_same_time_left() {
    let now = Instant::now();
    let pause = 100 * KILL;
    let mut job = Escalation::new(OnFailure::EndOthers, Some(now + KILL), Grace::new());
    job.shift(pause);
    assert_eq!(job.next(), Some(now + KILL + pause));
    job.failed(0, now + pause);
    job.shift(pause);
    job.last_words(false);
    assert_eq!(job.next(), Some(now + 2 * pause + REPORT));
}

#[test]
fn a_stop_with_kill_does_not_ask() {
    let now = Instant::now();
    let mut job = Escalation::new(OnFailure::EndOthers, None, Grace::new());
    assert_eq!(job.stop(Signal::Kill, now), Some(Signal::Kill));
    assert_eq!(job.next(), Some(now + KILL));
}

#[test]
fn lost_output_asks_but_keeps_an_earlier_cause() {
    let now = Instant::now();
    let mut job = Escalation::new(OnFailure::EndOthers, None, Grace::new());
    job.failed(3, now);
    assert_eq!(job.output_lost(now), Some(Signal::Terminate));
    assert_eq!(job.output_lost(now), None);
    assert_eq!(job.ending(), Ending::RankFailed(3));
}

#[test]
fn once_every_rank_is_gone_only_output_is_waited_for() {
    let now = Instant::now();
    let deadline = now + 60 * KILL;
    let mut job = Escalation::new(OnFailure::EndOthers, Some(deadline), Grace::new());
    job.failed(1, now);
    job.gone();
    // A slow reader may take longer than killing ranks ever would.
    assert_eq!(job.next(), Some(deadline));
    assert_eq!(job.tick(now + REPORT + ASK + 2 * KILL), None);
    assert!(!job.given_up() && job.patience() == Some(FAILED));
    assert_eq!(job.tick(deadline), None);
    assert!(job.timed_out() && job.patience() == Some(HURRIED));
    assert_eq!(job.stop(Signal::Interrupt, deadline), None);
    assert_eq!(job.ending(), Ending::RankFailed(1));
}

#[test]
fn a_stop_while_output_is_on_its_way_hurries() {
    let now = Instant::now();
    let mut job = Escalation::new(OnFailure::EndOthers, None, Grace::new());
    job.gone();
    assert_eq!(job.patience(), None, "a job that ends well loses nothing");
    assert_eq!(job.stop(Signal::Interrupt, now), None);
    assert!(job.patience() == Some(HURRIED));
    assert_eq!(job.ending(), Ending::Stopped(Signal::Interrupt));
}
