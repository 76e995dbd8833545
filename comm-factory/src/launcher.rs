//! What launchers say about rank and size, each in variables of its own.

use crate::error::BackendError;
use crate::name::Name;
use crate::select::{Filled, Variables};

/// Variables in which one launcher tells a process its place.
#[derive(Debug)]
pub(crate) struct Launcher {
    rank: &'static str,
    /// The first that is set counts.
    sizes: &'static [&'static str],
    /// Which backends its ranks can be connected with, best first.
    wants: &'static [Name],
    /// Whether the rank is that of the whole job, not of one machine only.
    global: bool,
}

const fn launcher(
    rank: &'static str,
    sizes: &'static [&'static str],
    wants: &'static [Name],
) -> Launcher {
    Launcher {
        rank,
        sizes,
        wants,
        global: true,
    }
}

static COBRE_TCP: Launcher = launcher("COBRE_TCP_RANK", &["COBRE_TCP_SIZE"], &[Name::Tcp]);
static COBRE_SHM: Launcher = launcher("COBRE_SHM_RANK", &["COBRE_SHM_SIZE"], &[Name::Shm]);
static PMI: Launcher = launcher("PMI_RANK", &["PMI_SIZE"], &[Name::Mpi]);
static OPEN_MPI: Launcher = launcher(
    "OMPI_COMM_WORLD_RANK",
    &["OMPI_COMM_WORLD_SIZE"],
    &[Name::Mpi],
);
static LOCAL_MPI: Launcher = Launcher {
    global: false,
    ..launcher("MPI_LOCALRANKID", &["MPI_LOCALNRANKS"], &[Name::Mpi])
};
static SLURM: Launcher = launcher(
    "SLURM_PROCID",
    &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
    &[Name::Mpi, Name::Tcp],
);
static TORCH: Launcher = launcher("RANK", &["WORLD_SIZE"], &[Name::Tcp, Name::Shm]);
static KUBERNETES: Launcher = launcher("JOB_COMPLETION_INDEX", &[], &[Name::Tcp]);

/// Everybody who may announce more than one rank.
static ALL: [&Launcher; 8] = [
    &COBRE_TCP,
    &COBRE_SHM,
    &PMI,
    &OPEN_MPI,
    &LOCAL_MPI,
    &SLURM,
    &TORCH,
    &KUBERNETES,
];

/// A number a launcher gave, and the variable it stands in.
type Told = Option<(usize, &'static str)>;

impl Launcher {
    /// Finds the first launcher that announced more than one rank.
    pub(crate) fn of_many(variables: &Variables) -> Result<Option<&'static Self>, BackendError> {
        for launcher in ALL {
            let (rank, size) = launcher.told(variables)?;
            if size.is_some_and(|(size, _)| size > 1) || rank.is_some_and(|(rank, _)| rank > 0) {
                return Ok(Some(launcher));
            }
        }
        Ok(None)
    }

    pub(crate) fn wants(&self) -> &'static [Name] {
        self.wants
    }

    /// Lists what would have to be set for `backend`, given what the launchers say.
    pub(crate) fn missing(backend: Name, variables: &Variables) -> Vec<String> {
        let needed: &[&str] = match backend {
            Name::Tcp => &["COBRE_TCP_COORDINATOR", "COBRE_TCP_RANK", "COBRE_TCP_SIZE"],
            Name::Shm => &["COBRE_SHM_NAME", "COBRE_SHM_RANK", "COBRE_SHM_SIZE"],
            Name::Mpi | Name::Local => &[],
        };
        let filled = match backend {
            Name::Tcp => fill_tcp(variables).unwrap_or_default(),
            Name::Mpi | Name::Shm | Name::Local => Vec::new(),
        };
        let missing: Vec<String> = needed
            .iter()
            .filter(|name| value(variables, name).is_none())
            .filter(|name| filled.iter().all(|filled| filled.variable != **name))
            .map(ToString::to_string)
            .collect();
        if missing.is_empty() {
            // All there is to know is known; only nobody said that it should be used.
            return vec![String::from("COBRE_COMM_BACKEND")];
        }
        missing
    }

    fn told(&self, variables: &Variables) -> Result<(Told, Told), BackendError> {
        if self.rank == SLURM.rank && !real_step(variables) {
            return Ok((None, None));
        }
        let size = self
            .sizes
            .iter()
            .find(|name| value(variables, name).is_some());
        let size = size.map_or(Ok(None), |name| self.number(variables, name))?;
        Ok((self.number(variables, self.rank)?, size))
    }

    fn number(&self, variables: &Variables, name: &'static str) -> Result<Told, BackendError> {
        let Some(text) = value(variables, name) else {
            return Ok(None);
        };
        let number = text.parse().map_err(|_| {
            let message = format!("{name}={text:?} is not a number; correct or unset it");
            BackendError::contradiction(self.wants[0], message)
        })?;
        Ok(Some((number, name)))
    }
}

/// Returns the value of a variable; empty and blank mean unset.
pub(crate) fn value<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
    variables
        .get(name)
        .map(|text| text.trim())
        .filter(|text| !text.is_empty())
}

