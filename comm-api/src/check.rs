//! The argument checks, in one place, so that every backend refuses the same call with the same
//! message.
//!
//! A backend makes those in bytes at the top of its byte-level methods, which the typed methods of
//! [`Communicator`](crate::Communicator) and all other callers call with unchecked arguments; after them
//! `displs[r] * elem_size + counts[r] * elem_size <= recv.len()` holds without overflow for every rank `r`. Lengths in errors
//! are those in elements. The checks in elements are for code that has no bytes.
//!
//! | call | refused with |
//! |---|---|
//! | `allgatherv`: `counts.len()`, then `displs.len()` is not the size | `InvalidBufferSize` of `counts`, `displs`, expected = size |
//! | `send.len()` is not `counts[rank]` | of `send`, expected = `counts[rank]` |
//! | a block ends past `recv`, an empty one included | of `recv`, expected = the length that all blocks need (saturating), actual = `recv.len()` |
//! | two blocks overlap | of `displs`, with the two ranks, expected = sum of the counts (saturating), actual = elements covered |
//! | `allreduce`: lengths differ | of `recv`, expected = `send.len()`, actual = `recv.len()` |
//! | a bitwise operation on floats | `UnsupportedReduction` |
//! | `broadcast`: `root` is not a rank | `InvalidRoot` |
//!
//! Blocks, reductions and broadcasts of no elements are fine.
//!
//! In bytes, a length that is no whole number of elements is refused too, with the nearest whole
//! length below as the expected one, both in bytes; zero-sized elements take no bytes.

use crate::blocks::Blocks;
use crate::error::{Argument, CommError};
use crate::op::{ReduceOp, ScalarKind};
use crate::operation::Operation;

/// Checks the arguments of `allgatherv`, lengths in elements.
///
/// # Errors
///
/// As the table of this module says; [`CommError::InvalidCommunicator`] if `rank` is not below
/// `size`.
#[inline]
pub fn allgatherv(
    rank: usize,
    size: usize,
    send_len: usize,
    recv_len: usize,
    counts: &[usize],
    displs: &[usize],
) -> Result<(), CommError> {
    lists(rank, size, counts, displs)?;
    blocks(rank, send_len, recv_len, counts, displs)
}

/// Checks the arguments of `allgatherv_bytes`.
///
/// # Errors
///
/// As [`allgatherv`], and for a buffer that is no whole number of elements.
#[inline]
pub fn allgatherv_bytes(
    rank: usize,
    size: usize,
    send: &[u8],
    recv: &[u8],
    from: Blocks<'_>,
    elem_size: usize,
) -> Result<(), CommError> {
    let Blocks { counts, displs } = from;
    lists(rank, size, counts, displs)?;
    let send_len = elements(Operation::Allgatherv, Argument::Send, send.len(), elem_size)?;
    let recv_len = elements(Operation::Allgatherv, Argument::Recv, recv.len(), elem_size)?;
    if elem_size == 0 {
        // How many zero-sized elements there are cannot be seen in bytes, nor does it matter.
        return Ok(());
    }
    blocks(rank, send_len, recv_len, counts, displs)
}

/// Checks the arguments of `allreduce`, lengths in elements.
///
/// # Errors
///
/// As the table of this module says.
#[inline]
pub fn allreduce(
    send_len: usize,
    recv_len: usize,
    scalar: ScalarKind,
    op: ReduceOp,
) -> Result<(), CommError> {
    length(Operation::Allreduce, Argument::Recv, send_len, recv_len)?;
    reduction(scalar, op)
}

/// Checks the arguments of `allreduce_bytes`.
///
/// # Errors
///
/// As [`allreduce`], and for a buffer that is no whole number of scalars.
#[inline]
pub fn allreduce_bytes(
    send: &[u8],
    recv: &[u8],
    scalar: ScalarKind,
    op: ReduceOp,
) -> Result<(), CommError> {
    if send.len() != recv.len() {
        return Err(lengths(send.len(), recv.len(), scalar));
    }
    reduction(scalar, op)?;
    elements(
        Operation::Allreduce,
        Argument::Send,
        send.len(),
        scalar.size(),
    )?;
    Ok(())
}

/// Returns the error of buffers that differ in length: in elements, in bytes where that is no number of elements.
#[cold]
fn lengths(send: usize, recv: usize, scalar: ScalarKind) -> CommError {
    let size = scalar.size();
    let is_whole = send.is_multiple_of(size) && recv.is_multiple_of(size);
    let unit = if is_whole { size } else { 1 };
    CommError::invalid_buffer_size(
        Operation::Allreduce,
        Argument::Recv,
        send / unit,
        recv / unit,
    )
}

/// Checks the arguments of `allreduce_in_place_bytes`.
///
/// # Errors
///
/// As [`allreduce_bytes`].
#[inline]
pub fn allreduce_in_place_bytes(
    buf: &[u8],
    scalar: ScalarKind,
    op: ReduceOp,
) -> Result<(), CommError> {
    reduction(scalar, op)?;
    elements(
        Operation::Allreduce,
        Argument::Buf,
        buf.len(),
        scalar.size(),
    )?;
    Ok(())
}

/// Checks the arguments of `broadcast`.
///
/// # Errors
///
/// [`CommError::InvalidRoot`] if `root` is not below `size`.
#[inline]
pub fn broadcast(size: usize, root: usize) -> Result<(), CommError> {
    if root < size {
        Ok(())
    } else {
        Err(CommError::invalid_root(Operation::Broadcast, root, size))
    }
}

