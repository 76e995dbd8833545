//! One rank in simulated time: what it learns, and what it does.

use comm_api::FailureKind::{Aborted, Io, PeerLost, TimedOut};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(8);

/// A rank, and how late it is.
struct Rank {
    member: Member,
    now: Instant,
    /// What it has told rank 0.
    told: Vec<Notice>,
}

impl Rank {
    fn new(rank: usize) -> Self {
        let member = Member::new(
            (rank, 4),
            "host-0".to_owned(),
            Some(TIMEOUT),
            Duration::ZERO,
        );
        let (now, told) = (Instant::now(), Vec::new());
        Self { member, now, told }
    }

    /// Lets the rank go on with the call behind it, until nothing is left to wait for or this much time has passed;
    /// returns why its call failed, if it has.
    fn settles_within(&mut self, time: Duration) -> Option<FailureKind> {
        let end = self.now + time;
        loop {
            match self.member.stuck(None, self.now) {
                Step::Tell(notice) => self.told.push(notice),
                Step::Settle => return Some(self.member.take_cause().kind),
                Step::Sleep(limit) => {
                    assert_ne!(limit, Some(Duration::ZERO), "a sleep of no time");
                    let next = limit.map(|limit| self.now + limit);
                    self.now = next.map_or(end, |next| next.min(end));
                    if next.is_none_or(|next| next > end) {
                        return None;
                    }
                }
            }
        }
    }

    fn hears(&mut self, kind: FailureKind, rank: usize) {
        let cause = Cause::new(kind, Some(rank), "so rank 0 says");
        self.member.heard(Notice::Cause { cause, answered: 0 });
    }