pub(crate) fn first_set(variables: &Variables, names: &[&'static str]) -> Option<&'static str> {
    names
        .iter()
        .find(|name| value(variables, name).is_some())
        .copied()
}

/// Returns which variable shows that an MPI launcher, or SLURM in its place, started this process.
pub(crate) fn mpi_variable(variables: &Variables) -> Option<&'static str> {
    let names = [
        "PMI_RANK",
        "PMI_SIZE",
        OPEN_MPI.rank,
        OPEN_MPI.sizes[0],
        LOCAL_MPI.rank,
    ];
    first_set(variables, &names)
        .or_else(|| first_set(variables, &[SLURM.rank]).filter(|_| real_step(variables)))
}

/// Distinguishes a step of `srun` from the batch script around it, which has `SLURM_PROCID` too, but runs
/// once. The ids from here on up are SLURM's own: batch, external and interactive steps.
fn real_step(variables: &Variables) -> bool {
    const RESERVED: u32 = 0xffff_fff0;
    let id = value(variables, "SLURM_STEP_ID").and_then(|id| id.parse::<u32>().ok());
    id.is_some_and(|id| id < RESERVED)
}

/// Fills what `COBRE_TCP_*` leaves open from the other launchers.
///
/// Whoever fills one of rank and size must agree on the other, and all of them with each other:
/// half a pair from one launcher and half from another is a job that nobody started.
pub(crate) fn fill_tcp(variables: &Variables) -> Result<Vec<Filled>, BackendError> {
    let (rank, size) = COBRE_TCP.told(variables)?;
    let mut filled = Vec::new();
    if rank.is_none() || size.is_none() {
        let (mut rank, mut size) = (rank, size);
        for launcher in [&SLURM, &PMI, &OPEN_MPI, &TORCH, &KUBERNETES] {
            debug_assert!(
                launcher.global,
                "a rank on one machine is not a rank of the job"
            );
            let told = launcher.told(variables)?;
            agree("rank", &mut rank, told.0)?;
            agree("size", &mut size, told.1)?;
        }
        if let (Some((rank, rank_from)), Some((size, size_from))) = (rank, size)
            && rank >= size
        {
            let message = format!(
                "rank {rank} ({rank_from}) is not below size {size} ({size_from}); correct one of them"
            );
            return Err(BackendError::contradiction(Name::Tcp, message));
        }
        for (variable, told) in [(COBRE_TCP.rank, rank), (COBRE_TCP.sizes[0], size)] {
            if let Some((number, from)) = told.filter(|(_, from)| *from != variable) {
                filled.push(Filled {
                    variable,
                    value: number.to_string(),
                    from,
                });
            }
        }
    }
    let addresses = [
        ("COBRE_TCP_COORDINATOR", "MASTER_ADDR"),
        ("COBRE_TCP_PORT", "MASTER_PORT"),
    ];
    for (variable, from) in addresses {
        if value(variables, variable).is_none()
            && let Some(text) = value(variables, from)
        {
            filled.push(Filled {
                variable,
                value: text.to_owned(),
                from,
            });
        }
    }
    let coordinator_known = value(variables, "COBRE_TCP_COORDINATOR").is_some()
        || filled
            .iter()
            .any(|filled| filled.variable == "COBRE_TCP_COORDINATOR");
    if !coordinator_known && real_step(variables) {
        let from = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"];
        if let Some(from) = first_set(variables, &from)
            && let Some(host) = value(variables, from).and_then(first_host)
        {
            filled.push(Filled {
                variable: "COBRE_TCP_COORDINATOR",
                value: host,
                from,
            });
        }
    }
    Ok(filled)
}

fn agree(what: &str, known: &mut Told, told: Told) -> Result<(), BackendError> {
    match (*known, told) {
        (Some((a, a_from)), Some((b, b_from))) if a != b => {
            let message = format!(
                "{a_from}={a} and {b_from}={b} disagree about the {what}; unset what does not belong to this job"
            );
            Err(BackendError::contradiction(Name::Tcp, message))
        }
        (None, told) => {
            *known = told;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the first host of a SLURM list: `node[07-09,12],login` begins with `node07`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find(',').unwrap_or(list.len());
    let host = match list.find('[') {
        Some(open) if open < end => {
            let (ranges, rest) = list[open + 1..].split_once(']')?;
            let first = ranges.split([',', '-']).next()?;
            let suffix = rest.split(',').next()?;
            if suffix.contains('[') {
                return None;
            }
            format!("{}{first}{suffix}", &list[..open])
        }
        _ => list[..end].to_owned(),
    };
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::first_host;

    #[rstest]
    #[case("node1", Some("node1"))]
    #[case("node1,node2", Some("node1"))]
    #[case("node[07-09,12],login", Some("node07"))]
    #[case("a,node[07-09]", Some("a"))]
    #[case("rack[1-2]n", Some("rack1n"))]
    #[case("rack[1-2]n[3-4]", None)]
    #[case("node[1-2", None)]
    #[case("", None)]
    fn finds_the_first_host(#[case] list: &str, #[case] expected: Option<&str>) {
        assert_eq!(first_host(list).as_deref(), expected);
    }
}
