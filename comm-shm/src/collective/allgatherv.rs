//! Allgatherv: every rank writes its piece, then copies those of all others.

use comm_api::CommError;
use comm_kit::Call;

use super::one_copy::{self, Blocks};
use super::trial::Trial;
use super::{cut, keep_for, piece_len};
use crate::layout::INLINE;
use crate::slot::copy_slice;
use crate::step::Sequence;
use crate::step::ways::{Kind, Way};

/// The arguments were checked: every block lies within `recv`, without overflow.
#[inline]
pub(crate) fn allgatherv(
    sequence: &Sequence,
    send: &[u8],
    recv: &mut [u8],
    counts: &[usize],
    displs: &[usize],
    elem_size: usize,
) -> Result<(), CommError> {
    let rank = sequence.rank();
    let call = Call::allgatherv(counts, elem_size);
    let mut turn = sequence.begin(call)?;
    let length = |rank: usize| counts[rank].saturating_mul(elem_size);
    let start = |rank: usize| displs[rank].saturating_mul(elem_size);
    let longest = (0..counts.len()).map(length).max().unwrap_or(0);

    if longest <= INLINE {
        turn.own_line().put(send);
        turn.publish();
        turn.meet()?;
        for (other, line) in turn.lines().iter().enumerate() {
            let block = &mut recv[start(other)..][..length(other)];
            line.take(block);
        }
        return Ok(());
    }

    let keep = keep_for(recv.len());
    let way = one_copy::way_of_gathering(&mut turn, longest);
    let mut trial = Trial::begin(&turn, Kind::Gathering, longest, way);
    if way == Way::Read {
        let blocks = Blocks {
            send,
            length,
            start,
            keep,
        };
        if blocks.read(&mut turn, recv, &mut trial)? {
            return Ok(());
        }
    }

    let piece = piece_len(longest, turn.slot_bytes());
    let pieces = longest.div_ceil(piece);
    for k in 0..pieces {
        let own = cut(send.len(), piece, k);
        turn.put(0, &send[own.clone()]);
        trial.publish(&mut turn);
        // The own piece is in the caches now, and the others are not there yet.
        copy_slice(&send[own.clone()], &mut recv[start(rank)..][own], keep);
        let more = k + 1 < pieces;
        trial.meet(&mut turn, more)?;
        for other in (0..counts.len()).filter(|&other| other != rank) {
            let part = cut(length(other), piece, k);
            turn.take(other, 0, &mut recv[start(other)..][part], keep);
        }
        if more {
            turn.advance();
        }
    }
    trial.end(&mut turn);
    Ok(())
}
