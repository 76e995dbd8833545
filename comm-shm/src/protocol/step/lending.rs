//! Copying once: whether what was read from another rank's own memory counts.
//!
//! A rank lends its buffer for as long as it is inside the call. It may leave early: its patience ends, it is interrupted, it
//! panics, somebody else fails. Then its caller may write the buffer while another rank reads it.
//!
//! - **C1** Whoever leaves a call early has written why (the cause, or that it left), or has read the cause, and fences before
//!   its caller gets the buffer back.
//! - **C2** Whoever has read a buffer fences, then looks for a cause and for those who left. If there is none, the
//!   buffer was still lent when it was read: had it seen a byte that was written later, it would see the cause too.

use crate::protocol::board::Board;
use crate::protocol::sync::{Ordering, reader_fence};

/// Returns whether no rank has left the call early (C2): what was read from them before counts.
pub(crate) fn all_are_inside(board: &Board) -> bool {
    reader_fence(Ordering::SeqCst);
    let left = |rank: usize| board.standing(rank).left.load(Ordering::Acquire) != 0;
    board.cause().is_none() && !(0..board.size()).any(left)
}
