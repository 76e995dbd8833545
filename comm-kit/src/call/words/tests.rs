use comm_api::{Operation, ReduceOp, ScalarKind};

use super::*;

#[test]
fn the_sentences_are_pinned() {
    let minute = Some(Duration::from_mins(1));
    let pinned = [
        (
            lost(Lost::Ended, None),
            "its process ended before it contributed; look at what it printed last, then restart the job",
        ),
        (
            lost(Lost::PanickedInside, Some("10.0.0.3")),
            "it panicked inside a call (10.0.0.3) before it contributed; look at what it printed last, then restart the job",
        ),
        (
            absent(&ranks(&[1, 3]), minute, "COBRE_SHM_TIMEOUT_SECS"),
            "ranks 1, 3 did not enter the call within 60s; increase COBRE_SHM_TIMEOUT_SECS if ranks compute longer than \
             that between calls (0 disables the timeout)",
        ),
        (
            stalled("rank 2", None, "COBRE_TCP_TIMEOUT_SECS"),
            "rank 2 transferred no data in the middle of a call; increase COBRE_TCP_TIMEOUT_SECS if the network is that \
             slow (0 disables the timeout)",
        ),
        (aborted(7), "it called abort(7)"),
        (
            interrupted(),
            "it was interrupted while it waited; this communicator or region is no longer usable",
        ),
    ];
    for (text, expected) in pinned {
        assert_eq!(text, expected);
    }
    let error = CommError::invalid_root(Operation::Broadcast, 9, 4);
    assert_eq!(
        refused(Operation::Barrier, 2, Some(&reason(&error))).to_string(),
        "barrier: refused, rank 2: it was called with invalid arguments: broadcast: root 9 is not a rank of a \
         communicator of size 4; use 0..4; no data was exchanged and the communicator is still usable"
    );
    let unknown = refused(Operation::Barrier, 2, None).to_string();
    assert!(
        unknown.contains("it was called with invalid arguments; no data"),
        "{unknown}"
    );
    assert!(!busy(Operation::Fence, 0).is_fatal());
}

#[test]
fn what_ranks_called_is_said_in_groups() {
    let calls = [
        (0, Call::barrier()),
        (2, Call::fence()),
        (3, Call::barrier()),
    ];
    assert_eq!(
        called(calls),
        "ranks 0, 3 called barrier, rank 2 called fence"
    );
    assert_eq!(called([]), "");
}

#[test]
fn a_mismatch_shows_each_call_with_its_ranks_and_blames_the_lowest_that_differs() {
    let sum = Call::allreduce(24, ScalarKind::F64, ReduceOp::Sum);
    let calls = [
        (0, sum),
        (1, sum),
        (2, Call::barrier()),
        (3, sum),
        (4, Call::fence()),
    ];
    let (rank, message) = differing(calls).expect("they differ");
    assert_eq!(rank, 2);
    assert_eq!(
        message,
        "ranks 0, 1, 3 called allreduce(Sum of 3 f64), rank 2 called barrier, rank 4 called fence; all ranks must call the same \
         collectives in the same order with arguments that agree"
    );
    assert_eq!(differing([(0, sum), (1, sum)]), None);
    let many = (0..40).map(|rank| (rank, Call::shared_region(rank, 8)));
    let (_, message) = differing(many).expect("they differ");
    assert_eq!(message.matches(" called ").count(), LISTED);
    assert!(message.contains("(15 elements of 8 bytes), ..; all ranks"));
}

/// The differing arguments were sent as a hash: the groups show which ranks differ.
#[test]
fn other_counts_are_told_by_the_ranks_that_have_them() {
    let counts = |last: usize| Call::allgatherv(&[1, 2, last], 8);
    let calls = [3, 3, 4, 3, 3, 5].map(counts).into_iter().enumerate();
    let (rank, message) = differing(calls).expect("they differ");
    assert_eq!(rank, 2);
    let shown = "ranks 0, 1, 3, 4 called allgatherv(elements of 8 bytes), rank 2 called allgatherv(elements of 8 bytes) \
                 with other counts, rank 5 called allgatherv(elements of 8 bytes) with other counts; all";
    assert!(message.starts_with(shown), "{message}");
    // Equal counts are one number, which travels.
    let equal = |count: usize| Call::allgatherv(&[count; 3], 8);
    let (rank, message) =
        differing([3, 3, 4].map(equal).into_iter().enumerate()).expect("they differ");
    assert_eq!(rank, 2);
    let shown = "ranks 0, 1 called allgatherv(3 elements of 8 bytes from each rank), rank 2 called allgatherv(4 elements of 8 \
                 bytes from each rank); all";
    assert!(message.starts_with(shown), "{message}");
    let huge = |count: usize| Call::shared_region(count, 5 << 30);
    let (_, message) = differing([(0, huge(1)), (1, huge(2))]).expect("they differ");
    let shown =
        "rank 1 called create_shared_region(elements of 4 GiB or more) of another size or number;";
    assert!(message.contains(shown), "{message}");
}

#[test]
fn ranks_are_listed_as_far_as_a_line_goes() {
    assert_eq!(ranks(&[2]), "rank 2");
    assert_eq!(
        ranks_at(&[1, 3], |rank| (rank == 3).then_some("here")),
        "ranks 1, 3 (here)"
    );
    let many: Vec<usize> = (0..20).chain([22, 40]).collect();
    assert_eq!(ranks(&many), "ranks 0-19, 22, 40");
    let gaps: Vec<usize> = (0..40).step_by(2).collect();
    assert!(ranks(&gaps).ends_with(" 28, 30, .."), "{}", ranks(&gaps));
    assert_eq!(ranks(&[3, 4, 5, 6, 7, 8, 9, 12]), "ranks 3-9, 12");
    assert_eq!(ranks(&[3, 4, 7]), "ranks 3, 4, 7");
    // A place belongs to one rank.
    let listed = ranks_at(&many, |rank| (rank % 8 == 0).then_some("a"));
    assert_eq!(
        listed,
        "ranks 0 (a), 1-7, 8 (a), 9-15, 16 (a), 17-19, 22, 40 (a)"
    );
}

#[test]
fn a_loss_survives_its_code() {
    for lost in [
        Lost::Ended,
        Lost::Dropped,
        Lost::Panicked,
        Lost::PanickedInside,
    ] {
        assert_eq!(Lost::from_code(lost.code()), lost);
        assert_ne!(lost.code(), 0);
    }
    assert_eq!(Lost::from_code(200), Lost::Ended);
}

#[test]
fn what_comes_from_elsewhere_is_one_short_printable_line() {
    assert_eq!(printable(b"a\x1b[2J\nb\xff", 100), "a [2J b\u{fffd}");
    assert_eq!(printable("ééé".as_bytes(), 3), "é");
    let long = CommError::allocation_failed(1, "é".repeat(500));
    assert!(reason(&long).len() <= LONGEST_REASON);
}
