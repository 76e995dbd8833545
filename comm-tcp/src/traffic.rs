//! Which path calls take and how much large ones put on the links: for the test that checks the figures of
//! the documentation. Not part of the interface.

use crate::collective::{Algorithm, ByteBlocks, Load, ring};

pub use crate::collective::Hosts;
pub use crate::frame::HEADER;

/// Returns whether the bytes of an allgatherv of these counts, in bytes, are sent along the ring if there is
/// one and every rank has its own machine.
#[must_use]
pub fn goes_along_the_ring(counts: &[usize]) -> bool {
    let load = Load::Gathered(counts.iter().sum());
    Algorithm::of(load, counts.len(), Hosts::Several, true) == Algorithm::Ring
}

/// Returns how many bytes `rank` sends along the ring in an allgatherv.
#[must_use]
pub fn sent_along_the_ring(counts: &[usize], displs: &[usize], rank: usize) -> usize {
    ring::bytes_out(blocks(counts, displs), rank)
}

/// Returns over how many links of the ring a block is sent.
#[must_use]
pub fn links_crossed(ranks: usize) -> usize {
    ring::links_crossed(ranks)
}

/// Returns how many bytes of an allgatherv without a ring pass through rank 0 in one piece.
#[must_use]
pub fn piece(ranks: usize) -> usize {
    Algorithm::piece(Load::Gathered(usize::MAX), ranks, 1)
}

/// Returns the size of the largest calls whose payload is sent with the entry round: of an allreduce, of an
/// allgatherv and of a broadcast.
#[must_use]
pub fn small_up_to(ranks: usize, hosts: Hosts) -> [usize; 3] {
    let loads = [Load::Folded(8), Load::Gathered(8), Load::Copied(8)];
    loads.map(|load| Algorithm::limit(load, ranks, hosts))
}

fn blocks<'a>(counts: &'a [usize], displs: &'a [usize]) -> ByteBlocks<'a> {
    ByteBlocks {
        counts,
        displs,
        elem_size: 1,
    }
}
