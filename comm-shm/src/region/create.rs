//! Creating a region: one call of three steps, after which all ranks have the region or none.
//!
//! | step | a rank contributes | so that |
//! |---|---|---|
//! | 1 | its call, the exact size of an element and the length of its part | all ranks agree, and know all parts |
//! | 2 | rank 0 only: a range of the file for which there is room, or how much memory there is | all ranks use the same range |
//! | 3 | whether it could reserve its own part and map the range | either all ranks return the region or none |
//!
//! Each rank reserves the part that it owns, so that the system takes the pages from the memory next to its
//! processor, and all ranks do so concurrently. Rank 0 also reserves the lines, and everything that no rank
//! of this machine owns. No rank accesses an element before the third step was met, so no page is accessed
//! before it is reserved. If a rank could not reserve its part, rank 0 returns the whole range after that
//! step, when no rank reserves any longer.
//!
//! The communicator of a split takes the same steps.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use comm_api::{CommData, CommError};
use comm_kit::words::too_large;
use comm_kit::{Call, Origin, Parts, Phases};

use super::{Memory, ShmRegion};
use crate::protocol::board::Board;
use crate::protocol::line::Line;
use crate::protocol::step::{Sequence, Turn};
use crate::segment::layout::{Layout, PAGE, SPLIT_SLOT_BYTES};
use crate::segment::mapping::Mapping;
use crate::segment::ranges::Range as FileRange;
use crate::segment::room::NoRoom;

/// Creates a region of `count` elements that rank 0 owns.
#[track_caller]
pub(crate) fn shared<T: CommData>(
    sequence: &Sequence,
    count: usize,
) -> Result<ShmRegion<T>, CommError> {
    let call = Call::shared_region(count, size_of::<T>());
    let mut turn = sequence.begin(call)?;
    let asked = contribute(&mut turn, [size_of::<T>() as u64, count as u64], true)?;
    if let Some(rank) = asked.iter().position(|other| *other != asked[0]) {
        return Err(turn.exit().differs(rank));
    }
    let mut parts = vec![0; sequence.size()];
    parts[0] = count;
    region(turn, sequence, parts, Phases::new())
}

/// Creates a region of which this rank owns `local_count` elements.
#[track_caller]
pub(crate) fn partitioned<T: CommData>(
    sequence: &Sequence,
    local_count: usize,
) -> Result<ShmRegion<T>, CommError> {
    let call = Call::partitioned_region(size_of::<T>());
    let (turn, parts) = agree_on_parts::<T>(sequence, call, local_count)?;
    region(turn, sequence, parts, Phases::new())
}

/// Creates a region of which this rank owns `local_count` elements, and whose write phase ends with an exchange.
#[track_caller]
pub(crate) fn gathered<T: CommData>(
    sequence: &Sequence,
    local_count: usize,
) -> Result<ShmRegion<T>, CommError> {
    let call = Call::gathered_region(size_of::<T>());
    let (turn, parts) = agree_on_parts::<T>(sequence, call, local_count)?;
    let origin = Origin {
        communicator: sequence.gate().id(),
        number: turn.step(),
    };
    region(turn, sequence, parts, Phases::gathered(origin))
}

/// Creates the region of one node for a job that has other nodes too: `len` elements, of which this rank owns
/// `own`.
#[track_caller]
pub(crate) fn of_a_job<T: CommData>(
    sequence: &Sequence,
    len: usize,
    own: Range<usize>,
    origin: Origin,
) -> Result<ShmRegion<T>, CommError> {
    let mut turn = sequence.begin(Call::gathered_region(size_of::<T>()))?;
    let numbers = [size_of::<T>(), len, own.start, own.end].map(|number| number as u64);
    let asked = contribute(&mut turn, numbers, true)?;
    if let Some(rank) = asked.iter().position(|other| other[..2] != asked[0][..2]) {
        return Err(turn.exit().differs(rank));
    }
    // All ranks see the same ranges, so either all of them find an overlap or none.
    let mut ranges: Vec<(u64, u64, usize)> = (0..)
        .zip(&asked)
        .map(|(rank, &[_, _, start, end])| (start, end, rank))
        .filter(|&(start, end, _)| start != end)
        .collect();
    ranges.sort_unstable();
    let mut free = 0;
    // Elements that no rank of this node owns are brought, and therefore reserved, by rank 0.
    let mut gaps = Vec::new();
    let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    for (start, end, rank) in ranges {
        if start < free || end < start || end > asked[0][1] {
            return Err(turn.exit().differs(rank));
        }
        gaps.push(index(free)..index(start));
        free = end;
    }
    gaps.push(index(free)..len);
    let reserved = if turn.rank() == 0 { gaps } else { Vec::new() };
    region_in_parts(turn, sequence, len, own, reserved, Phases::gathered(origin))
}

