//! The argument checks, in one place, so that every backend refuses the same call with the same
//! words.
//!
//! The typed methods of [`Communicator`](crate::Communicator) make the checks in elements. A
//! backend makes those in bytes at the top of its byte-level methods, which anybody may call
//! directly; after them `displs[r] * elem_size + counts[r] * elem_size <= recv.len()` holds
//! without overflow for every rank `r`.
//!
//! | call | refused with |
//! |---|---|
//! | `allgatherv`: `counts.len()`, then `displs.len()` is not the size | `InvalidBufferSize`, expected = size |
//! | `send.len()` is not `counts[rank]` | expected = `counts[rank]` |
//! | a block ends past `recv`, an empty one included | expected = the length that all blocks need (saturating), actual = `recv.len()` |
//! | two blocks overlap | expected = sum of the counts (saturating), actual = elements covered |
//! | `allreduce`: lengths differ | expected = `send.len()`, actual = `recv.len()` |
//! | a bitwise operation on floats | `UnsupportedReduction` |
//! | `broadcast`: `root` is not a rank | `InvalidRoot` |
//!
//! Blocks, reductions and broadcasts of no elements are fine.
//!
//! In bytes, a length that is no whole number of elements is refused too, with the nearest whole
//! length below as the expected one; zero-sized elements take no bytes.

use crate::error::CommError;
use crate::op::{ReduceOp, ScalarKind};

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
    counts: &[usize],
    displs: &[usize],
    elem_size: usize,
) -> Result<(), CommError> {
    lists(rank, size, counts, displs)?;
    let send_len = elements("allgatherv", send.len(), elem_size)?;
    let recv_len = elements("allgatherv", recv.len(), elem_size)?;
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
    length("allreduce", send_len, recv_len)?;
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
    allreduce(send.len(), recv.len(), scalar, op)?;
    elements("allreduce", send.len(), scalar.size())?;
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
        Err(CommError::InvalidRoot { root, size })
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
    elements("broadcast", buf.len(), elem_size)?;
    Ok(())
}

#[inline]
pub(crate) fn length(
    operation: &'static str,
    expected: usize,
    actual: usize,
) -> Result<(), CommError> {
    if expected == actual {
        Ok(())
    } else {
        Err(wrong_length(operation, expected, actual))
    }
}

/// Kept inline, so that the compiler sees which variant it is and drops the test for it.
#[inline]
pub(crate) fn wrong_length(operation: &'static str, expected: usize, actual: usize) -> CommError {
    CommError::InvalidBufferSize {
        operation,
        expected,
        actual,
    }
}

#[inline]
fn reduction(scalar: ScalarKind, op: ReduceOp) -> Result<(), CommError> {
    if op.supports(scalar) {
        Ok(())
    } else {
        Err(CommError::UnsupportedReduction { op, scalar })
    }
}

/// Returns how many elements `bytes` holds: 0 where elements take no bytes.
#[inline]
pub(crate) fn elements(
    operation: &'static str,
    bytes: usize,
    elem_size: usize,
) -> Result<usize, CommError> {
    // Nearly every element is a power of two wide, and a division takes longer than all else here.
    let whole = if elem_size.is_power_of_two() {
        bytes >> elem_size.trailing_zeros()
    } else {
        bytes.checked_div(elem_size).unwrap_or(0)
    };
    length(operation, whole * elem_size, bytes)?;
    Ok(whole)
}

#[inline]
fn lists(rank: usize, size: usize, counts: &[usize], displs: &[usize]) -> Result<(), CommError> {
    length("allgatherv", size, counts.len())?;
    length("allgatherv", size, displs.len())?;
    if rank < size {
        Ok(())
    } else {
        Err(CommError::InvalidCommunicator)
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
    length("allgatherv", counts[rank], send_len)?;
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
            _ => return Err(wrong_length("allgatherv", needed(counts, displs), recv_len)),
        }
    }
    if ascending {
        return Ok(());
    }
    match overlap(counts, displs) {
        Some((sum, covered)) => Err(wrong_length("allgatherv", sum, covered)),
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

/// Looks for overlap among blocks in any order, none of which ends past the buffer: the sum of the
/// counts and the elements covered if there is. An empty block overlaps nothing.
#[cold]
fn overlap(counts: &[usize], displs: &[usize]) -> Option<(usize, usize)> {
    let mut blocks: Vec<(usize, usize)> = counts
        .iter()
        .zip(displs)
        .filter(|&(&count, _)| count > 0)
        .map(|(&count, &displ)| (displ, displ + count))
        .collect();
    blocks.sort_unstable();
    let mut covered = 0;
    let mut reach = 0;
    let mut overlap = false;
    for (start, end) in blocks {
        overlap |= start < reach;
        covered += end.saturating_sub(start.max(reach));
        reach = reach.max(end);
    }
    let sum = counts.iter().fold(0_usize, |sum, &n| sum.saturating_add(n));
    overlap.then_some((sum, covered))
}
