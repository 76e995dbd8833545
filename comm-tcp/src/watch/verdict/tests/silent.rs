//! Ranks of which nothing comes: in the middle of a call, or because no way leads to them.

use super::*;

/// Ranks 2 and 4 of six are silent, and all others stuck behind one of them, in any order of their complaints.
#[test]
fn of_two_silent_ranks_the_lowest_is_named() {
    for last in [0, 1, 3, 5] {
        let (mut judge, now) = judge(6);
        let behind = |rank| if matches!(rank, 1 | 3) { 2 } else { 4 };
        for rank in [0, 1, 3, 5] {
            assert_eq!(judge.hear(rank, stalled(behind(rank), false), now), None);
        }
        let ruling = judge.hear(last, stalled(behind(last), true), now);
        assert_eq!(blame(ruling), Some((TimedOut, Some(2))), "rank {last}");
    }
}

/// Nobody knows whether it lives: its process is not said to have ended.
#[test]
fn a_rank_to_which_no_way_leads_is_unreachable_and_not_dead() {
    let (mut judge, _) = judge(3);
    let Some(Ruling::Cause(cause)) = judge.lose_sight(2, "No route to host") else {
        panic!("nothing is decided");
    };
    assert_eq!((cause.kind, cause.rank), (PeerLost, Some(2)));
    let place =
        "it is unreachable (host-2: No route to host) and may still run; look at the network";
    assert!(cause.message.starts_with(place), "{cause:?}");
}

#[test]
fn who_has_left_may_be_out_of_sight() {
    let (mut judge, now) = judge(3);
    assert_eq!(judge.hear(2, Notice::Goodbye { sequence: 5 }, now), None);
    assert_eq!(judge.lose_sight(2, "timed out"), None);
}
