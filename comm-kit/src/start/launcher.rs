//! Which launcher started this process, as which rank, and of how many.
//!
//! A single table serves the choice of a backend, the check that MPI found the ranks that its launcher
//! announced, and the variables that `comm-run` hides from its ranks. N programs that each believe to be
//! alone are never what the user meant, so a rank without a size counts as announced too, even rank 0.

use std::collections::BTreeMap;

use crate::config::value;
use crate::start::init::InitError;

/// The variables in which a launcher gives a process its rank and size.
#[derive(Debug)]
pub struct Launcher {
    /// The variable that holds the rank.
    pub rank: &'static str,
    /// The variables that may hold the number of ranks; the first that is set counts. Some launchers set
    /// none.
    pub sizes: &'static [&'static str],
    /// How the ranks can be connected.
    pub family: Family,
}

/// How the ranks of a launcher can be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `comm-run`, or a manual start, over tcp.
    Tcp,
    /// `comm-run`, or a manual start, over shared memory.
    Shm,
    /// The launcher of an MPI library.
    Mpi,
    /// The launcher of an MPI library whose numbers cover a single machine.
    MpiOfOneMachine,
    /// A scheduler: its ranks can be connected by an MPI library or over tcp.
    Scheduler,
    /// `torchrun` and similar: variables that several tools set.
    Torch,
    /// Kubernetes: an index, over tcp.
    Kubernetes,
}

const fn launcher(rank: &'static str, sizes: &'static [&'static str], family: Family) -> Launcher {
    Launcher {
        rank,
        sizes,
        family,
    }
}

/// The rank of a SLURM task; set in a batch script too.
const SLURM_RANK: &str = "SLURM_PROCID";

/// All launchers that may start the ranks of a job.
pub static ALL: [Launcher; 14] = [
    launcher("COBRE_TCP_RANK", &["COBRE_TCP_SIZE"], Family::Tcp),
    launcher("COBRE_SHM_RANK", &["COBRE_SHM_SIZE"], Family::Shm),
    launcher("PMI_RANK", &["PMI_SIZE"], Family::Mpi),
    launcher(
        "OMPI_COMM_WORLD_RANK",
        &["OMPI_COMM_WORLD_SIZE"],
        Family::Mpi,
    ),
    launcher(
        "MPI_LOCALRANKID",
        &["MPI_LOCALNRANKS"],
        Family::MpiOfOneMachine,
    ),
    launcher("MV2_COMM_WORLD_RANK", &["MV2_COMM_WORLD_SIZE"], Family::Mpi),
    launcher("PMIX_RANK", &[], Family::Mpi),
    launcher(
        SLURM_RANK,
        &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        Family::Scheduler,
    ),
    launcher("FLUX_TASK_RANK", &["FLUX_JOB_SIZE"], Family::Scheduler),
    launcher(
        "JSM_NAMESPACE_RANK",
        &["JSM_NAMESPACE_SIZE"],
        Family::Scheduler,
    ),
    launcher("PALS_RANKID", &[], Family::Scheduler),
    launcher("ALPS_APP_PE", &[], Family::Scheduler),
    launcher("RANK", &["WORLD_SIZE"], Family::Torch),
    launcher("JOB_COMPLETION_INDEX", &[], Family::Kubernetes),
];

/// A number from a launcher, and the variable that holds it.
pub type Given = Option<(usize, &'static str)>;

impl Launcher {
    /// Reads the rank and the size that this launcher set.
    ///
    /// # Errors
    ///
    /// [`InvalidConfiguration`](crate::InitErrorKind::InvalidConfiguration) for a value that is not a number.
    pub fn place(&self, variables: &BTreeMap<String, String>) -> Result<(Given, Given), InitError> {
        if self.rank == SLURM_RANK && !is_slurm_step(variables) {
            return Ok((None, None));
        }
        let mut sizes = self.sizes.iter();
        let size = sizes.find(|name| value(variables, name).is_some());
        let size = size.map_or(Ok(None), |name| number(variables, name))?;
        Ok((number(variables, self.rank)?, size))
    }

    /// Returns the first of its variables that is set.
    #[must_use]
    pub fn sign(&self, variables: &BTreeMap<String, String>) -> Option<&'static str> {
        if self.rank == SLURM_RANK && !is_slurm_step(variables) {
            return None;
        }
        let mut names = std::iter::once(&self.rank).chain(self.sizes);
        names.find(|name| value(variables, name).is_some()).copied()
    }
}

fn number(variables: &BTreeMap<String, String>, name: &'static str) -> Result<Given, InitError> {
    let Some(text) = value(variables, name) else {
        return Ok(None);
    };
    let number = text.parse().map_err(|_| {
        let message = format!("{name}={text:?} is not a number; correct or unset it");
        InitError::invalid(&[name], message)
    })?;
    Ok(Some((number, name)))
}

/// Returns whether this process is a task of `srun`, not the batch script around it, which has a
/// `SLURM_PROCID` too but runs once.
#[must_use]
pub fn is_slurm_step(variables: &BTreeMap<String, String>) -> bool {
    /// Ids from here on are reserved by SLURM: batch, external and interactive steps.
    const RESERVED: u32 = 0xffff_fff0;
    let id = value(variables, "SLURM_STEP_ID").and_then(|id| id.parse::<u32>().ok());
    id.is_some_and(|id| id < RESERVED)
}

/// A launcher that started more than one rank, or did not announce how many.
#[derive(Debug)]
pub struct Announcement {
    /// The launcher.
    pub launcher: &'static Launcher,
    /// The variable that announced the ranks.
    pub variable: &'static str,
    /// The number of ranks, if known.
    pub ranks: Option<usize>,
}

/// Finds a launcher that started more than one rank, or that set a rank while no launcher set a size.
///
/// # Errors
///
/// As [`Launcher::place`].
pub fn announced(variables: &BTreeMap<String, String>) -> Result<Option<Announcement>, InitError> {
    let mut of_unknown_size = None;
    let mut sized = false;
    for launcher in &ALL {
        let (rank, size) = launcher.place(variables)?;
        let announcement = |variable, ranks| Announcement {
            launcher,
            variable,
            ranks,
        };
        sized |= size.is_some();
        match (rank, size) {
            (_, Some((size, variable))) if size > 1 => {
                return Ok(Some(announcement(variable, Some(size))));
            }
            (Some((rank, variable)), _) if rank > 0 => {
                return Ok(Some(announcement(variable, None)));
            }
            (Some((_, variable)), None) if of_unknown_size.is_none() => {
                of_unknown_size = Some(announcement(variable, None));
            }
            _ => {}
        }
    }
    Ok(of_unknown_size.filter(|_| !sized))
}

/// Returns every variable of the table.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let names = |launcher: &'static Launcher| {
        std::iter::once(launcher.rank).chain(launcher.sizes.iter().copied())
    };
    ALL.iter().flat_map(names).chain(["SLURM_STEP_ID"])
}

#[cfg(test)]
mod tests;
