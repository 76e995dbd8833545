//! Agreement on a region that is created, and on which rank reserves which part.

use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use comm_api::FailureKind;

use super::*;
use crate::ShmConfig;
use crate::protocol::wait::WaitPolicy;
use crate::segment::Segment;
use crate::segment::layout::sequence as place;

/// Runs `first` on rank 0 and `second` on rank 1 of a job.
fn two<A: Send>(
    name: &str,
    first: impl FnOnce(&Sequence) -> A + Send,
    second: impl FnOnce(&Sequence) -> A + Send,
) -> [A; 2] {
    let name = format!("cobre-unit-{}-{name}", std::process::id());
    let open = |rank| {
        let segment = Segment::open(&ShmConfig::new(&name, rank, 2), 0).expect("attaches");
        let (map, layout) = (Arc::clone(segment.map()), Layout::new(2, 0));
        let board = Board::new(Arc::new(segment), map, place(2), layout);
        Sequence::new(board, rank, WaitPolicy::new(2, 2, None))
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| second(&open(1)));
        [first(&open(0)), other.join().expect("no panic")]
    })
}

/// Takes the first step of a call with numbers that do not appear in the words of the call, as if two hashes
/// were equal.
fn collide(sequence: &Sequence, call: Call, numbers: [u64; 2]) -> Vec<[u64; 2]> {
    let mut turn = sequence.begin(call).expect("nothing has failed");
    contribute(&mut turn, numbers, true).expect("the words agree")
}

fn assert_mismatch(error: &CommError) {
    let CommError::CollectiveFailed {
        kind,
        rank,
        message,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((*kind, *rank), (FailureKind::Mismatch, Some(1)));
    assert!(message.contains("do not agree"), "{message}");
}

#[test]
fn numbers_that_differ_behind_equal_words_are_a_mismatch() {
    for (name, numbers) in [("count", [8, 4]), ("size", [16, 3])] {
        let [error, _] = two(
            name,
            |rank| shared::<u64>(rank, 3).map(drop).err(),
            |rank| {
                collide(rank, Call::shared_region(3, 8), numbers);
                None
            },
        );
        assert_mismatch(&error.expect("no region"));
    }
    let [error, _] = two(
        "part",
        |rank| partitioned::<u64>(rank, 3).map(drop).err(),
        |rank| {
            collide(rank, Call::partitioned_region(8), [16, 3]);
            None
        },
    );
    assert_mismatch(&error.expect("no region"));
}

const MIB: usize = 1 << 20;

/// Returns how many bytes of the file are allocated.
fn allocated(sequence: &Sequence) -> u64 {
    let file = sequence.board().segment().file();
    file.metadata().expect("it is open").blocks() * 512
}

/// Takes the steps of a partitioned region of bytes up to the third, and waits until rank 0 has taken that
/// one.
fn up_to_the_third(sequence: &Sequence, bytes: usize) -> (Turn<'_>, FileRange) {
    let call = Call::partitioned_region(1);
    let mut turn = sequence.begin(call).expect("nothing has failed");
    contribute(&mut turn, [1, bytes as u64], true).expect("all agree");
    turn.advance();
    turn.publish();
    turn.meet_before(true).expect("rank 0 has found a range");
    let [0, offset] = turn.line(0).words() else {
        panic!("there is room");
    };
    turn.advance();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !turn.line(0).shows(turn.step()) {
        assert!(Instant::now() < deadline, "rank 0 does not come");
        thread::yield_now();
    }
    let bytes = 0;
    (turn, FileRange { offset, bytes })
}

/// The system takes pages from the memory next to the processor that reserves them.
#[test]
fn each_rank_reserves_the_part_that_it_owns() {
    let [whole, [before, after]] = two(
        "first-touch",
        |rank| {
            let region = partitioned::<u8>(rank, 4 * MIB).expect("there is room");
            drop(region);
            [0, 0]
        },
        |rank| {
            let (mut turn, range) = up_to_the_third(rank, 16 * MIB);
            let before = allocated(rank);
            let own = Layout::new(2, 0).payload() + 4 * MIB;
            let part = own..own + 16 * MIB;
            let segment = rank.board().segment();
            segment.reserve(range, &part).expect("there is room");
            let after = allocated(rank);
            contribute(&mut turn, [0; 3], false).expect("all could");
            [before, after]
        },
    );
    assert_eq!(whole, [0, 0]);
    // Rank 0 has reserved its part and the few pages of header and lines, and nothing of the other part.
    let few = MIB as u64;
    let parts = [4, 16].map(|part| (part * MIB) as u64);
    assert!((parts[0]..parts[0] + few).contains(&before), "{before}");
    assert_eq!(after - before, parts[1]);
}

/// A shortage of memory on one rank is an error on all; what the others reserved is returned, and the next
/// region fits.
#[test]
fn what_one_rank_cannot_reserve_no_rank_keeps() {
    let short = NoRoom::Short {
        needed: 16 << 20,
        available: 7,
    };
    let [(error, kept), (none, _)] = two(
        "short",
        |rank| {
            let before = allocated(rank);
            let error = partitioned::<u8>(rank, 4 * MIB).map(drop).err();
            let kept = allocated(rank).saturating_sub(before);
            partitioned::<u8>(rank, 1).expect("the communicator is usable");
            (error, kept)
        },
        |rank| {
            let (mut turn, _) = up_to_the_third(rank, 16 * MIB);
            contribute(&mut turn, short.words(), false).expect("all have reported");
            drop(turn);
            partitioned::<u8>(rank, 1).expect("the communicator is usable");
            (None, 0)
        },
    );
    assert!(none.is_none());
    assert_eq!(kept, 0);
    let error = error.expect("no region");
    let CommError::AllocationFailed {
        requested_bytes,
        message,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(requested_bytes, 20 * MIB);
    assert!(
        message.contains("rank 1") && message.contains("7 are available"),
        "{message}"
    );
}
