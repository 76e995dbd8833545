//! The collectives, on checked bytes, once all ranks have entered the call.

mod allgatherv;
mod allreduce;
mod broadcast;
mod ordered;

pub(crate) use allgatherv::ByteBlocks;
