//! Copying once: whether what was read from another rank's own memory counts.
//!
//! A rank lends its buffer for as long as it is inside the call. It may leave early: its patience ends, it is interrupted, it
//! panics, somebody else fails. Then its caller may write the buffer while another rank reads it.
//!
//! - **C1** Whoever leaves a call early has written why (the cause, or that it left), or has read the cause, and fences before
//!   its caller gets the buffer back.
//! - **C2** Whoever has read a buffer fences, then looks for a cause and for those who left. If there is none, the
//!   buffer was still lent when it was read: had it seen a byte that was written later, it would see the cause too.

use super::Turn;
use crate::protocol::route::Ways;
use crate::protocol::sync::{Ordering, reader_fence};

impl Turn<'_> {
    /// Returns whether large payloads are read from the memory of their owners; all ranks agree.
    #[inline]
    pub(crate) fn copies_once(&self) -> bool {
        self.pass.one_copy
    }

    /// Returns what is known of the ways that payloads can take.
    pub(crate) fn ways(&mut self) -> &mut Ways {
        &mut self.pass.ways
    }

    /// Goes without that from here on: a rank could not read, and all ranks know.
    #[cold]
    pub(crate) fn copy_twice(&mut self) {
        self.pass.one_copy = false;
        let rank = self.rank();
        // The first message of this communicator, and the last: what failed once is not tried again.
        tracing::info!(
            rank,
            "a rank could not read another one's memory; payloads are copied twice from here on"
        );
    }

    /// Returns whether no rank has left the call early (C2): what was read from them before counts.
    pub(crate) fn all_are_inside(&self) -> bool {
        reader_fence(Ordering::SeqCst);
        let board = self.board();
        let left = |rank: usize| board.standing(rank).left.load(Ordering::Acquire) != 0;
        board.cause().is_none() && !(0..self.size()).any(left)
    }
}
