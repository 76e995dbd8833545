//! Large calls along the ring: a header in front, then a stream of bytes from neighbour to neighbour.

mod allgatherv;
mod allreduce;
mod broadcast;

pub(crate) use allgatherv::{Allgatherv, bytes_out, links_crossed};
pub(crate) use allreduce::{Allreduce, Own};
pub(crate) use broadcast::Broadcast;
