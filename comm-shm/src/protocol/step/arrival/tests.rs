//! What a rank that waits makes of a death, at moments that no clock can bring about.

use std::sync::Arc;
use std::thread;

use comm_api::Operation;
use comm_kit::Call;

use super::*;
use crate::ShmConfig;
use crate::protocol::board::Board;
use crate::protocol::step::Sequence;
use crate::protocol::wait::WaitPolicy;
use crate::segment::Segment;
use crate::segment::layout::{Layout, sequence as place};

/// Opens the sequences of three ranks.
fn three(name: &str) -> Vec<Sequence> {
    let name = format!("cobre-unit-{}-{name}", std::process::id());
    let open = |rank| {
        let segment = Segment::open(&ShmConfig::new(&name, rank, 3), 0).expect("attaches");
        let (map, layout) = (Arc::clone(segment.map()), Layout::new(3, 0));
        let board = Board::new(Arc::new(segment), map, place(3), layout);
        Sequence::new(board, rank, WaitPolicy::new(3, 3, None))
    };
    thread::scope(|scope| {
        let ranks = [0, 1, 2].map(|rank| scope.spawn(move || open(rank)));
        ranks
            .into_iter()
            .map(|rank| rank.join().expect("no panic"))
            .collect()
    })
}

const WAIT: Wait = Wait {
    step: 1,
    goal: Goal::Lines,
    operation: Operation::Barrier,
    first: true,
    more: false,
};

fn contribute(rank: &Sequence) {
    let mut turn = rank.begin(Call::barrier()).expect("nothing has failed");
    turn.publish();
}

/// Rank 1 contributes and dies just before rank 0, which waits for rank 2, finds that out: the call can still be complete.
#[test]
fn who_contributed_just_before_it_died_is_not_lost_to_this_call() {
    for more in [false, true] {
        let ranks = three(if more { "look-more" } else { "look" });
        let waiting = ranks[0].gate().transport();
        let dies = |rank| {
            if rank == 1 {
                contribute(&ranks[1]);
            }
            rank == 1
        };
        let found = waiting.look_for_the_dead(Wait { more, ..WAIT }, dies);
        if more {
            // It cannot contribute the rest of the call.
            let lost = Cause::lost(1, Lost::Ended);
            assert!(matches!(found, Err(Halt::Failed(cause)) if cause == lost));
        } else {
            assert!(found.is_ok(), "{found:?}");
            assert_eq!(waiting.board.cause(), None);
        }
    }
}

/// Rank 1 leaves in good order and its process ends: it is named for the way it went.
#[test]
fn who_left_before_it_died_has_left() {
    let ranks = three("left");
    let waiting = ranks[0].gate().transport();
    let dies = |rank| {
        if rank == 1 {
            ranks[1].gate().transport().leave(Lost::Dropped);
        }
        rank == 1
    };
    let found = waiting.look_for_the_dead(WAIT, dies);
    let left = Cause::lost(1, Lost::Dropped);
    assert!(matches!(found, Err(Halt::Failed(cause)) if cause == left));
}
