//! The collectives, one file each, as methods of the [`Engine`](crate::engine::Engine).
//!
//! Every call begins with an entry round, in which all ranks learn whether all made the same call.
//! How its bytes travel is decided once, by [`Algorithm`]:
//!
//! | ranks | small: with the entry round | large: after it |
//! |---|---|---|
//! | 2 | each to the other | each to the other, both ways at once |
//! | more | through rank 0 | along the ring; where there is none as what is small, in pieces |

mod allgatherv;
mod allreduce;
mod barrier;
mod broadcast;
mod refuse;
mod way;

use crate::notice::Cause;

pub(crate) use allgatherv::ByteBlocks;
pub use way::Hosts;
#[cfg(test)]
pub(crate) use way::Outgoing;
pub(crate) use way::{Algorithm, Incoming, Load, ring};

/// Why a call did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// For good.
    Fatal(Cause),
    /// A rank refused its arguments; the next call may succeed.
    Refused { rank: usize, reason: String },
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Self {
        Self::Fatal(cause)
    }
}