/// Takes the first step of a call in which each rank passes its own length.
#[track_caller]
fn agree_on_parts<T: CommData>(
    sequence: &Sequence,
    call: Call,
    local_count: usize,
) -> Result<(Turn<'_>, Vec<usize>), CommError> {
    let mut turn = sequence.begin(call)?;
    let asked = contribute(&mut turn, [size_of::<T>() as u64, local_count as u64], true)?;
    if let Some(rank) = asked.iter().position(|[size, _]| *size != asked[0][0]) {
        return Err(turn.exit().differs(rank));
    }
    let parts = asked
        .into_iter()
        .map(|[_, part]| usize::try_from(part).unwrap_or(usize::MAX))
        .collect();
    Ok((turn, parts))
}

/// Creates the board of a split.
#[track_caller]
pub(crate) fn split(sequence: &Sequence) -> Result<(FileRange, Board), CommError> {
    let mut turn = sequence.begin(Call::split_local())?;
    turn.publish();
    turn.meet_before(true)?;
    let layout = Layout::new(sequence.size(), SPLIT_SLOT_BYTES);
    let bytes = layout.bytes();
    let reservation = Reservation {
        bytes,
        head: layout.payload(),
        own: vec![layout.own(sequence.rank())],
        requested_bytes: bytes,
    };
    let (range, map) = map_range(turn, &reservation, |file, offset| {
        Mapping::of(file, offset, bytes)
    })?;
    let segment = Arc::clone(sequence.board().segment());
    Ok((range, Board::new(segment, Arc::new(map), 0, layout)))
}

/// Takes the steps after the first: rank `r` owns `parts[r]` elements.
fn region<T: CommData>(
    turn: Turn<'_>,
    sequence: &Sequence,
    parts: Vec<usize>,
    phases: Phases,
) -> Result<ShmRegion<T>, CommError> {
    // All ranks have the same parts, so either all of them stop here or none.
    let parts = Parts::new(parts, size_of::<T>())?;
    region_in_parts(
        turn,
        sequence,
        parts.len(),
        parts.range(sequence.rank()),
        Vec::new(),
        phases,
    )
}

/// Takes the steps after the first: this rank owns `own` of the `len` elements, which all ranks agree on, and
/// reserves `others`, which no rank owns.
fn region_in_parts<T: CommData>(
    turn: Turn<'_>,
    sequence: &Sequence,
    len: usize,
    own: Range<usize>,
    others: Vec<Range<usize>>,
    phases: Phases,
) -> Result<ShmRegion<T>, CommError> {
    let layout = Layout::new(sequence.size(), 0);
    let requested_bytes = len.saturating_mul(size_of::<T>());
    // The elements lie behind the lines, so that one mapping holds both.
    let elements = layout.payload_for(align_of::<T>());
    let bytes = requested_bytes
        .checked_add(elements)
        .and_then(|bytes| bytes.checked_next_multiple_of(PAGE))
        .filter(|bytes| isize::try_from(*bytes).is_ok());
    let Some(bytes) = bytes else {
        return Err(too_large(len, size_of::<T>()));
    };

    // Cannot overflow: all elements lie within the range.
    let at = |element: usize| elements + element * size_of::<T>();
    let parts = others.into_iter().chain([own.clone()]);
    let reservation = Reservation {
        bytes,
        head: elements,
        own: parts.map(|part| at(part.start)..at(part.end)).collect(),
        requested_bytes,
    };
    let (range, map) = map_range(turn, &reservation, |file, offset| {
        Mapping::aligned(file, offset, bytes, elements, align_of::<T>())
    })?;
    let segment = Arc::clone(sequence.board().segment());
    let map = Arc::new(map);
    let board = Board::new(segment, Arc::clone(&map), 0, layout);
    Ok(ShmRegion {
        memory: Memory::new(map, elements, len, own, phases),
        sequence: Sequence::of_region(board, sequence.rank(), sequence.policy()),
        range,
    })
}

