//! Layouts at random: the checks of `allgatherv` against a set of covered elements.

use std::collections::BTreeSet;

use comm_api::{Argument, Blocks, CommError, Operation, check};
use proptest::prelude::*;

/// Says what the contract says, by marking every element.
fn by_hand(
    rank: usize,
    size: usize,
    send_len: usize,
    recv_len: usize,
    counts: &[usize],
    displs: &[usize],
) -> Result<(), (usize, usize)> {
    for list in [counts, displs] {
        if list.len() != size {
            return Err((size, list.len()));
        }
    }
    if send_len != counts[rank] {
        return Err((counts[rank], send_len));
    }
    let blocks = counts.iter().zip(displs);
    let ends = blocks
        .clone()
        .map(|(&count, &displ)| count as u128 + displ as u128);
    let needed = ends.max().unwrap_or(0);
    if needed > recv_len as u128 {
        return Err((usize::try_from(needed).unwrap_or(usize::MAX), recv_len));
    }
    let covered: BTreeSet<usize> = blocks
        .flat_map(|(&count, &displ)| displ..displ + count)
        .collect();
    let sum: usize = counts.iter().sum();
    if covered.len() == sum {
        Ok(())
    } else {
        Err((sum, covered.len()))
    }
}

/// Checks that the argument which is named is the one that is wrong.
fn blamed(
    argument: Argument,
    (size, (_, recv_len)): (usize, (usize, usize)),
    counts: &[usize],
    displs: &[usize],
) {
    match argument {
        Argument::Counts => assert_ne!(counts.len(), size),
        Argument::Displs => assert_ne!(displs.len(), size),
        Argument::Recv => {
            let mut ends = counts.iter().zip(displs);
            assert!(ends.any(|(&count, &displ)| count as u128 + displ as u128 > recv_len as u128));
        }
        Argument::Overlap(first, second) => {
            assert!(first < second);
            let block = |rank: usize| displs[rank]..displs[rank] + counts[rank];
            let shared = block(first).start.max(block(second).start)
                ..block(first).end.min(block(second).end);
            assert!(!shared.is_empty(), "blocks {first} and {second}");
        }
        other => assert_eq!(other, Argument::Send),
    }
}

fn agree(rank: usize, size: usize, lens: (usize, usize), counts: &[usize], displs: &[usize]) {
    let expected = by_hand(rank, size, lens.0, lens.1, counts, displs);
    let checked = check::allgatherv(rank, size, lens.0, lens.1, counts, displs);
    let numbers = checked.clone().map_err(|error| match error {
        CommError::InvalidBufferSize {
            operation: Operation::Allgatherv,
            argument,
            expected,
            actual,
            ..
        } => {
            blamed(argument, (size, lens), counts, displs);
            (expected, actual)
        }
        other => panic!("{other}"),
    });
    assert_eq!(numbers, expected);

    // Whole elements in bytes are refused alike, and what passes lies inside the buffer.
    let (send, recv) = (vec![0; lens.0 * 3], vec![0; lens.1 * 3]);
    let in_bytes =
        check::allgatherv_bytes(rank, size, &send, &recv, Blocks::new(counts, displs), 3);
    assert_eq!(in_bytes, checked);
    if in_bytes.is_ok() {
        for (&count, &displ) in counts.iter().zip(displs) {
            assert!(recv.get(displ * 3..displ * 3 + count * 3).is_some());
        }
    }
}

/// Small numbers, so that overlaps and exact fits are common, and now and then an enormous one.
fn number() -> impl Strategy<Value = usize> {
    prop_oneof![
        20 => 0_usize..8,
        4 => 0_usize..40,
        1 => Just(usize::MAX),
        1 => (0_usize..4).prop_map(|less| usize::MAX - less),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_lists(
        counts in prop::collection::vec(number(), 0..7),
        displs in prop::collection::vec(number(), 0..7),
        rank in 0_usize..4,
        send_len in 0_usize..8,
        recv_len in 0_usize..48,
    ) {
        agree(rank, 4, (send_len, recv_len), &counts, &displs);
    }

    #[test]
    fn lists_that_nearly_fit(
        blocks in prop::collection::vec((0_usize..5, 0_usize..3), 1..9),
        order in any::<prop::sample::Index>(),
        nudge in prop::option::of((any::<prop::sample::Index>(), 0_usize..12)),
        rank in any::<prop::sample::Index>(),
        slack in 0_usize..2,
    ) {
        // Disjoint blocks with gaps, dealt out to the ranks from somewhere in the middle ..
        let size = blocks.len();
        let (mut counts, mut displs, mut end) = (vec![0; size], vec![0; size], 0);
        for (place, (count, gap)) in blocks.into_iter().enumerate() {
            let rank = (place + order.index(size)) % size;
            (counts[rank], displs[rank]) = (count, end + gap);
            end += gap + count;
        }
        // .. and one of them moved.
        if let Some((which, displ)) = nudge {
            displs[which.index(size)] = displ;
        }
        let rank = rank.index(size);
        agree(rank, size, (counts[rank], (end + slack).saturating_sub(1)), &counts, &displs);
    }
}
