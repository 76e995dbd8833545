mod deserted;
mod silent;

use std::time::{Duration, Instant};

use comm_api::FailureKind::{Aborted, Io, Mismatch, PeerLost, TimedOut};

use super::*;

fn judge(size: usize) -> (Judge, Instant) {
    let places = (0..size).map(|rank| format!("host-{rank}")).collect();
    (Judge::new(places), Instant::now())
}

const TIMEOUT: Duration = Duration::from_secs(1);

/// After which the log says who is waited for.
const TEN_SECONDS: Duration = Duration::from_secs(10);

fn timed_out(sequence: u64, call: Call) -> Notice {
    Notice::TimedOut {
        sequence,
        call,
        timeout: TIMEOUT,
    }
}

fn waiting(sequence: u64) -> Notice {
    Notice::Waiting {
        sequence,
        call: Call::barrier(),
    }
}

fn blame(ruling: Option<Ruling>) -> Option<(FailureKind, Option<usize>)> {
    match ruling? {
        Ruling::Cause(cause) => Some((cause.kind, cause.rank)),
        Ruling::Farewell(_) | Ruling::WaitOn(_) => None,
    }
}

#[test]
fn the_first_end_without_goodbye_is_the_cause_and_later_ones_are_not_heard() {
    let (mut judge, now) = judge(4);
    assert_eq!(blame(judge.lose(2, "reset")), Some((PeerLost, Some(2))));
    assert_eq!(judge.lose(1, "reset"), None);
    assert_eq!(judge.hear(3, Notice::Abort { code: 1 }, now), None);
}

#[test]
fn who_leaves_harms_only_calls_it_takes_no_part_in() {
    let (mut judge, now) = judge(3);
    assert_eq!(judge.hear(1, waiting(4), now), None);
    assert_eq!(judge.hear(2, Notice::Goodbye { sequence: 5 }, now), None);
    assert_eq!(judge.lose(2, "closed"), None);
    assert_eq!(
        blame(judge.hear(1, waiting(5), now)),
        Some((PeerLost, Some(2)))
    );
}

#[test]
fn who_leaves_while_awaited_is_lost_whichever_is_heard_first() {
    let (mut first, now) = judge(3);
    assert_eq!(first.hear(0, waiting(5), now), None);
    let left = first.hear(1, Notice::Goodbye { sequence: 5 }, now);
    assert_eq!(blame(left), Some((PeerLost, Some(1))));

    let broken = Notice::Broken {
        sequence: 5,
        peer: 1,
        reason: "closed".into(),
    };
    let (mut second, now) = judge(3);
    assert_eq!(second.hear(0, broken, now), None);
    let left = second.hear(1, Notice::Goodbye { sequence: 5 }, now);
    assert_eq!(blame(left), Some((PeerLost, Some(1))));
}

#[test]
fn a_broken_link_is_explained_by_a_death_or_is_a_failure_of_the_network() {
    let broken = |peer| Notice::Broken {
        sequence: 1,
        peer,
        reason: "reset".into(),
    };
    let (mut explained, now) = judge(4);
    assert_eq!(explained.hear(3, broken(2), now), None);
    // Rank 2 is a survivor that has hung up: rank 1 is the one that died.
    assert_eq!(
        blame(explained.lose(1, "closed")),
        Some((PeerLost, Some(1)))
    );

    let (mut unexplained, now) = judge(4);
    assert_eq!(unexplained.hear(3, broken(2), now), None);
    let due = unexplained.next_due(now).unwrap();
    assert_eq!(unexplained.due(now, 0), None);
    assert_eq!(blame(unexplained.due(now + due, 0)), Some((Io, Some(2))));
}

