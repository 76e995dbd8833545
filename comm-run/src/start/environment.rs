//! The variables of a rank: a pure function of the launcher's own variables.

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
    /// The unique, unguessable id of this job. `None` if several launchers start the job
    /// and cannot agree on a new id; then the user's value stays.
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
    /// A port on that host: over tcp the one where rank 0 listens, else a free one.
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
        /// The end of the segment's name.
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
    /// The file that holds it.
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

/// The variables of other launchers: a rank that saw them would take itself for a rank of *their* job.
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

/// Like [`FOREIGN_PREFIXES`], for prefixes that also begin variables which should reach the ranks: a SLURM allocation stays,
/// the task of a step does not; our timeouts stay, the identity of a rank does not. The ranks and sizes in comm-kit's table of
/// launchers are removed in addition.
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

/// Returns the variables without those by which any launcher tells a process its place in a job.
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
    // The variables of torchrun, for programs that read none of ours.
    put("LOCAL_RANK", &seat.local_rank.to_string());
    put("LOCAL_WORLD_SIZE", &seat.local_size.to_string());
    put("MASTER_ADDR", &seat.host);
    put("MASTER_PORT", &port);
    put("RANK", &rank);
    put("WORLD_SIZE", &size);
    own
}

/// Returns whether a variable tells a process its place in a job, ours or another launcher's.
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

/// Set for an allocation as well as for a step; without the id of a step, no program takes it for a step.
const SLURM_ALLOCATION: &str = "SLURM_NTASKS";

/// Returns the name of the segment of the job `id`.
pub(super) fn segment_name(id: &str) -> String {
    format!("cobre-{id}")
}

/// Returns 80 random bits in hexadecimal: short enough for the 31 characters that macOS allows in
/// the name of a segment.
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
