//! This machine's place in a job on several machines.

use std::path::PathBuf;

/// How the ranks reach each other.
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
    /// Returns a short name for programs and logs; it never changes.
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
/// Every machine starts the same number of ranks. The ranks of machine `node` are numbered from
/// `node` times that number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// How many machines there are.
    pub nodes: usize,
    /// The number of this machine, below `nodes`. Rank 0 runs on machine 0.
    pub node: usize,
    /// The host of machine 0, as the other machines reach it, without a port.
    pub coordinator: String,
    /// The port at which rank 0 listens; rank 0 binds it itself.
    pub port: u16,
    /// The file with the secret, the same on every machine.
    pub secret_file: PathBuf,
}