/// Checks the arguments of `broadcast_bytes`.
///
/// # Errors
///
/// As [`broadcast`], and for a buffer that is no whole number of elements.
#[inline]
pub fn broadcast_bytes(
    size: usize,
    buf: &[u8],
    elem_size: usize,
    root: usize,
) -> Result<(), CommError> {
    broadcast(size, root)?;
    elements(Operation::Broadcast, Argument::Buf, buf.len(), elem_size)?;
    Ok(())
}

/// Passes on the result of a check; a refusal names the line of the call in the program.
///
/// For a communicator without other ranks to notify; the gate of `comm-kit` does both.
///
/// # Errors
///
/// The error of the check.
#[inline]
#[track_caller]
pub fn placed<T>(checked: Result<T, CommError>) -> Result<T, CommError> {
    match checked {
        Ok(value) => Ok(value),
        Err(error) => Err(error.here()),
    }
}

#[inline]
pub(crate) fn length(
    operation: Operation,
    argument: Argument,
    expected: usize,
    actual: usize,
) -> Result<(), CommError> {
    if expected == actual {
        Ok(())
    } else {
        Err(CommError::invalid_buffer_size(
            operation, argument, expected, actual,
        ))
    }
}

#[inline]
pub(crate) fn reduction(scalar: ScalarKind, op: ReduceOp) -> Result<(), CommError> {
    if op.supports(scalar) {
        Ok(())
    } else {
        Err(CommError::unsupported_reduction(
            Operation::Allreduce,
            op,
            scalar,
        ))
    }
}

/// Returns how many elements `bytes` holds: 0 where elements take no bytes.
#[inline]
pub(crate) fn elements(
    operation: Operation,
    argument: Argument,
    bytes: usize,
    elem_size: usize,
) -> Result<usize, CommError> {
    // Nearly all elements have a power of two as their size, and a division takes longer than everything else here.
    let whole = if elem_size.is_power_of_two() {
        bytes >> elem_size.trailing_zeros()
    } else {
        bytes.checked_div(elem_size).unwrap_or(0)
    };
    length(operation, argument, whole * elem_size, bytes)?;
    Ok(whole)
}

#[inline]
fn lists(rank: usize, size: usize, counts: &[usize], displs: &[usize]) -> Result<(), CommError> {
    length(Operation::Allgatherv, Argument::Counts, size, counts.len())?;
    length(Operation::Allgatherv, Argument::Displs, size, displs.len())?;
    if rank < size {
        Ok(())
    } else {
        Err(CommError::invalid_communicator())
    }
}

/// Checks the blocks, once the lists have one entry per rank and `rank` is one of them.
#[inline]
fn blocks(
    rank: usize,
    send_len: usize,
    recv_len: usize,
    counts: &[usize],
    displs: &[usize],
) -> Result<(), CommError> {
    length(
        Operation::Allgatherv,
        Argument::Send,
        counts[rank],
        send_len,
    )?;
    let mut reach = 0;
    let mut ascending = true;
    for (&count, &displ) in counts.iter().zip(displs) {
        match displ.checked_add(count) {
            Some(end) if end <= recv_len => {
                if count > 0 {
                    ascending &= displ >= reach;
                    reach = end;
                }
            }
            _ => {
                let needed = needed(counts, displs);
                return Err(CommError::invalid_buffer_size(
                    Operation::Allgatherv,
                    Argument::Recv,
                    needed,
                    recv_len,
                ));
            }
        }
    }
    if ascending {
        return Ok(());
    }
    match overlap(counts, displs) {
        Some(Overlap {
            ranks,
            sum,
            covered,
        }) => {
            let argument = Argument::Overlap(ranks.0, ranks.1);
            Err(CommError::invalid_buffer_size(
                Operation::Allgatherv,
                argument,
                sum,
                covered,
            ))
        }
        None => Ok(()),
    }
}

/// Returns the length that all blocks need.
#[cold]
fn needed(counts: &[usize], displs: &[usize]) -> usize {
    let blocks = counts.iter().zip(displs);
    let ends = blocks.map(|(&count, &displ)| displ.saturating_add(count));
    ends.max().unwrap_or(0)
}

/// What is wrong with blocks that overlap.
struct Overlap {
    /// The lower of two ranks, and the other.
    ranks: (usize, usize),
    /// All counts together.
    sum: usize,
    /// How many elements the blocks cover.
    covered: usize,
}

/// Looks for overlap among blocks in any order, none of which ends past the buffer, and names the first two ranks from the
/// beginning of the buffer on. An empty block overlaps nothing.
#[cold]
fn overlap(counts: &[usize], displs: &[usize]) -> Option<Overlap> {
    let mut blocks: Vec<(usize, usize, usize)> = counts
        .iter()
        .zip(displs)
        .enumerate()
        .filter(|&(_, (&count, _))| count > 0)
        .map(|(rank, (&count, &displ))| (displ, displ + count, rank))
        .collect();
    blocks.sort_unstable();
    let mut covered = 0;
    // The largest end of a block so far, and the rank of that block.
    let (mut reach, mut furthest) = (0, 0);
    let mut overlapping = None;
    for (start, end, rank) in blocks {
        if start < reach {
            overlapping.get_or_insert((furthest.min(rank), furthest.max(rank)));
        }
        covered += end.saturating_sub(start.max(reach));
        if end > reach {
            (reach, furthest) = (end, rank);
        }
    }
    let ranks = overlapping?;
    let sum = counts.iter().fold(0_usize, |sum, &n| sum.saturating_add(n));
    Some(Overlap {
        ranks,
        sum,
        covered,
    })
}
