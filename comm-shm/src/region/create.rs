//! Creating a region: one call of three steps, after which all ranks have the region or none.
//!
//! | step | a rank contributes | so that |
//! |---|---|---|
//! | 1 | its call, the exact size of an element and the length of its part | all agree, and know all parts |
//! | 2 | rank 0 only: a range of the file, or how much memory there is | all map the same range |
//! | 3 | whether it could map the range | all return it or none |
//!
//! The communicator of a split takes the same steps.

use std::fs::File;
use std::io;
use std::sync::Arc;

use comm_api::{CommData, CommError};
use comm_kit::Call;

use super::{Memory, ShmRegion};
use crate::board::Board;
use crate::layout::{Layout, PAGE, SPLIT_SLOT_BYTES};
use crate::mapping::Mapping;
use crate::ranges::Range;
use crate::room::NoRoom;
use crate::step::{Sequence, Turn};
use crate::sync::Ordering;

/// Creates a region of `count` elements that rank 0 owns.
pub(crate) fn shared<T: CommData>(
    sequence: &Sequence,
    count: usize,
) -> Result<ShmRegion<T>, CommError> {
    let call = Call::shared_region(count, size_of::<T>());
    let mut turn = sequence.begin(call)?;
    let asked = exchange(&mut turn, [size_of::<T>() as u64, count as u64], true)?;
    if let Some(rank) = asked.iter().position(|other| *other != asked[0]) {
        return Err(turn.differs(rank));
    }
    let mut parts = vec![0; sequence.size()];
    parts[0] = count;
    region(turn, sequence, &parts)
}

/// Creates a region of which this rank owns `local_count` elements.
pub(crate) fn partitioned<T: CommData>(
    sequence: &Sequence,
    local_count: usize,
) -> Result<ShmRegion<T>, CommError> {
    let call = Call::partitioned_region(size_of::<T>());
    let mut turn = sequence.begin(call)?;
    let asked = exchange(&mut turn, [size_of::<T>() as u64, local_count as u64], true)?;
    if let Some(rank) = asked.iter().position(|[size, _]| *size != asked[0][0]) {
        return Err(turn.differs(rank));
    }
    let parts: Vec<usize> = asked
        .into_iter()
        .map(|[_, part]| usize::try_from(part).unwrap_or(usize::MAX))
        .collect();
    region(turn, sequence, &parts)
}

/// Creates the board of a split.
pub(crate) fn split(sequence: &Sequence) -> Result<(Range, Board), CommError> {
    let mut turn = sequence.begin(Call::split_local())?;
    turn.publish();
    turn.meet_before(true)?;
    let layout = Layout::new(sequence.size(), SPLIT_SLOT_BYTES);
    let bytes = layout.bytes();
    let (range, map) = map_range(turn, bytes, bytes, |file, offset| {
        Mapping::of(file, offset, bytes)
    })?;
    let segment = Arc::clone(sequence.board().segment());
    Ok((range, Board::new(segment, Arc::new(map), 0, layout)))
}

/// Takes the steps after the first: rank `r` owns `parts[r]` elements.
fn region<T: CommData>(
    turn: Turn<'_>,
    sequence: &Sequence,
    parts: &[usize],
) -> Result<ShmRegion<T>, CommError> {
    let (rank, size) = (sequence.rank(), sequence.size());
    let layout = Layout::new(size, 0);
    let fits = |bytes: &usize| isize::try_from(*bytes).is_ok();
    let count = parts
        .iter()
        .try_fold(0_usize, |sum, &part| sum.checked_add(part));
    let requested_bytes = count
        .and_then(|count| count.checked_mul(size_of::<T>()))
        .filter(fits);
    // The elements lie behind the lines, so that one mapping holds both.
    let elements = layout.payload_for(align_of::<T>());
    let bytes = requested_bytes
        .and_then(|bytes| bytes.checked_add(elements))
        .and_then(|bytes| bytes.checked_next_multiple_of(PAGE))
        .filter(fits);
    // All ranks have the same parts, so all of them stop here or none.
    let (Some(count), Some(requested_bytes), Some(bytes)) = (count, requested_bytes, bytes) else {
        return Err(too_large(parts, size_of::<T>()));
    };

    let (range, map) = map_range(turn, bytes, requested_bytes, |file, offset| {
        Mapping::aligned(file, offset, bytes, elements, align_of::<T>())
    })?;
    let first = parts[..rank].iter().sum();
    let segment = Arc::clone(sequence.board().segment());
    let map = Arc::new(map);
    let board = Board::new(segment, Arc::clone(&map), 0, layout);
    Ok(ShmRegion {
        memory: Memory::new(map, elements, count, first..first + parts[rank]),
        sequence: Sequence::new(board, rank, sequence.policy()),
        range,
    })
}

