//! Wrong exchanges of gathered regions.

use std::sync::{Mutex, PoisonError};

use comm_api::{CommError, Communicator, FailureKind};

use comm_conformance::mutant::Mutation;
use comm_conformance::reference::Reference;

/// Shows what the middle rank wrote one exchange ago.
#[derive(Default)]
pub(crate) struct StalePart {
    before: Mutex<Vec<u8>>,
}

impl Mutation<Reference> for StalePart {
    fn before_exchange(&self, comm: &Reference, written: &mut [u8]) {
        if comm.rank() != comm.size() / 2 {
            return;
        }
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let now = written.to_vec();
        if before.len() == written.len() {
            written.copy_from_slice(&before);
        }
        *before = now;
    }
}

/// Allocates one element less than the last rank requested.
pub(crate) struct PartTooShort;

impl Mutation<Reference> for PartTooShort {
    fn gathered_count(&self, comm: &Reference, count: usize) -> usize {
        count - usize::from(comm.rank() + 1 == comm.size())
    }
}

/// Permits reading a region that was not exchanged.
pub(crate) struct ReadsEarly;

impl Mutation<Reference> for ReadsEarly {
    fn reads_early(&self) -> bool {
        true
    }
}

/// Does not compare which region the ranks exchange.
pub(crate) struct WrongRegion;

impl Mutation<Reference> for WrongRegion {
    fn exchanged(&self, result: Result<(), CommError>) -> Result<(), CommError> {
        match result {
            Err(CommError::CollectiveFailed {
                kind: FailureKind::Mismatch,
                ..
            }) => Ok(()),
            other => other,
        }
    }
}
