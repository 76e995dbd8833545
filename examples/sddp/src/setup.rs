//! The case on every rank: by broadcast from rank 0, with one copy per node if memory can be shared.

use comm_factory::api::{
    CommData, CommError, Communicator, CommunicatorExt, SharedMemoryProvider, SharedRegion,
};

use super::model::{Case, Draft, Header, Plant, Thermal, fill_tree, index};
use super::split::block;

/// How many bytes of the case are sent at a time: the memory of a rank in addition to the one copy of its node.
const PIECE: usize = 1 << 16;

/// The case in regions.
#[derive(Debug)]
pub(crate) struct Regions<C: SharedMemoryProvider> {
    header: Header,
    plants: C::Region<Plant>,
    thermals: C::Region<Thermal>,
    demand: C::Region<f64>,
    tree: C::Region<f64>,
}

impl<C: Communicator + SharedMemoryProvider> Regions<C> {
    /// Distributes the case that rank 0 generates.
    ///
    /// The ranks that share the tree populate it in parts; without shared memory, each rank populates its own.
    pub(crate) fn new(comm: &C, header: Header) -> Result<Self, CommError> {
        let draft = (comm.rank() == 0).then(|| Draft::new(header));
        let header = comm.broadcast_value(header, 0)?;
        let draft = draft.as_ref();
        let plants = share(
            comm,
            draft.map(|draft| &*draft.plants),
            index(header.plants),
        )?;
        let thermals = share(
            comm,
            draft.map(|draft| &*draft.thermals),
            index(header.thermals),
        )?;
        let demand = share(
            comm,
            draft.map(|draft| &*draft.demand),
            index(header.stages),
        )?;
        let node = comm.split_local()?;
        let nodes = index(header.stages) * index(header.openings);
        let part = block(nodes, node.size(), node.rank());
        let mut tree = comm.create_partitioned_region::<f64>(part.len() * index(header.plants))?;
        fill_tree(&header, plants.as_slice(), part.start, tree.as_mut_slice());
        tree.fence()?;
        Ok(Self {
            header,
            plants,
            thermals,
            demand,
            tree,
        })
    }

    pub(crate) fn case(&self) -> Case<'_> {
        Case {
            header: self.header,
            plants: self.plants.as_slice(),
            thermals: self.thermals.as_slice(),
            demand: self.demand.as_slice(),
            tree: self.tree.as_slice(),
        }
    }
}

/// Copies data of rank 0 to a region of every node, piece by piece, through the leader of the node.
fn share<C, T>(comm: &C, mine: Option<&[T]>, count: usize) -> Result<C::Region<T>, CommError>
where
    C: Communicator + SharedMemoryProvider,
    T: CommData,
{
    let mut region = comm.create_shared_region::<T>(count)?;
    let most = (PIECE / size_of::<T>()).max(1);
    let mut start = 0;
    while start < count {
        let end = count.min(start + most);
        let mut piece = match mine {
            Some(data) => data[start..end].to_vec(),
            None => vec![T::zeroed(); end - start],
        };
        comm.broadcast(&mut piece, 0)?;
        if comm.is_leader() {
            region.as_mut_slice()[start..end].copy_from_slice(&piece);
        }
        start = end;
    }
    region.fence()?;
    Ok(region)
}