    fn breaks(&mut self, peer: usize, loss: Loss) {
        let reason = "it broke".to_owned();
        self.member.broke(3, Broken { peer, reason }, loss);
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[test]
fn a_broken_link_is_reported_and_what_rank_0_makes_of_it_counts() {
    let mut rank = Rank::new(2);
    rank.breaks(3, Loss::Closed);
    assert_eq!(rank.settles_within(TIMEOUT / 2), None);
    let reported = matches!(
        rank.told[..],
        [Notice::Broken {
            sequence: 3,
            peer: 3,
            ..
        }]
    );
    assert!(reported, "{:?}", rank.told);
    rank.hears(PeerLost, 1);
    assert_eq!(rank.settles_within(Duration::ZERO), Some(PeerLost));
    assert_eq!(rank.told.len(), 1);
}

/// A rank 0 that is there says something about a link between others, within the timeout.
#[test]
fn rank_0_that_says_nothing_about_a_broken_link_is_the_one_that_is_late() {
    let mut rank = Rank::new(2);
    rank.breaks(3, Loss::Closed);
    assert_eq!(rank.settles_within(TIMEOUT + seconds(0.4)), None);
    assert_eq!(rank.settles_within(seconds(0.2)), Some(TimedOut));
    let Some(Notice::GaveUp(cause)) = rank.told.last() else {
        panic!("{:?}", rank.told);
    };
    assert_eq!(cause.rank, Some(0));
}

#[test]
fn a_broken_link_to_rank_0_is_explained_within_a_second_or_not_at_all() {
    let mut rank = Rank::new(2);
    rank.breaks(0, Loss::Closed);
    assert_eq!(rank.settles_within(seconds(0.9)), None);
    // And half a second more, for the case that the others were told another cause.
    assert_eq!(rank.settles_within(seconds(0.7)), Some(PeerLost));
}

/// The word of rank 0 is on its way for as long as its machine cannot be reached, but no longer than the link lives.
#[test]
fn a_broken_link_to_a_rank_0_that_is_silent_is_explained_when_it_is_back() {
    for back in [true, false] {
        let mut rank = Rank::new(2);
        rank.member.silent(TIMEOUT * 5 / 8);
        rank.breaks(0, Loss::Closed);
        assert_eq!(rank.settles_within(seconds(3.0)), None);
        if back {
            rank.hears(TimedOut, 2);
            assert_eq!(rank.settles_within(Duration::ZERO), Some(TimedOut));
        } else {
            rank.member.silent(TIMEOUT * 9 / 8);
            assert_eq!(rank.settles_within(Duration::ZERO), Some(PeerLost));
        }
    }
}

#[test]
fn a_link_that_cannot_be_trusted_is_no_death() {
    let mut rank = Rank::new(2);
    rank.breaks(1, Loss::Altered);
    assert_eq!(rank.settles_within(seconds(1.1)), Some(Io));
    let [Notice::Altered { peer: 1, .. }] = &rank.told[..] else {
        panic!("{:?}", rank.told);
    };
}

/// A rank that is silent for a moment is no rank that is gone.
#[test]
fn silence_ends_a_watch_link_after_nine_eighths_of_the_timeout() {
    let mut rank = Rank::new(1);
    rank.member.silent((TIMEOUT * 9 / 8).mul_f64(0.999));
    assert_eq!(rank.member.verdict(0, Outlook::Moving), None);
    rank.member.silent(TIMEOUT * 9 / 8);
    let cause = rank.member.verdict(0, Outlook::Moving).unwrap();
    assert_eq!((cause.kind, cause.rank), (PeerLost, Some(0)));
    let expected = "it is unreachable (host-0: no sign of it for 9s)";
    assert!(cause.message.starts_with(expected), "{cause:?}");
}

/// The watch is a thread of the process of rank 0, which may end once its call has failed: the others get the cause first.
#[test]
fn an_interrupted_rank_0_waits_for_its_watch_and_the_others_for_nobody() {
    let mut rank = Rank::new(0);
    rank.member.interrupted();
    assert_eq!(rank.settles_within(seconds(0.5)), None);
    assert_eq!(rank.told, [Notice::Interrupted]);
    rank.hears(Aborted, 0);
    assert_eq!(rank.settles_within(Duration::ZERO), Some(Aborted));

    let mut rank = Rank::new(1);
    rank.member.interrupted();
    assert_eq!(rank.settles_within(Duration::ZERO), Some(Aborted));
    assert_eq!(rank.told, [Notice::Interrupted]);
}

/// Rank 0 asks before an answer that comes late, and goes on when its watch has read everything, or has decided.
#[test]
fn rank_0_that_was_away_asks_its_watch_first() {
    let mut rank = Rank::new(0);
    assert!(!rank.member.is_late(seconds(0.09)));
    assert!(rank.member.is_late(seconds(0.19)));
    rank.member.ask();
    assert_eq!(rank.settles_within(seconds(5.0)), None);
    assert_eq!(rank.told, [Notice::Ping]);
    rank.member.heard(Notice::Pong);
    assert_eq!(rank.member.stuck(None, rank.now), Step::Settle);
    rank.member.ask();
    rank.hears(PeerLost, 2);
    assert_eq!(rank.member.stuck(None, rank.now), Step::Tell(Notice::Ping));
    assert_eq!(rank.member.stuck(None, rank.now), Step::Settle);
    rank.member.await_decision();
    assert_eq!(rank.settles_within(Duration::ZERO), Some(PeerLost));
}

/// In a call whose timeout is over, and with nobody at the other end of the watch.
#[test]
fn a_rank_0_that_answers_nothing_is_given_up_on_at_the_timeout_unless_it_says_why() {
    for says_why in [false, true] {
        let mut rank = Rank::new(2);
        let began = rank.now;
        let view = View {
            sequence: 3,
            call: Call::barrier(),
            outlook: Outlook::Entering,
            underway: true,
            waits_for: 0,
            flow: Flow::default(),
            since: began,
            began,
        };
        loop {
            match rank.member.stuck(Some(&view), rank.now) {
                Step::Tell(notice) => rank.told.push(notice),
                Step::Sleep(limit) => rank.now += limit.unwrap(),
                Step::Settle => break,
            }
        }
        assert_eq!(rank.now - began, TIMEOUT);
        if says_why {
            rank.hears(PeerLost, 1);
        }
        let wanted = if says_why { PeerLost } else { TimedOut };
        assert_eq!(rank.settles_within(seconds(0.6)), Some(wanted));
        assert!(matches!(rank.told.last(), Some(Notice::GaveUp(_))));
    }
}
