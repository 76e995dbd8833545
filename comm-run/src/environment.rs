//! The variables a rank starts with: a pure function of the launcher's own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Holds the variables of one process, by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// Says which rank of which job a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat<'a> {
    /// What sets this job apart from every other, unguessable.
    pub job: &'a str,
    /// The rank, below `size`.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
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

/// As [`FOREIGN_PREFIXES`], where the prefix also holds what should reach the ranks: a SLURM
/// allocation stays, the step's task does not; a timeout of ours stays, an identity does not.
const FOREIGN_NAMES: &[&str] = &[
    "ALPS_APP_PE",
    "COBRE_COMM_BACKEND",
    "COBRE_JOB_ID",
    "COBRE_SHM_NAME",
    "COBRE_SHM_RANK",
    "COBRE_SHM_SIZE",
    "COBRE_TCP_COORDINATOR",
    "COBRE_TCP_LISTEN_FD",
    "COBRE_TCP_PORT",
    "COBRE_TCP_RANK",
    "COBRE_TCP_SECRET",
    "COBRE_TCP_SECRET_FILE",
    "COBRE_TCP_SIZE",
    "FLUX_TASK_LOCAL_ID",
    "FLUX_TASK_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "JOB_COMPLETION_INDEX",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "RANK",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "SLURM_GTIDS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_STEPID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASK_PID",
    "WORLD_SIZE",
];

/// Returns the variables of the rank in `seat`: `inherited` without any launcher's identity, plus
/// this job's own.
///
/// ```
/// use comm_run::{Seat, Variables, environment};
/// use std::ffi::OsStr;
///
/// let inherited = Variables::from([("PMI_RANK".into(), "5".into()), ("LANG".into(), "C".into())]);
/// let variables = environment(&inherited, Seat { job: "f00d", rank: 1, size: 4 });
/// assert_eq!(variables[OsStr::new("RANK")], "1");
/// assert_eq!(variables[OsStr::new("COBRE_SHM_NAME")], "cobre-f00d");
/// assert_eq!(variables[OsStr::new("LANG")], "C");
/// assert!(!variables.contains_key(OsStr::new("PMI_RANK")));
/// ```
#[must_use]
pub fn environment(inherited: &Variables, seat: Seat<'_>) -> Variables {
    let kept = inherited.iter().filter(|(name, _)| !is_foreign(name));
    let mut variables: Variables = kept
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let (rank, size) = (seat.rank.to_string(), seat.size.to_string());
    let own = [
        ("COBRE_COMM_BACKEND", "shm"),
        ("COBRE_JOB_ID", seat.job),
        ("COBRE_SHM_NAME", &format!("cobre-{}", seat.job)),
        ("COBRE_SHM_RANK", &rank),
        ("COBRE_SHM_SIZE", &size),
        // What torchrun sets, for programs that ask no particular backend.
        ("LOCAL_RANK", &rank),
        ("LOCAL_WORLD_SIZE", &size),
        ("RANK", &rank),
        ("WORLD_SIZE", &size),
    ];
    variables.extend(own.map(|(name, value)| (name.into(), value.into())));
    variables
}

fn is_foreign(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    FOREIGN_PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix.as_bytes()))
        || FOREIGN_NAMES
            .iter()
            .any(|foreign| name == foreign.as_bytes())
}

/// Returns 80 random bits in hexadecimal: short enough for the 31 characters macOS allows a
/// segment's name.
pub(crate) fn fresh_job_id() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes[6..]).map_err(std::io::Error::other)?;
    Ok(format!("{:020x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::{Seat, Variables, environment, fresh_job_id};
    use std::ffi::OsStr;

    const SEAT: Seat<'_> = Seat {
        job: "0123",
        rank: 2,
        size: 3,
    };

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    #[test]
    fn an_empty_environment_gets_the_job_and_nothing_else() {
        let expected = variables(&[
            ("COBRE_COMM_BACKEND", "shm"),
            ("COBRE_JOB_ID", "0123"),
            ("COBRE_SHM_NAME", "cobre-0123"),
            ("COBRE_SHM_RANK", "2"),
            ("COBRE_SHM_SIZE", "3"),
            ("LOCAL_RANK", "2"),
            ("LOCAL_WORLD_SIZE", "3"),
            ("RANK", "2"),
            ("WORLD_SIZE", "3"),
        ]);
        assert_eq!(environment(&Variables::new(), SEAT), expected);
    }

    #[test]
    fn identities_of_other_launchers_and_jobs_are_cleared() {
        for name in [
            "PMI_RANK",
            "PMI_FD",
            "PMIX_RANK",
            "PMIX_SERVER_URI41",
            "OMPI_COMM_WORLD_RANK",
            "OMPI_MCA_ess_base_vpid",
            "MPI_LOCALRANKID",
            "MV2_COMM_WORLD_RANK",
            "SLURM_PROCID",
            "SLURM_STEP_ID",
            "JOB_COMPLETION_INDEX",
            "MASTER_ADDR",
            "TORCHELASTIC_RUN_ID",
            "COBRE_TCP_COORDINATOR",
            "COBRE_TCP_RANK",
            "COBRE_TCP_SECRET",
            "COBRE_TCP_LISTEN_FD",
        ] {
            let result = environment(&variables(&[(name, "7")]), SEAT);
            assert!(!result.contains_key(OsStr::new(name)), "{name} stayed");
        }
    }

    #[test]
    fn what_the_user_chose_stays() {
        for name in [
            "PATH",
            "PMI",
            "OMP_NUM_THREADS",
            "SLURM_JOB_ID",
            "SLURM_NNODES",
            "I_MPI_FABRICS",
            "COBRE_SHM_TIMEOUT_SECS",
            "COBRE_TCP_CONNECT_TIMEOUT_MS",
            "COBRE_COMM_CHECK",
            "MY_RANK",
        ] {
            let result = environment(&variables(&[(name, "7")]), SEAT);
            assert_eq!(
                result.get(OsStr::new(name)).map(AsRef::as_ref),
                Some(OsStr::new("7")),
                "{name}"
            );
        }
    }

    #[test]
    fn an_outer_job_is_replaced_whole() {
        let outer = environment(
            &Variables::new(),
            Seat {
                job: "outer",
                rank: 0,
                size: 9,
            },
        );
        assert_eq!(
            environment(&outer, SEAT),
            environment(&Variables::new(), SEAT)
        );
    }

    #[test]
    fn job_ids_are_fresh_and_fit_every_platform() {
        let (one, two) = (fresh_job_id().unwrap(), fresh_job_id().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), 20);
        assert!("/cobre-".len() + one.len() <= 31);
    }
}