#[test]
fn a_timeout_names_all_that_are_missing() {
    let (mut judge, now) = judge(5);
    for rank in [0, 3] {
        assert_eq!(judge.hear(rank, waiting(7), now), None);
    }
    assert_eq!(judge.hear(4, waiting(6), now), None);
    let call = Call::barrier();
    let heard = judge.hear(3, timed_out(7, call), now);
    let Some(Ruling::Cause(cause)) = decided(&mut judge, heard, now) else {
        panic!("no cause");
    };
    assert_eq!((cause.kind, cause.rank), (TimedOut, Some(1)));
    assert!(
        cause.message.starts_with(
            "ranks 1 (host-1), 2 (host-2), 4 (host-4) did not enter the call within 1s"
        ),
        "{}",
        cause.message
    );
    assert!(cause.message.contains("COBRE_TCP_TIMEOUT_SECS"));
}

#[test]
fn a_timeout_with_a_visible_disagreement_is_a_mismatch() {
    let (mut judge, now) = judge(3);
    assert_eq!(judge.hear(0, waiting(7), now), None);
    let call = Call::broadcast(8, 8, 0);
    let heard = judge.hear(2, timed_out(7, call), now);
    let ruling = decided(&mut judge, heard, now);
    assert_eq!(blame(ruling), Some((Mismatch, Some(2))));
}

#[test]
fn a_stall_is_blamed_on_who_is_accused_and_silent() {
    let (mut judge, now) = judge(4);
    assert_eq!(judge.hear(0, stalled(3, false), now), None);
    assert_eq!(judge.hear(3, stalled(2, false), now), None);
    assert_eq!(judge.hear(1, stalled(0, false), now), None);
    // Ranks 0, 1 and 3 complain; rank 2 is accused and says nothing.
    assert_eq!(
        blame(judge.hear(1, stalled(0, true), now)),
        Some((TimedOut, Some(2)))
    );
}

#[test]
fn an_abort_is_told_with_its_code_and_a_farewell_with_its_sequence() {
    let (mut first, now) = judge(2);
    assert_eq!(
        blame(first.hear(1, Notice::Abort { code: 9 }, now)),
        Some((Aborted, Some(1)))
    );
    let (mut second, now) = judge(2);
    let farewell = second.hear(0, Notice::Goodbye { sequence: 12 }, now);
    assert_eq!(farewell, Some(Ruling::Farewell(12)));
}

#[test]
fn nonsense_from_a_rank_is_survived() {
    let (mut judge, now) = judge(2);
    let broken = Notice::Broken {
        sequence: u64::MAX,
        peer: 99,
        reason: String::new(),
    };
    assert_eq!(judge.hear(1, broken, now), None);
    let stalled = Notice::Stalled {
        sequence: 0,
        peer: 99,
        last: true,
        timeout: TIMEOUT,
        flow: Flow::default(),
    };
    assert!(judge.hear(1, stalled, now).is_some());
}

#[test]
fn a_wait_that_is_over_is_not_warned_of() {
    let (mut judge, now) = judge(3);
    let later = now + TEN_SECONDS + Duration::from_secs(1);
    judge.hear(1, waiting(4), now);
    assert!(judge.next_due(now).is_some());
    // Rank 0 is through with call 4: there is nothing to say, now or later.
    assert_eq!(judge.due(later, 5), None);
    assert_eq!(judge.next_due(later), None);
}

#[test]
fn a_wait_is_warned_of_when_it_is_slow_itself() {
    let (mut judge, now) = judge(3);
    let begun = Duration::from_secs(9);
    judge.hear(1, waiting(4), now);
    judge.hear(2, waiting(5), now + begun);
    // The first wait is over, the second has only begun.
    judge.due(now + TEN_SECONDS, 5);
    assert_eq!(judge.next_due(now + TEN_SECONDS), Some(begun));
    // It is slow in its turn, warned of, and will be again.
    let slow = now + TEN_SECONDS + TEN_SECONDS;
    judge.due(slow, 5);
    assert_eq!(judge.next_due(slow), Some(TEN_SECONDS));
}

