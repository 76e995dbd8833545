//! The collectives, on bytes that were checked and by ranks that are all there.

mod allgatherv;
mod allreduce;
mod broadcast;
mod ordered;

pub(crate) use allgatherv::ByteBlocks;
