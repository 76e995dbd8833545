//! The collectives, on any sequence of steps in mapped memory.
//!
//! | payload of a rank | travels |
//! |---|---|
//! | up to 40 bytes | in its line, one step |
//! | up to a slot | in its slot, one step |
//! | more | in pieces through its two slots, one step each |
//!
//! Which one it is, and the number of steps, follow from the arguments all ranks agree on.

use crate::board::Line;
use crate::slot::Keep;
use crate::sync::Ordering;

mod allgatherv;
mod allreduce;
mod barrier;
mod broadcast;

pub(crate) use allgatherv::allgatherv;
pub(crate) use allreduce::allreduce;
pub(crate) use barrier::barrier;
pub(crate) use broadcast::broadcast;

/// From how many bytes on a result is written around the caches: it would push out everything
/// else, the slots included, before anybody reads it.
const STREAM: usize = 8 * 1024 * 1024;

fn keep(bytes: usize) -> Keep {
    if bytes >= STREAM {
        Keep::Streamed
    } else {
        Keep::Cached
    }
}

/// Cuts `len` bytes into pieces of at most `most`, a multiple of 64, as equal as cache lines allow.
fn piece(len: usize, most: usize) -> usize {
    let pieces = len.div_ceil(most).max(1);
    len.div_ceil(pieces).next_multiple_of(64).min(most)
}

/// Gives the range of piece `k` of `len` bytes; empty behind the end.
fn cut(len: usize, piece: usize, k: usize) -> std::ops::Range<usize> {
    let start = piece.saturating_mul(k).min(len);
    start..(start + piece).min(len)
}

/// Writes a small payload into a line.
#[inline]
fn put_inline(line: &Line, bytes: &[u8]) {
    for (word, chunk) in line.inline.iter().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
    }
}

/// Reads a small payload from a line.
#[inline]
fn take_inline(line: &Line, bytes: &mut [u8]) {
    for (word, chunk) in line.inline.iter().zip(bytes.chunks_mut(8)) {
        let whole = word.load(Ordering::Relaxed).to_ne_bytes();
        chunk.copy_from_slice(&whole[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        for len in [0, 1, 63, 64, 65, 1000, 65_536, 1_000_001] {
            for most in [64, 128, 4096, 65_536] {
                let piece = piece(len, most);
                assert!(
                    piece <= most && (piece > 0 || len == 0),
                    "{len} {most} {piece}"
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

    #[test]
    fn small_payloads_of_every_length() {
        let line = Line::default();
        let bytes: Vec<u8> = (1..=40).collect();
        for len in 0..=bytes.len() {
            put_inline(&line, &bytes[..len]);
            let mut found = vec![0; len];
            take_inline(&line, &mut found);
            assert_eq!(found, bytes[..len]);
        }
    }
}
