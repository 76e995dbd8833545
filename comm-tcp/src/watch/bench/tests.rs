//! The bench, without links: what it learns, and what it has done about that.

use std::cell::Cell;

use comm_api::FailureKind;
use comm_kit::Call;

use super::*;

/// The word of a bench that shares it with nobody.
#[derive(Debug, Default)]
struct Word(Cell<Option<u64>>);

impl CommitWord for Word {
    fn answer(&self, sequence: u64) -> bool {
        let open = self.0.get().is_none();
        assert!(open, "call {sequence} is answered after the decision");
        open
    }

    fn take_back(&self, _: u64) {}

    fn decide(&self) -> u64 {
        assert_eq!(self.0.replace(Some(7)), None, "decided twice");
        7
    }
}

const SIZE: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(8);

fn bench() -> (Bench<Word>, Instant) {
    let places = (0..SIZE).map(|rank| format!("host-{rank}")).collect();
    let patience = Patience::of(Some(TIMEOUT));
    (
        Bench::new(places, Word::default(), patience),
        Instant::now(),
    )
}

/// Does all that is to be done; returns what that was.
fn actions(bench: &mut Bench<Word>) -> Vec<Action> {
    std::iter::from_fn(|| bench.next()).collect()
}

/// Returns whom the bench blames, having told all ranks so, rank 0 last, before the log.
fn blamed(bench: &mut Bench<Word>) -> Option<usize> {
    let actions = actions(bench);
    let told = |action: &Action| match action {
        Action::Tell(rank, Notice::Cause { answered: 7, .. }) => Some(*rank),
        _ => None,
    };
    let told: Vec<usize> = actions.iter().filter_map(told).collect();
    assert_eq!(told, [3, 2, 1, 0], "{actions:?}");
    match actions.last() {
        Some(Action::Publish(cause)) => cause.rank,
        other => panic!("{other:?}"),
    }
}

fn waiting(sequence: u64) -> Notice {
    let call = Call::barrier();
    Notice::Waiting { sequence, call }
}

#[test]
fn a_cause_goes_to_all_and_a_second_one_to_nobody() {
    let (mut bench, _) = bench();
    bench.ended(2, End::Closed("it closed the link"));
    assert_eq!(blamed(&mut bench), Some(2));
    bench.ended(1, End::Closed("it closed the link"));
    assert_eq!(actions(&mut bench), []);
}

/// The ranks in the call after it have been told that rank 0 left; another death a moment later must not tell some of
/// them another cause.
#[test]
fn a_farewell_is_the_last_word() {
    let (mut bench, now) = bench();
    bench.heard(0, Notice::Goodbye { sequence: 5 }, now);
    let told = |rank| Action::Tell(rank, Notice::Goodbye { sequence: 5 });
    assert_eq!(actions(&mut bench), [3, 2, 1, 0].map(told));
    bench.heard(3, waiting(5), now);
    bench.ended(2, End::Closed("it closed the link"));
    bench.heard(1, Notice::Abort { code: 1 }, now);
    bench.due(now + TIMEOUT, 0);
    assert_eq!(actions(&mut bench), []);
}

/// A rank that waits for rank 0 when it leaves has the same cause as all others, whichever event comes first.
#[test]
fn a_farewell_of_a_rank_0_that_is_waited_for_is_a_cause() {
    let (mut bench, now) = bench();
    bench.heard(3, waiting(5), now);
    bench.heard(0, Notice::Goodbye { sequence: 5 }, now);
    assert_eq!(blamed(&mut bench), Some(0));
}

#[test]
fn rank_0_is_answered_after_all_links_were_read_and_the_others_at_once() {
    let (mut bench, now) = bench();
    bench.heard(0, Notice::Ping, now);
    bench.heard(2, Notice::Ping, now);
    assert_eq!(actions(&mut bench), [Action::Tell(2, Notice::Pong)]);
    assert!(bench.is_asked());
    bench.all_read();
    assert_eq!(actions(&mut bench), [Action::Tell(0, Notice::Pong)]);
    bench.all_read();
    assert_eq!(actions(&mut bench), []);
}

#[test]
fn a_rank_that_names_a_rank_that_there_is_not_is_dropped_first() {
    let (mut bench, now) = bench();
    let reason = "it broke".to_owned();
    bench.heard(1, Notice::Altered { peer: 4, reason }, now);
    assert_eq!(bench.next(), Some(Action::Drop(1)));
    assert_eq!(blamed(&mut bench), Some(1));
}

/// A link decides while it can still carry the cause: the rank at its other end gets it, too, if it comes back.
#[test]
fn silence_decides_after_three_quarters_of_the_timeout_and_all_are_told() {
    let (mut bench, _) = bench();
    let limit = TIMEOUT * 6 / 8;
    bench.silent(2, limit.mul_f64(0.999));
    assert_eq!(actions(&mut bench), []);
    bench.silent(2, limit);
    bench.silent(1, limit);
    let told = actions(&mut bench);
    let Some(Action::Publish(cause)) = told.last() else {
        panic!("{told:?}");
    };
    assert_eq!(
        (cause.kind, cause.rank),
        (FailureKind::PeerLost, Some(2)),
        "{cause:?}"
    );
    let expected = "it is unreachable (host-2: no sign of it for 6s)";
    assert!(cause.message.starts_with(expected), "{cause:?}");
    assert_eq!(told.len(), SIZE + 1);
}

#[test]
fn a_rank_whose_link_was_silent_for_a_while_is_greeted_when_it_is_back() {
    let (mut bench, _) = bench();
    let seconds = Duration::from_secs;
    // A link on which nothing happens is asked now and then.
    for silence in [0, 1, 2, 0] {
        bench.silent(1, seconds(silence));
    }
    assert_eq!(actions(&mut bench), []);
    for silence in [1, 4, 5, 0, 1] {
        bench.silent(1, seconds(silence));
    }
    assert_eq!(actions(&mut bench), [Action::Tell(1, Notice::Pong)]);
}
