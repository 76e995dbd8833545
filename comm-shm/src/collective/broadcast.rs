//! Broadcast: the root writes piece `k + 1` while the others read piece `k`.

use comm_api::CommError;
use comm_kit::Call;

use super::{cut, keep_for, one_copy, piece_len};
use crate::layout::INLINE;
use crate::step::Sequence;

/// The most bytes of one step: the second half of what the root writes waits in its cache.
const PIECE: usize = 256 * 1024;

#[inline]
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

    if one_copy::broadcasts(&turn, buf.len()) && one_copy::broadcast(&mut turn, buf, root)? {
        return Ok(());
    }

    let keep = keep_for(buf.len());
    let piece = piece_len(buf.len(), PIECE.min(turn.slot_bytes()));
    let pieces = buf.len().div_ceil(piece);
    for k in 0..pieces {
        let range = cut(buf.len(), piece, k);
        let part = &mut buf[range];
        if is_root {
            turn.put(0, part);
        }
        turn.publish();
        turn.meet_before(k + 1 < pieces)?;
        if !is_root {
            turn.take(root, 0, part, keep);
        }
        if k + 1 < pieces {
            turn.advance();
        }
    }
    Ok(())
}