/// A rank that is stuck in the middle of the call before waits for another: it is not missing.
#[test]
fn a_timeout_is_not_blamed_on_who_is_stuck_behind_another() {
    let (mut judge, now) = judge(4);
    let stuck = Notice::Stalled {
        sequence: 6,
        peer: 2,
        last: false,
        timeout: TIMEOUT,
        flow: Flow::default(),
    };
    assert_eq!(judge.hear(0, waiting(7), now), None);
    for rank in [1, 3] {
        assert_eq!(judge.hear(rank, stuck.clone(), now), None);
    }
    let call = Call::barrier();
    let heard = judge.hear(0, timed_out(7, call), now);
    assert_eq!(
        blame(decided(&mut judge, heard, now)),
        Some((TimedOut, Some(2)))
    );
}

/// A rank says that it waits only after some milliseconds: one that has just come is not missing.
#[test]
fn a_timeout_is_not_blamed_on_who_has_just_come() {
    let (mut judge, now) = judge(3);
    assert_eq!(judge.hear(1, waiting(7), now), None);
    let call = Call::barrier();
    let heard = judge.hear(1, timed_out(7, call), now);
    assert_eq!(heard, None);
    assert_eq!(judge.next_due(now), Some(Duration::from_millis(50)));
    let soon = now + Duration::from_millis(10);
    assert_eq!(judge.hear(0, waiting(7), soon), None);
    assert_eq!(
        blame(decided(&mut judge, None, soon)),
        Some((TimedOut, Some(2)))
    );
}

/// Returns what is decided now, or when it falls due.
fn decided(judge: &mut Judge, heard: Option<Ruling>, now: Instant) -> Option<Ruling> {
    heard.or_else(|| {
        let due = judge.next_due(now)?;
        judge.due(now + due, 0)
    })
}

/// A rank that left in good order, but whose last bytes were lost with its links, is the one to blame:
/// nothing is wrong with the network.
#[test]
fn a_link_that_breaks_because_its_rank_left_is_blamed_on_that_rank() {
    let broken = Notice::Broken {
        sequence: 5,
        peer: 1,
        reason: "closed".into(),
    };
    let goodbye = Notice::Goodbye { sequence: 90 };
    for order in [[(0, &broken), (1, &goodbye)], [(1, &goodbye), (0, &broken)]] {
        let (mut judge, now) = judge(3);
        for (rank, notice) in order {
            assert_eq!(judge.hear(rank, notice.clone(), now), None);
        }
        assert_eq!(
            blame(decided(&mut judge, None, now)),
            Some((PeerLost, Some(1)))
        );
    }
}

#[test]
fn a_rank_that_cannot_go_on_is_lost_at_once_and_an_interruption_is_an_abort() {
    let (mut first, now) = judge(3);
    let lost = first.hear(2, Notice::Lost(Lost::PanickedInside), now);
    let Some(Ruling::Cause(cause)) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!((cause.kind, cause.rank), (PeerLost, Some(2)));
    let message = words::lost(Lost::PanickedInside, Some("host-2"));
    assert_eq!(cause.message, message);

    let (mut second, now) = judge(3);
    let interrupted = second.hear(1, Notice::Interrupted, now);
    assert_eq!(blame(interrupted), Some((Aborted, Some(1))));
}

/// As long as reports of stalls count, time must not run on unnoticed.
#[test]
fn reports_are_remembered_for_half_a_timeout() {
    let (mut judge, now) = judge(3);
    assert!(!judge.remembers(now));
    let stalled = Notice::Stalled {
        sequence: 0,
        peer: 2,
        last: false,
        timeout: TIMEOUT,
        flow: Flow::default(),
    };
    judge.hear(1, stalled, now);
    assert!(judge.remembers(now + Duration::from_millis(499)));
    assert!(!judge.remembers(now + Duration::from_millis(500)));
}

