//! Other launchers, for backends whose ranks find each other through their own launcher.

use std::ffi::OsString;
use std::process::Command;

/// Describes the program that starts the ranks if it is not `comm-run`: an `mpiexec`.
///
/// The suite appends its own program to the arguments and expects one rank of it per rank of the world. The
/// launcher must pass its environment on, and exit with 0 only if all ranks did.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) rank: Vec<&'static str>,
    pub(crate) most: usize,
}

/// The maximum number of calls of one kind where ranks outnumber cores: MPI waits without yielding, so a call
/// takes as long as a turn of the scheduler.
const MOST: usize = 200;

impl Launcher {
    /// Makes MPI libraries yield where ranks outnumber cores. Open MPI has a setting for that. MPICH's
    /// collectives for shared memory never yield, which costs 8 ms per barrier, so other collectives are
    /// selected.
    pub const YIELDING: [(&'static str, &'static str); 5] = [
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ("MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM", "mpir"),
        ("MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "mpir"),
        ("MPIR_CVAR_BARRIER_POSIX_INTRA_ALGORITHM", "mpir"),
        ("MPIR_CVAR_REDUCE_POSIX_INTRA_ALGORITHM", "mpir"),
    ];

    /// Uses the `mpiexec` of MPICH or Open MPI to start `world` ranks.
    pub fn mpi(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        world: usize,
    ) -> Self {
        let mut launcher = Self::new(program, arguments)
            .rank_in("PMI_RANK")
            .rank_in("OMPI_COMM_WORLD_RANK");
        let ranks = ["-n".to_owned(), world.to_string()];
        launcher.arguments.extend(ranks.map(Into::into));
        for (name, value) in Self::YIELDING {
            launcher = launcher.env(name, value);
        }
        if world > std::thread::available_parallelism().map_or(1, usize::from) {
            launcher = launcher.at_most(MOST);
        }
        launcher
    }

    /// Sets the program and its arguments.
    pub fn new(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: Vec::new(),
            rank: Vec::new(),
            most: usize::MAX,
        }
    }

    /// Returns a command that starts something other than the suite.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        command.args(&self.arguments).envs(variables);
        command
    }

    /// Adds a variable to the environment of the launcher.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Limits the number of calls in cases that make thousands, for launchers under which each takes
    /// milliseconds.
    #[must_use]
    pub fn at_most(mut self, calls: usize) -> Self {
        self.most = calls;
        self
    }

    /// Names a variable that tells a process its rank; the first that is set counts.
    #[must_use]
    pub fn rank_in(mut self, variable: &'static str) -> Self {
        self.rank.push(variable);
        self
    }
}
