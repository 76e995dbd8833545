//! The ranks of a job and the hosts they run on.

use std::fmt;
use std::ops::Range;

use comm_api::{CommError, Communicator, CommunicatorExt};
use comm_kit::host;

use crate::backend::CommBackend;
use crate::name::Name;

/// A job: the backend, the hosts and the ranks on them, and the MPI library and scheduler behind them.
///
/// Its `Display` is a line for people:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let comm = comm_factory::create_communicator()?;
/// let topology = comm.topology()?;
/// println!("{topology}"); // local: 1 rank on node1
/// # assert_eq!((topology.size, topology.hosts.len()), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topology {
    /// The backend that connects the ranks.
    pub backend: Name,
    /// The number of ranks.
    pub size: usize,
    /// The hosts, in the order of their first ranks.
    pub hosts: Vec<Host>,
    /// The MPI library, if one connects the ranks.
    pub mpi: Option<MpiLibrary>,
    /// The SLURM job, if this process belongs to one.
    pub slurm: Option<SlurmJob>,
}

/// A host and the ranks on it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// Its name. Two machines with the same name are two hosts.
    pub name: String,
    /// The ranks on it, ascending.
    pub ranks: Vec<usize>,
}

/// An MPI library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpiLibrary {
    /// Its name and version: `MPICH 4.0.2`.
    pub library: String,
    /// The version of the MPI standard: `MPI 4.0`.
    pub standard: String,
    /// Its level of thread support: `Multiple`.
    pub thread_level: String,
}

/// A SLURM job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlurmJob {
    /// Its number.
    pub id: String,
    /// Its nodes, as SLURM writes them: `node[01-04]`.
    pub nodes: Option<String>,
    /// The processors of each task.
    pub cpus_per_task: Option<u32>,
}

impl Topology {
    /// Returns the topology as a launcher knows it before the start: the ranks that will run on this host.
    #[must_use]
    pub fn launched(backend: Name, size: usize, ranks: Range<usize>) -> Self {
        Self {
            backend,
            size,
            hosts: vec![Host {
                name: host::name(),
                ranks: ranks.collect(),
            }],
            mpi: None,
            slurm: SlurmJob::of(|name| std::env::var(name).ok()),
        }
    }
}

impl CommBackend {
    /// Gathers the hosts of the job and the ranks on them.
    ///
    /// Collective over all ranks, two small gathers: call it once on every rank at the start, and keep the result. All
    /// ranks get the same hosts.
    ///
    /// # Errors
    ///
    /// Those of [`allgather_vec`](CommunicatorExt::allgather_vec), with the operation `topology`. The message of a mismatch lists its
    /// gathers as `allgatherv`.
    pub fn topology(&self) -> Result<Topology, CommError> {
        Ok(Topology {
            backend: self.backend(),
            size: self.size(),
            hosts: gather_hosts(self).map_err(|error| error.again("topology"))?,
            mpi: self.library(),
            slurm: SlurmJob::of(|name| std::env::var(name).ok()),
        })
    }

    fn library(&self) -> Option<MpiLibrary> {
        match self {
            #[cfg(feature = "mpi")]
            Self::Mpi(comm) => {
                let runtime = comm.runtime();
                Some(MpiLibrary {
                    library: runtime.library,
                    standard: runtime.standard,
                    thread_level: runtime.thread_level,
                })
            }
            _ => None,
        }
    }
}

/// Gathers the hosts of all ranks: from each the number of its machine and its name.
fn gather_hosts<C: Communicator>(comm: &C) -> Result<Vec<Host>, CommError> {
    let mine = [&host::id().to_le_bytes(), host::name().as_bytes()].concat();
    let (all, counts) = comm.allgather_vec(&mine)?;
    let mut rest = &all[..];
    let cards = counts.iter().map(|&count| {
        let (card, others) = rest.split_at(count);
        rest = others;
        card
    });
    Ok(group(cards))
}

/// Groups the ranks by machine, in the order of the machines' first ranks.
fn group<'a>(cards: impl Iterator<Item = &'a [u8]>) -> Vec<Host> {
    let mut hosts: Vec<(&[u8], Host)> = Vec::new();
    for (rank, card) in cards.enumerate() {
        if let Some((_, host)) = hosts.iter_mut().find(|(known, _)| *known == card) {
            host.ranks.push(rank);
        } else {
            let name = card.get(size_of::<u64>()..).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let ranks = vec![rank];
            hosts.push((card, Host { name, ranks }));
        }
    }
    hosts.into_iter().map(|(_, host)| host).collect()
}

