//! This machine's place in a job that several machines share.

use std::path::PathBuf;

/// A way for the ranks to reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Backend {
    /// Shared memory, on one machine.
    #[default]
    Shm,
    /// Sockets, on one machine or several.
    Tcp,
}

impl Backend {
    /// Returns a short name that programs and logs may rely on: it never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }
}

/// The place of this machine in a job on several machines, and where its ranks meet.
///
/// Every machine starts as many ranks as the others. Those of machine `node` are numbered from
/// `node` times that number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// How many machines there are.
    pub nodes: usize,
    /// Which one this is, below `nodes`. Rank 0 runs on machine 0.
    pub node: usize,
    /// The host of machine 0 as the others reach it, without a port.
    pub coordinator: String,
    /// The port at which rank 0 listens; it binds it itself.
    pub port: u16,
    /// The file with the secret, which is the same on every machine.
    pub secret_file: PathBuf,
}