/// Takes the second and the third step: rank 0 reserves `bytes`, and all ranks `map` them.
///
/// # Errors
///
/// `AllocationFailed`, for `requested_bytes`, on all ranks or none.
fn map_range<M>(
    mut turn: Turn<'_>,
    bytes: usize,
    requested_bytes: usize,
    map: impl FnOnce(&File, u64) -> io::Result<M>,
) -> Result<(Range, M), CommError> {
    let segment = turn.board().segment();
    let bytes = bytes as u64;
    turn.advance();
    if turn.rank() == 0 {
        let words = match segment.extend(bytes) {
            Ok(Range { offset, .. }) => [0, offset, 0],
            Err(reason) => reason.words(),
        };
        let offer = &turn.own_line().inline;
        for (word, value) in offer.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
    }
    turn.publish();
    turn.meet_before(true)?;
    let offer = &turn.line(0).inline;
    let offer = [0, 1, 2].map(|word| offer[word].load(Ordering::Relaxed));
    let [0, offset, _] = offer else {
        return Err(NoRoom::from_words(offer).error(requested_bytes));
    };
    let range = Range { offset, bytes };

    turn.advance();
    let mapped = segment
        .check(range)
        .and_then(|()| map(segment.file(), offset));
    let failures = exchange(&mut turn, [mapped.is_err().into()], false)?;
    let failed = failures.iter().position(|failed| *failed != [0]);
    match (mapped, failed) {
        (Ok(map), None) => Ok((range, map)),
        (mapped, failed) => {
            if turn.rank() == 0 {
                segment.withdraw(range);
            }
            let reason = mapped
                .err()
                .map_or(String::new(), |error| format!(": {error}"));
            Err(CommError::AllocationFailed {
                requested_bytes,
                message: format!(
                    "rank {} could not map it{reason}; look at its limits (ulimit -v, \
                     vm.max_map_count)",
                    failed.unwrap_or(turn.rank())
                ),
            })
        }
    }
}

/// Takes one step in which every rank contributes numbers; the call has `more` steps to come.
fn exchange<const N: usize>(
    turn: &mut Turn<'_>,
    numbers: [u64; N],
    more: bool,
) -> Result<Vec<[u64; N]>, CommError> {
    for (word, number) in turn.own_line().inline.iter().zip(numbers) {
        word.store(number, Ordering::Relaxed);
    }
    turn.publish();
    turn.meet_before(more)?;
    let of = |rank| {
        let words = &turn.line(rank).inline;
        std::array::from_fn(|i| words[i].load(Ordering::Relaxed))
    };
    Ok((0..turn.size()).map(of).collect())
}

/// Refuses what no address space holds.
fn too_large(parts: &[usize], elem_size: usize) -> CommError {
    let count = parts
        .iter()
        .fold(0_usize, |sum, &part| sum.saturating_add(part));
    CommError::AllocationFailed {
        requested_bytes: count.saturating_mul(elem_size),
        message: format!("{count} elements of {elem_size} bytes are more than can be addressed"),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use comm_api::FailureKind;

    use super::*;
    use crate::ShmConfig;
    use crate::layout::sequence as place;
    use crate::segment::Segment;
    use crate::wait::WaitPolicy;

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

    /// Takes the first step of a call with numbers that the words of the call do not show, as if
    /// two hashes were equal.
    fn collide(sequence: &Sequence, call: Call, numbers: [u64; 2]) -> Vec<[u64; 2]> {
        let mut turn = sequence.begin(call).expect("nothing has failed");
        exchange(&mut turn, numbers, true).expect("the words agree")
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
}