impl SlurmJob {
    /// Reads the variables of SLURM.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        Some(Self {
            id: set("SLURM_JOB_ID")?,
            nodes: set("SLURM_JOB_NODELIST"),
            cpus_per_task: set("SLURM_CPUS_PER_TASK").and_then(|number| number.parse().ok()),
        })
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks = |n: usize| if n == 1 { "rank" } else { "ranks" };
        write!(f, "{}", self.backend)?;
        if let Some(mpi) = &self.mpi {
            let MpiLibrary {
                library,
                standard,
                thread_level,
            } = mpi;
            write!(f, " ({library}, {standard}, threads: {thread_level})")?;
        }
        write!(f, ": {} {}", self.size, ranks(self.size))?;
        match &self.hosts[..] {
            [host] if host.ranks.len() == self.size => write!(f, " on {}", host.name)?,
            [host] => write!(f, ", of which {} on {}", Runs(&host.ranks), host.name)?,
            hosts => {
                write!(f, " on {} hosts", hosts.len())?;
                for (i, host) in hosts.iter().enumerate() {
                    let separator = if i == 0 { ": " } else { ", " };
                    write!(f, "{separator}{} [{}]", host.name, Runs(&host.ranks))?;
                }
            }
        }
        if let Some(slurm) = &self.slurm {
            write!(f, "; SLURM job {}", slurm.id)?;
        }
        Ok(())
    }
}

/// Writes ascending ranks as runs: `0-3,6`.
struct Runs<'a>(&'a [usize]);

impl fmt::Display for Runs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (i, run) in runs.enumerate() {
            let separator = if i == 0 { "" } else { "," };
            match run {
                [first, .., last] => write!(f, "{separator}{first}-{last}")?,
                [one] => write!(f, "{separator}{one}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(id: u64, name: &str) -> Vec<u8> {
        [&id.to_le_bytes(), name.as_bytes()].concat()
    }

    fn host(name: &str, ranks: &[usize]) -> Host {
        Host {
            name: name.to_owned(),
            ranks: ranks.to_vec(),
        }
    }

    #[test]
    fn machines_of_one_name_are_two_hosts() {
        let cards = [card(1, "node"), card(2, "node"), card(1, "node")];
        let hosts = group(cards.iter().map(Vec::as_slice));
        assert_eq!(hosts, [host("node", &[0, 2]), host("node", &[1])]);
    }

    #[test]
    fn many_hosts_are_listed_with_their_ranks() {
        let mut topology = Topology {
            backend: Name::Tcp,
            size: 5,
            hosts: vec![host("a", &[0, 1, 2, 4]), host("b", &[3])],
            mpi: None,
            slurm: None,
        };
        assert_eq!(
            topology.to_string(),
            "tcp: 5 ranks on 2 hosts: a [0-2,4], b [3]"
        );
        topology.backend = Name::Mpi;
        topology.hosts = vec![host("a", &[0, 1, 2, 3, 4])];
        topology.mpi = Some(MpiLibrary {
            library: "MPICH 4.0.2".to_owned(),
            standard: "MPI 4.0".to_owned(),
            thread_level: "Multiple".to_owned(),
        });
        let variable = |name: &str| Some(name.to_ascii_lowercase());
        topology.slurm = SlurmJob::of(variable);
        assert_eq!(
            topology.to_string(),
            "mpi (MPICH 4.0.2, MPI 4.0, threads: Multiple): 5 ranks on a; SLURM job slurm_job_id"
        );
    }

    #[test]
    fn a_launcher_of_some_ranks_says_which() {
        let name = comm_kit::host::name();
        let topology = Topology::launched(Name::Tcp, 8, 4..8);
        let text = topology.to_string();
        let wanted = format!("tcp: 8 ranks, of which 4-7 on {name}");
        assert!(text.starts_with(&wanted), "{text}");
    }

    #[test]
    fn a_job_without_a_number_is_none_of_slurm() {
        assert_eq!(SlurmJob::of(|_| None), None);
        assert_eq!(SlurmJob::of(|_| Some(String::new())), None);
        let job = SlurmJob::of(|name| (name != "SLURM_JOB_NODELIST").then(|| "8".to_owned()));
        assert_eq!(
            job,
            Some(SlurmJob {
                id: "8".to_owned(),
                nodes: None,
                cpus_per_task: Some(8)
            })
        );
    }
}
