//! What a backend that communicates some other way uses of this one: memory shared by the ranks
//! of a node.
//!
//! Not part of the documented interface: it may change with any version.

use comm_api::{CommData, CommError, SharedMemoryProvider};

use crate::communicator::ShmBackend;
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::region::ShmRegion;

/// Creates regions for the ranks of a node, and takes part in no collective.
///
/// Without slots for payloads its segment is a few pages per rank.
#[derive(Debug)]
pub struct NodeRegions(ShmBackend);

impl NodeRegions {
    /// Joins the other ranks of the node; collective over them.
    ///
    /// # Errors
    ///
    /// As [`ShmBackend::attach`].
    pub fn attach(config: ShmConfig) -> Result<Self, InitError> {
        Ok(Self(ShmBackend::with_slots(config, 0)?))
    }

    /// Creates a region that the leader owns.
    ///
    /// # Errors
    ///
    /// As [`SharedMemoryProvider::create_shared_region`].
    pub fn create_shared_region<T: CommData>(
        &self,
        count: usize,
    ) -> Result<ShmRegion<T>, CommError> {
        self.0.create_shared_region(count)
    }

    /// Creates a region of which this rank owns a part.
    ///
    /// # Errors
    ///
    /// As [`SharedMemoryProvider::create_partitioned_region`].
    pub fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ShmRegion<T>, CommError> {
        self.0.create_partitioned_region(local_count)
    }
}

#[cfg(test)]
mod tests {
    use comm_api::SharedRegion;

    use super::*;

    #[test]
    fn regions_work_without_slots() {
        let name = format!("cobre-node-{}", std::process::id());
        let ranks = [0, 1].map(|rank| {
            let config = ShmConfig::new(&name, rank, 2);
            std::thread::spawn(move || {
                let node = NodeRegions::attach(config).unwrap();
                let mut table = node.create_shared_region::<u64>(3).unwrap();
                table.as_mut_slice().fill(7);
                let mut parts = node.create_partitioned_region::<usize>(rank + 1).unwrap();
                parts.as_mut_slice().fill(rank);
                drop(node);
                table.fence().unwrap();
                parts.fence().unwrap();
                assert_eq!(table.as_slice(), [7; 3]);
                parts.as_slice().to_vec()
            })
        });
        for rank in ranks {
            assert_eq!(rank.join().unwrap(), [0, 1, 1]);
        }
    }
}
