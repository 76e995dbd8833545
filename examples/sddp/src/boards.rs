//! What the ranks find in every iteration and all of them read: one copy per node where memory can be shared.

use comm_factory::api::{CommError, Communicator, SharedMemoryProvider};

use super::cuts::Cuts;
use super::model::Case;
use super::split::block;

/// The gathered regions, in which every rank owns what its scenarios give; written and read once per use.
pub(crate) struct Boards<C: SharedMemoryProvider> {
    /// The storages before each stage but the first: by scenario, stage and plant.
    pub(crate) points: C::Region<f64>,
    /// The cuts of one stage: by scenario, intercept and slopes.
    pub(crate) cuts: C::Region<f64>,
}

impl<C: Communicator + SharedMemoryProvider> Boards<C> {
    /// Creates them, once for all iterations.
    pub(crate) fn new(comm: &C, case: &Case<'_>) -> Result<Self, CommError> {
        let mine = block(case.scenarios(), comm.size(), comm.rank()).len();
        let plants = case.plants.len();
        Ok(Self {
            points: comm.create_gathered_region(mine * (case.stages() - 1) * plants)?,
            cuts: comm.create_gathered_region(mine * Cuts::width(plants))?,
        })
    }
}
