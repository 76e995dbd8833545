//! The variables a rank starts with: a pure function of the launcher's own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use comm_kit::launcher;

/// The variables of one process, by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// The place of a process in a job: its rank, the size of the job, and how it reaches the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seat<'a> {
    /// What sets this job apart from every other, unguessable. `None` if several launchers start it
    /// and cannot agree on a fresh one; then what the user set stays.
    pub job: Option<&'a str>,
    /// The rank, below `size`.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// The rank among those on this machine.
    pub local_rank: usize,
    /// The number of ranks on this machine.
    pub local_size: usize,
    /// The host of rank 0.
    pub host: &'a str,
    /// A port on that host: where rank 0 listens over tcp, else one that is free.
    pub port: u16,
    /// How the ranks reach each other.
    pub link: Link<'a>,
}

impl<'a> Seat<'a> {
    /// Describes a rank of a job on this machine alone, over shared memory.
    #[must_use]
    pub fn new(job: &'a str, rank: usize, size: usize) -> Self {
        Self {
            job: Some(job),
            rank,
            size,
            local_rank: rank,
            local_size: size,
            host: "127.0.0.1",
            port: 29500,
            link: Link::Shm { name: job },
        }
    }
}

/// How the ranks of a job reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link<'a> {
    /// Through a segment of shared memory.
    Shm {
        /// What its name ends with.
        name: &'a str,
    },
    /// Through sockets.
    Tcp {
        /// The secret by which the ranks recognise each other.
        secret: Secret<'a>,
        /// The descriptor at which this rank finds the listener.
        listener: Option<i32>,
    },
}

/// The secret by which the ranks of a job recognise each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Secret<'a> {
    /// The secret itself.
    Text(&'a str),
    /// The file it stands in.
    File(&'a Path),
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Other launchers' variables: a rank that saw them would take itself for a part of *their* job.
const FOREIGN_PREFIXES: &[&str] = &[
    "HYDI_",
    "MV2_COMM_WORLD_",
    "OMPI_",
    "ORTE_",
    "PALS_",
    "PMIX_",
    "PMI_",
    "PRTE_",
    "TORCHELASTIC_",
];

/// As [`FOREIGN_PREFIXES`], beside the ranks and sizes that the kit's table of launchers names, where the prefix also holds what should reach the ranks: a SLURM
/// allocation stays, the step's task does not; a timeout of ours stays, an identity does not.
const FOREIGN_NAMES: &[&str] = &[
    "COBRE_COMM_BACKEND",
    "COBRE_COMM_REPORT_FD",
    "COBRE_RESTART",
    "COBRE_SHM_NAME",
    "COBRE_TCP_COORDINATOR",
    "COBRE_TCP_LISTEN_FD",
    "COBRE_TCP_PORT",
    "COBRE_TCP_SECRET",
    "COBRE_TCP_SECRET_FILE",
    "FLUX_TASK_LOCAL_ID",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "SLURM_GTIDS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_STEPID",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASK_PID",
];

/// Returns the variables of the rank in `seat`: `inherited` without any launcher's identity, plus
/// this job's own.
///
/// ```
/// use comm_run::{Seat, Variables, environment};
/// use std::ffi::OsStr;
///
/// let inherited = Variables::from([("PMI_RANK".into(), "5".into()), ("LANG".into(), "C".into())]);
/// let variables = environment(&inherited, Seat::new("f00d", 1, 4));
/// assert_eq!(variables[OsStr::new("RANK")], "1");
/// assert_eq!(variables[OsStr::new("COBRE_SHM_NAME")], "cobre-f00d");
/// assert_eq!(variables[OsStr::new("LANG")], "C");
/// assert!(!variables.contains_key(OsStr::new("PMI_RANK")));
/// ```
#[must_use]
pub fn environment(inherited: &Variables, seat: Seat<'_>) -> Variables {
    let mut variables = without_identity(inherited);
    variables.extend(own(seat));
    variables
}

/// Returns the variables without those in which any launcher gives a process its place in a job.
#[must_use]
pub fn without_identity(inherited: &Variables) -> Variables {
    let kept = inherited.iter().filter(|(name, _)| !gives_a_place(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the variables that give a process its place in the job.
pub(super) fn own(seat: Seat<'_>) -> Variables {
    let mut own = Variables::new();
    let mut put = |name: &str, value: &dyn AsRef<OsStr>| {
        own.insert(name.into(), value.as_ref().to_owned());
    };
    let (rank, size) = (seat.rank.to_string(), seat.size.to_string());
    let port = seat.port.to_string();
    if let Some(job) = seat.job {
        put("COBRE_JOB_ID", &job);
    }
    match seat.link {
        Link::Shm { name } => {
            put("COBRE_COMM_BACKEND", &"shm");
            put("COBRE_SHM_NAME", &segment_name(name));
            put("COBRE_SHM_RANK", &rank);
            put("COBRE_SHM_SIZE", &size);
        }
        Link::Tcp { secret, listener } => {
            put("COBRE_COMM_BACKEND", &"tcp");
            put("COBRE_TCP_COORDINATOR", &seat.host);
            put("COBRE_TCP_PORT", &port);
            put("COBRE_TCP_RANK", &rank);
            put("COBRE_TCP_SIZE", &size);
            match secret {
                Secret::Text(text) => put("COBRE_TCP_SECRET", &text),
                Secret::File(path) => put("COBRE_TCP_SECRET_FILE", &path),
            }
            if let Some(descriptor) = listener {
                put("COBRE_TCP_LISTEN_FD", &descriptor.to_string());
            }
        }
    }
    // What torchrun sets, for programs that read no variables of ours.
    put("LOCAL_RANK", &seat.local_rank.to_string());
    put("LOCAL_WORLD_SIZE", &seat.local_size.to_string());
    put("MASTER_ADDR", &seat.host);
    put("MASTER_PORT", &port);
    put("RANK", &rank);
    put("WORLD_SIZE", &size);
    own
}

/// Returns whether a variable gives a process a place in a job, ours or another launcher's.
#[must_use]
pub fn gives_a_place(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    FOREIGN_PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix.as_bytes()))
        || FOREIGN_NAMES
            .iter()
            .copied()
            .chain(launcher::variables().filter(|&variable| variable != SLURM_ALLOCATION))
            .any(|foreign| name == foreign.as_bytes())
}

/// Belongs to the allocation as much as to a step; without the id of a step nobody takes it for one.
const SLURM_ALLOCATION: &str = "SLURM_NTASKS";

/// Returns the name of the segment of the job `id`.
pub(super) fn segment_name(id: &str) -> String {
    format!("cobre-{id}")
}

/// Returns 80 random bits in hexadecimal: short enough for the 31 characters macOS allows a
/// segment's name.
pub(super) fn fresh_job_id() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes[6..]).map_err(std::io::Error::other)?;
    Ok(format!("{:020x}", u128::from_be_bytes(bytes)))
}

/// Returns 128 random bits in hexadecimal, by which the ranks recognise each other.
pub(super) fn fresh_secret() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests;
