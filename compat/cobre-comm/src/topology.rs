//! Where the ranks run.

use std::sync::OnceLock;

use comm_factory::local::LocalBackend;
use comm_factory::{CommBackend, Name, Topology};

use crate::kind::BackendKind;

/// A job: the backend, the hosts and the ranks on them, and the MPI library and scheduler behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionTopology {
    /// `Mpi` for several ranks, over shared memory and TCP, too, because programs for 0.18 know no other
    /// backend with several ranks. [`MpiRuntimeInfo::library_version`] names the real backend.
    pub backend: BackendKind,
    /// The number of ranks.
    pub world_size: usize,
    /// The hosts, in the order of their first ranks.
    pub hosts: Vec<HostInfo>,
    /// The library that connects the ranks; `None` for a single process.
    pub mpi: Option<MpiRuntimeInfo>,
    /// The SLURM job, if this process belongs to one.
    pub slurm: Option<SlurmJobInfo>,
}

impl ExecutionTopology {
    /// Returns the number of hosts.
    #[must_use]
    pub fn num_hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the name of the host of rank 0, or `"unknown"` if there are no hosts.
    #[must_use]
    pub fn leader_hostname(&self) -> &str {
        let first = self.hosts.first();
        first.map_or("unknown", |host| &host.hostname)
    }
}

/// A host and the ranks on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostInfo {
    /// Its name.
    pub hostname: String,
    /// The ranks on it, ascending.
    pub ranks: Vec<usize>,
}

/// The library that connects the ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiRuntimeInfo {
    /// The name and version of the MPI library, such as `MPICH 4.0.2`; `shm` or `tcp` without one.
    pub library_version: String,
    /// The version of the standard, such as `MPI 4.0`; `no MPI` without an MPI library.
    pub standard_version: String,
    /// The level of thread support, such as `Multiple`.
    pub thread_level: String,
}

/// A SLURM job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmJobInfo {
    /// `SLURM_JOB_ID`.
    pub job_id: String,
    /// The nodes, as SLURM writes them: `node[01-04]`.
    pub node_list: Option<String>,
    /// The processors of each task.
    pub cpus_per_task: Option<u32>,
}

/// Provides the topology of the job.
pub trait TopologyProvider: Send + Sync {
    /// Returns the topology that was gathered at the start, without communication.
    #[must_use]
    fn topology(&self) -> &ExecutionTopology;
}

impl TopologyProvider for LocalBackend {
    fn topology(&self) -> &ExecutionTopology {
        static ALONE: OnceLock<ExecutionTopology> = OnceLock::new();
        ALONE.get_or_init(|| {
            let alone = CommBackend::from(*self).topology();
            alone.expect("one rank gathers what it has").into()
        })
    }
}

impl From<Topology> for ExecutionTopology {
    fn from(topology: Topology) -> Self {
        let backend = topology.backend;
        let mpi = topology.mpi.map(|mpi| MpiRuntimeInfo {
            library_version: mpi.library,
            standard_version: mpi.standard,
            thread_level: mpi.thread_level,
        });
        let without_mpi = || MpiRuntimeInfo {
            library_version: backend.to_string(),
            standard_version: String::from("no MPI"),
            thread_level: String::from("Serialized"),
        };
        Self {
            backend: match backend {
                Name::Local => BackendKind::Local,
                Name::Mpi | Name::Tcp | Name::Shm => BackendKind::Mpi,
            },
            world_size: topology.size,
            hosts: topology.hosts.into_iter().map(host).collect(),
            mpi: match backend {
                Name::Local => None,
                Name::Mpi | Name::Tcp | Name::Shm => Some(mpi.unwrap_or_else(without_mpi)),
            },
            slurm: topology.slurm.map(|slurm| SlurmJobInfo {
                job_id: slurm.id,
                node_list: slurm.nodes,
                cpus_per_task: slurm.cpus_per_task,
            }),
        }
    }
}

fn host(host: comm_factory::Host) -> HostInfo {
    HostInfo {
        hostname: host.name,
        ranks: host.ranks,
    }
}
