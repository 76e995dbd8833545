//! Ranges of the segment's file: handed out by the leader, mapped by all ranks or none.

use std::fs::File;
use std::io;

use comm_api::CommError;

use crate::board::Board;
use crate::layout::PAGE;
use crate::room::{self, Short};
use crate::step::Turn;
use crate::sync::Ordering;

/// A range of the file, reserved until the last rank gives it up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    offset: u64,
    bytes: u64,
}

impl Range {
    /// Reserves `bytes` in two more steps of a call whose last one was met: the leader offers a
    /// range or tells why not, then all tell whether they could map it.
    ///
    /// # Errors
    ///
    /// `AllocationFailed`, for `asked` bytes, on all ranks or none.
    pub(crate) fn agree<M>(
        mut turn: Turn<'_>,
        bytes: usize,
        asked: usize,
        map: impl FnOnce(&File, u64) -> io::Result<M>,
    ) -> Result<(Self, M), CommError> {
        let segment = turn.board().segment();
        let bytes = bytes as u64;
        turn.advance();
        let line = turn.own_line();
        if turn.rank() == 0 {
            let (offset, available) = match segment.extend(bytes) {
                Ok(offset) => (offset, 0),
                // No range begins at 0, where the header is.
                Err(Short { available, .. }) => (0, available),
            };
            line.inline[0].store(offset, Ordering::Relaxed);
            line.inline[1].store(available, Ordering::Relaxed);
        }
        turn.publish();
        turn.meet_before(true)?;
        let offer = &turn.line(0).inline;
        let offset = offer[0].load(Ordering::Relaxed);
        let available = offer[1].load(Ordering::Relaxed);
        if offset == 0 {
            let needed = bytes;
            return Err(Short { needed, available }.error(asked));
        }
        let range = Self { offset, bytes };

        turn.advance();
        let mapped = range
            .check(segment.file(), segment.end())
            .and_then(|()| map(segment.file(), offset));
        let failures = exchange(&mut turn, mapped.is_err().into(), false)?;
        let failed = failures.iter().position(|&failed| failed != 0);
        match (mapped, failed) {
            (Ok(map), None) => Ok((range, map)),
            (mapped, failed) => {
                if turn.rank() == 0 {
                    room::release(segment.file(), offset, bytes);
                }
                let reason = mapped
                    .err()
                    .map_or(String::new(), |error| format!(": {error}"));
                Err(CommError::AllocationFailed {
                    requested_bytes: asked,
                    message: format!(
                        "rank {} could not map it{reason}; look at its limits (ulimit -v, \
                         vm.max_map_count)",
                        failed.unwrap_or(turn.rank())
                    ),
                })
            }
        }
    }

    /// Checks an offer: what it says is believed only if the file agrees.
    fn check(self, file: &File, end: u64) -> io::Result<()> {
        let Self { offset, bytes } = self;
        let behind = offset >= end && offset % PAGE as u64 == 0;
        let end = offset.checked_add(bytes);
        let inside = end.is_some_and(|end| file.metadata().is_ok_and(|file| end <= file.len()));
        if behind && inside {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "{bytes} bytes at {offset} were not reserved"
            )))
        }
    }

    /// Gives up the range; the last rank gives its memory back.
    pub(crate) fn release(self, board: &Board) {
        let before = board.control().released.fetch_add(1, Ordering::AcqRel);
        if before as usize + 1 == board.size() {
            room::release(board.segment().file(), self.offset, self.bytes);
        }
    }
}

/// Takes one step in which every rank tells a number; whether there are `more` to come in the call.
pub(crate) fn exchange(
    turn: &mut Turn<'_>,
    number: u64,
    more: bool,
) -> Result<Vec<u64>, CommError> {
    turn.own_line().inline[0].store(number, Ordering::Relaxed);
    turn.publish();
    turn.meet_before(more)?;
    let numbers = (0..turn.size()).map(|rank| turn.line(rank).inline[0].load(Ordering::Relaxed));
    Ok(numbers.collect())
}

/// Refuses what no address space holds.
pub(crate) fn too_large(parts: &[usize], elem_size: usize) -> CommError {
    let count = parts
        .iter()
        .fold(0_usize, |sum, &part| sum.saturating_add(part));
    CommError::AllocationFailed {
        requested_bytes: count.saturating_mul(elem_size),
        message: format!("{count} elements of {elem_size} bytes are more than can be addressed"),
    }
}
