//! Broadcast: the root writes piece `k + 1` while the others read piece `k`.

use comm_api::CommError;
use comm_kit::Call;

use super::trial::Trial;
use super::{cut, keep_for, one_copy, piece_len};
use crate::protocol::line::INLINE;
use crate::protocol::route::{LargeCall, Route};
use crate::protocol::slot::{MetSlots, OwnSlot};
use crate::protocol::step::Sequence;

/// The maximum number of bytes of one step: the second half of what the root writes stays in its cache.
const PIECE: usize = 256 * 1024;

#[inline]
#[track_caller]
pub(crate) fn broadcast(
    sequence: &Sequence,
    buf: &mut [u8],
    elem_size: usize,
    root: usize,
) -> Result<(), CommError> {
    let is_root = sequence.rank() == root;
    let call = Call::broadcast(buf.len(), elem_size, root);
    let mut turn = sequence.begin(call)?;
    if buf.len() <= INLINE {
        if is_root {
            turn.own_line().put(buf);
        }
        turn.publish();
        turn.meet()?;
        if !is_root {
            turn.line(root).take(buf);
        }
        return Ok(());
    }

    let route = one_copy::route_of(&mut turn, LargeCall::Broadcast, buf.len());
    let mut trial = Trial::begin(&turn, LargeCall::Broadcast, buf.len(), route);
    if route == Route::Read && one_copy::broadcast(&mut turn, buf, root, &mut trial)? {
        return Ok(());
    }

    let keep = keep_for(buf.len());
    let piece = piece_len(buf.len(), PIECE.min(turn.board().slot_bytes()));
    let pieces = buf.len().div_ceil(piece);
    for k in 0..pieces {
        let range = cut(buf.len(), piece, k);
        let part = &mut buf[range];
        if is_root {
            OwnSlot::of(&mut turn).put(0, part);
        }
        trial.publish(&mut turn);
        let more = k + 1 < pieces;
        trial.meet(&mut turn, more)?;
        if !is_root {
            MetSlots::of(&turn).take(root, 0, part, keep);
        }
        if more {
            turn.advance();
        }
    }
    trial.end(&mut turn);
    Ok(())
}