/// What to reserve, and on which rank.
struct Reservation {
    /// The bytes of the whole range.
    bytes: usize,
    /// The bytes in front, which rank 0 reserves.
    head: usize,
    /// The bytes that this rank reserves. The head and the own parts of all ranks cover the range, except for
    /// the end of its last page.
    own: Vec<Range<usize>>,
    /// What the program asked for.
    requested_bytes: usize,
}

/// Why a rank cannot take the third step.
enum Unable {
    Room(NoRoom),
    Map(io::Error),
}

impl Unable {
    /// The first word of a rank that could not map the range; that of a [`NoRoom`] is smaller.
    const MAP: u64 = u64::MAX;

    /// Returns what the other ranks read; 0 is success.
    fn words(&self) -> [u64; 3] {
        match self {
            Self::Room(reason) => reason.words(),
            Self::Map(_) => [Self::MAP, 0, 0],
        }
    }
}

/// Takes the second and the third step: rank 0 finds a range, each rank reserves its own part of it, and all
/// ranks `map` it.
///
/// # Errors
///
/// `AllocationFailed` on all ranks or none.
fn map_range<M>(
    mut turn: Turn<'_>,
    reservation: &Reservation,
    map: impl FnOnce(&File, u64) -> io::Result<M>,
) -> Result<(FileRange, M), CommError> {
    let segment = turn.board().segment();
    let requested_bytes = reservation.requested_bytes;
    let bytes = reservation.bytes as u64;
    turn.advance();
    if turn.rank() == 0 {
        let words = match segment.extend(bytes, reservation.head as u64) {
            Ok(FileRange { offset, .. }) => [0, offset, 0],
            Err(reason) => reason.words(),
        };
        turn.own_line().put_words(words);
    }
    turn.publish();
    turn.meet_before(true)?;
    let offer = turn.line(0).words();
    let [0, offset, _] = offer else {
        return Err(NoRoom::from_words(offer).error(requested_bytes));
    };
    let range = FileRange { offset, bytes };

    turn.advance();
    let reserve = || {
        let mut own = reservation.own.iter();
        own.try_for_each(|part| segment.reserve(range, part).map_err(Unable::Room))
    };
    let mapped = segment
        .check(range)
        .map_err(Unable::Map)
        .and_then(|()| reserve())
        .and_then(|()| map(segment.file(), offset).map_err(Unable::Map));
    let words = mapped.as_ref().map_or_else(Unable::words, |_| [0; 3]);
    let reports = contribute(&mut turn, words, false)?;
    let failed = reports.iter().position(|report| report[0] != 0);
    let (mapped, failed) = match (mapped, failed) {
        (Ok(map), None) => return Ok((range, map)),
        (mapped, failed) => (mapped.err(), failed.unwrap_or(turn.rank())),
    };
    if turn.rank() == 0 {
        segment.withdraw(range);
    }
    if reports[failed][0] != Unable::MAP {
        let reason = NoRoom::from_words(reports[failed]).message(failed);
        return Err(CommError::allocation_failed(
            requested_bytes,
            format!("rank {failed} cannot reserve its part: {reason}"),
        ));
    }
    let reason = match mapped {
        Some(Unable::Map(error)) => format!(": {error}"),
        _ => String::new(),
    };
    Err(CommError::allocation_failed(
        requested_bytes,
        format!(
            "rank {failed} could not map it{reason}; check the limits of that rank (ulimit -v, \
             vm.max_map_count)"
        ),
    ))
}

/// Takes one step in which every rank contributes numbers; the call has `more` steps to come.
fn contribute<const N: usize>(
    turn: &mut Turn<'_>,
    numbers: [u64; N],
    more: bool,
) -> Result<Vec<[u64; N]>, CommError> {
    turn.own_line().put_words(numbers);
    turn.publish();
    turn.meet_before(more)?;
    Ok(turn.lines().iter().map(Line::words).collect())
}

#[cfg(test)]
mod tests;
