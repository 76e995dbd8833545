//! The collectives, on any sequence of steps in mapped memory.
//!
//! | payload of a rank | transport |
//! |---|---|
//! | up to 40 bytes | in its line, one step |
//! | up to a slot | in its slot, one step |
//! | more | in pieces through its two slots, one step each |
//! | large | read directly from the memory of its rank, where the system permits that ([`one_copy`]) |
//!
//! The choice and the number of steps follow from the arguments that all ranks agree on.

use crate::protocol::slot::Keep;

mod allgatherv;
mod allreduce;
mod barrier;
mod broadcast;
mod one_copy;
mod reading;
mod trial;

pub(crate) use allgatherv::allgatherv;
pub(crate) use allreduce::allreduce;
pub(crate) use barrier::barrier;
pub(crate) use broadcast::broadcast;

/// From how many bytes on a result is written around the caches. Otherwise it would evict everything else,
/// including the slots, before it is read.
const STREAM: usize = 8 * 1024 * 1024;

/// Returns how a result of `len` bytes is written.
fn keep_for(len: usize) -> Keep {
    if len >= STREAM {
        Keep::Streamed
    } else {
        Keep::Cached
    }
}

/// Returns the bytes of a piece if `len` bytes are cut into pieces of at most `longest`, a multiple of
/// 64, as equal as cache lines allow.
fn piece_len(len: usize, longest: usize) -> usize {
    let pieces = len.div_ceil(longest).max(1);
    len.div_ceil(pieces).next_multiple_of(64).min(longest)
}

/// Returns the range of piece `k` of `len` bytes; empty behind the end.
fn cut(len: usize, piece: usize, k: usize) -> std::ops::Range<usize> {
    let start = piece.saturating_mul(k).min(len);
    start..(start + piece).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        for len in [0, 1, 63, 64, 65, 1000, 65_536, 1_000_001] {
            for longest in [64, 128, 4096, 65_536] {
                let piece = piece_len(len, longest);
                assert!(
                    piece <= longest && (piece > 0 || len == 0),
                    "{len} {longest} {piece}"
                );
                let mut end = 0;
                for k in 0..len.div_ceil(piece.max(1)) {
                    let cut = cut(len, piece, k);
                    assert_eq!(cut.start, end);
                    end = cut.end;
                }
                assert_eq!(end, len);
                assert_eq!(cut(len, piece.max(1), 1 + len), len..len);
            }
        }
    }
}
