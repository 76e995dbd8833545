//! The results of every iteration that all ranks read: one copy per node if memory can be shared.

use comm_factory::api::{CommError, Communicator, SharedMemoryProvider};

use super::cuts::Cuts;
use super::model::Case;
use super::split::block;

/// The gathered regions, in which every rank owns the results of its scenarios; written and read once per use.
pub(crate) struct Boards<C: SharedMemoryProvider> {
    /// The storages before each stage except the first: by scenario, stage and plant.
    pub(crate) points: C::Region<f64>,
    /// The cuts of one stage: by scenario, intercept and slopes.
    pub(crate) cuts: C::Region<f64>,
}

impl<C: Communicator + SharedMemoryProvider> Boards<C> {
    /// Creates the regions, once for all iterations.
    pub(crate) fn new(comm: &C, case: &Case<'_>) -> Result<Self, CommError> {
        let mine = block(case.scenarios(), comm.size(), comm.rank()).len();
        let plants = case.plants.len();
        Ok(Self {
            points: comm.create_gathered_region(mine * (case.stages() - 1) * plants)?,
            cuts: comm.create_gathered_region(mine * Cuts::width(plants))?,
        })
    }
}