/// Rank 2 still takes bytes of the call before, slowly: nobody is late, until it takes none any more.
#[test]
fn a_timeout_waits_for_bytes_that_move() {
    let (mut judge, now) = judge(3);
    for rank in [0, 1] {
        assert_eq!(judge.hear(rank, waiting(7), now), None);
    }
    let moving = Notice::Moving {
        sequence: 6,
        timeout: TIMEOUT,
    };
    let told = judge.hear(2, moving.clone(), now);
    assert_eq!(told, Some(Ruling::WaitOn(vec![0, 1])));
    assert_eq!(judge.hear(2, moving, now), None);
    let heard = judge.hear(1, timed_out(7, Call::barrier()), now);
    let ruling = decided(&mut judge, heard, now);
    assert_eq!(ruling, Some(Ruling::WaitOn(vec![1])));
    let later = now + TIMEOUT;
    let heard = judge.hear(1, timed_out(7, Call::barrier()), later);
    let ruling = decided(&mut judge, heard, later);
    assert_eq!(blame(ruling), Some((TimedOut, Some(2))));
}

/// Rank 1 has sent its bytes to rank 2 and waits in the next call; they do not arrive.
#[test]
fn a_link_that_swallows_bytes_is_named_with_both_its_ends() {
    for through in [true, false] {
        let (mut judge, now) = judge(4);
        let stalled = |peer, last, sent, received| Notice::Stalled {
            sequence: 6,
            peer,
            last,
            timeout: TIMEOUT,
            flow: Flow {
                next: (sent, 0),
                prev: (0, received),
            },
        };
        if through {
            assert_eq!(judge.hear(1, waiting(7), now), None);
        } else {
            assert_eq!(judge.hear(1, stalled(0, false, 9, 5), now), None);
        }
        assert_eq!(judge.hear(0, stalled(3, false, 5, 5), now), None);
        assert_eq!(judge.hear(3, stalled(2, false, 5, 5), now), None);
        let ruling = judge.hear(2, stalled(1, true, 5, 5), now);
        let Some(Ruling::Cause(cause)) = ruling else {
            panic!("no cause");
        };
        assert_eq!((cause.kind, cause.rank), (TimedOut, None));
        let ends = "between rank 1 (host-1) and rank 2 (host-2)";
        assert!(cause.message.contains(ends), "{}", cause.message);
    }
}

fn stalled(peer: usize, last: bool) -> Notice {
    Notice::Stalled {
        sequence: 3,
        peer,
        last,
        timeout: TIMEOUT,
        flow: Flow::default(),
    }
}

/// Rank 3 was stuck behind rank 2 once, and has said nothing since: it is the one that is silent now.
#[test]
fn a_stall_that_was_reported_long_ago_accuses_nobody_and_excuses_nobody() {
    let (mut judge, now) = judge(4);
    assert_eq!(judge.hear(3, stalled(2, false), now), None);
    let later = now + Duration::from_millis(600);
    assert_eq!(judge.hear(0, stalled(3, false), later), None);
    assert_eq!(
        blame(judge.hear(1, stalled(0, true), later)),
        Some((TimedOut, Some(3)))
    );
}

/// The same of a rank that does not come to the next call, as another does not that was never stuck.
#[test]
fn who_was_stuck_long_ago_is_missing_now() {
    let (mut judge, now) = judge(4);
    assert_eq!(judge.hear(1, stalled(2, false), now), None);
    let later = now + Duration::from_millis(600);
    for rank in [0, 3] {
        assert_eq!(judge.hear(rank, waiting(4), later), None);
    }
    let heard = judge.hear(0, timed_out(4, Call::barrier()), later);
    assert_eq!(
        blame(decided(&mut judge, heard, later)),
        Some((TimedOut, Some(1)))
    );
}

/// Who reports says what it has received; the other end is where that came from, and is named.
#[test]
fn a_link_that_cannot_be_trusted_is_blamed_on_its_other_end() {
    let altered = |peer| Notice::Altered {
        peer,
        reason: "a bit".into(),
    };
    let (mut judge, now) = judge(4);
    let Some(Ruling::Cause(cause)) = judge.hear(3, altered(1), now) else {
        panic!("no cause");
    };
    assert_eq!((cause.kind, cause.rank), (Io, Some(1)));
    let ends = "between rank 3 (host-3) and rank 1 (host-1) cannot be trusted";
    assert!(cause.message.contains(ends), "{}", cause.message);
}

