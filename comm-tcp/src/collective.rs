//! The collectives: an entry round in which all agree, then the bytes.
//!
//! | ranks | small | large |
//! |---|---|---|
//! | 2 | both send header and bytes at once ([`pair`]) | headers, then bytes both ways at once |
//! | more | through rank 0 ([`star`]) | after rank 0 has seen all, along the ring ([`gather`], [`chain`], [`fold`]), or without one through rank 0 ([`relay`]) |

mod blocks;
mod chain;
mod eager;
mod entry;
mod fold;
mod gather;
#[cfg(test)]
mod model;
mod pair;
mod relay;
mod ring;
mod run;
mod star;

pub(crate) use blocks::Blocks;
pub(crate) use entry::read_entry;
pub(crate) use run::Failure;
