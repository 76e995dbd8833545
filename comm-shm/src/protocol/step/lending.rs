//! Direct reads: whether data that was read from another rank's memory is valid.
//!
//! A rank lends its buffer for as long as it is inside the call. It may leave early: its timeout expires, it
//! is interrupted, it panics, or another rank fails. Its caller may then write the buffer while another rank
//! reads it.
//!
//! - **C1** A rank that leaves a call early has recorded why (the cause, or that it left), or has read the
//!   cause, and executes a fence before its caller gets the buffer back.
//! - **C2** A rank that has read a buffer executes a fence, then checks for a cause and for ranks that left.
//!   If there is none, the buffer was still lent when it was read: had the rank seen a byte that was written
//!   later, it would see the cause too.

use crate::protocol::board::Board;
use crate::protocol::sync::{Ordering, reader_fence};

/// Returns whether no rank has left the call early (C2): data read from other ranks before is then valid.
pub(crate) fn all_are_inside(board: &Board) -> bool {
    reader_fence(Ordering::SeqCst);
    let left = |rank: usize| board.standing(rank).left.load(Ordering::Acquire) != 0;
    board.cause().is_none() && !(0..board.size()).any(left)
}