#[test]
fn a_broken_link_is_named_with_both_its_ends_in_the_order_of_the_report() {
    let (mut judge, now) = judge(4);
    let broken = Notice::Broken {
        sequence: 1,
        peer: 1,
        reason: "reset".into(),
    };
    assert_eq!(judge.hear(2, broken, now), None);
    let after = now + Duration::from_millis(200);
    let Some(Ruling::Cause(cause)) = judge.due(after, 0) else {
        panic!("no cause");
    };
    assert_eq!((cause.kind, cause.rank), (Io, Some(1)));
    let ends = "between rank 2 (host-2) and rank 1 (host-1) broke (reset)";
    assert!(cause.message.contains(ends), "{}", cause.message);
}

#[test]
fn an_entry_that_is_lost_is_told_once_its_rank_has_waited_as_long_as_rank_0() {
    let (mut judge, now) = judge(4);
    let all_wait = |judge: &mut Judge, sequence| {
        for rank in 0..4 {
            assert_eq!(judge.hear(rank, waiting(sequence), now), None);
        }
    };
    let call = Call::barrier();
    all_wait(&mut judge, 2);
    // Rank 3 has asked in an earlier call, which went on.
    judge.hear(3, timed_out(2, call), now);
    assert_eq!(judge.due(now + ARRIVAL, 0), None);
    all_wait(&mut judge, 3);
    let later = now + ARRIVAL * 2;
    assert_eq!(judge.hear(0, stalled(3, false), later), None);
    judge.hear(0, timed_out(3, call), later);
    judge.hear(2, timed_out(3, call), later);
    let ruling = judge.due(later + ARRIVAL, 0);
    assert_eq!(ruling, None, "rank 3 may have come just now");
    let much_later = later + ARRIVAL * 2;
    judge.hear(3, timed_out(3, call), much_later);
    let Some(Ruling::Cause(cause)) = judge.due(much_later + ARRIVAL, 0) else {
        panic!("nobody decides");
    };
    assert_eq!((cause.kind, cause.rank), (TimedOut, None));
    assert!(
        cause.message.contains("between rank 0"),
        "{}",
        cause.message
    );
    assert!(cause.message.contains("and rank 3"), "{}", cause.message);
}

#[test]
fn who_waits_on_behind_a_rank_that_has_not_come_accuses_no_link() {
    let (mut judge, now) = judge(3);
    for rank in 0..2 {
        assert_eq!(judge.hear(rank, waiting(3), now), None);
    }
    judge.hear(0, stalled(2, false), now);
    judge.hear(0, timed_out(3, Call::barrier()), now);
    let ruling = judge.due(now + ARRIVAL, 0);
    assert_eq!(blame(ruling), Some((TimedOut, Some(2))));
}

/// The answer of call 6 did not reach rank 2, which is the first to ask; the others are in the next call.
#[test]
fn who_asks_about_an_earlier_call_does_not_keep_others_from_being_heard() {
    let (mut judge, now) = judge(3);
    let call = Call::barrier();
    judge.hear(2, waiting(6), now);
    for rank in 0..2 {
        assert_eq!(judge.hear(rank, waiting(7), now), None);
    }
    judge.hear(2, timed_out(6, call), now);
    let soon = now + Duration::from_millis(10);
    judge.hear(1, timed_out(7, call), soon);
    assert_eq!(judge.next_due(soon), Some(Duration::from_millis(40)));
    assert_eq!(judge.due(now + ARRIVAL, 7), None);
    let ruling = judge.due(soon + ARRIVAL, 7);
    assert_eq!(blame(ruling), Some((TimedOut, Some(2))));
}
