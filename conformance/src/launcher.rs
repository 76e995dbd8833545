//! Launchers of other makes, for backends whose ranks find each other through theirs.

use std::ffi::OsString;
use std::process::Command;

/// Describes the program that starts the ranks, where it is not `comm-run`: an `mpiexec`.
///
/// The suite appends its own program to the arguments and expects as many ranks of it as the
/// world has; the launcher must pass its environment on, and exit with 0 only if all ranks did.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) rank: Vec<&'static str>,
    pub(crate) most: usize,
}

/// The most calls of one kind where ranks outnumber cores: MPI waits without yielding, and a call
/// takes as long as a turn of the scheduler.
const MOST: usize = 200;

impl Launcher {
    /// Makes MPI libraries yield where ranks outnumber cores. Open MPI does when it is told; the
    /// collectives that MPICH writes for shared memory never do, 8 ms per barrier, so it gets others.
    pub const YIELDING: [(&'static str, &'static str); 5] = [
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ("MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM", "mpir"),
        ("MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "mpir"),
        ("MPIR_CVAR_BARRIER_POSIX_INTRA_ALGORITHM", "mpir"),
        ("MPIR_CVAR_REDUCE_POSIX_INTRA_ALGORITHM", "mpir"),
    ];

    /// Names the `mpiexec` of MPICH or Open MPI that is to start `world` ranks.
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

    /// Names the program and its arguments.
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

    /// Returns a command to start something other than the suite with.
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

    /// Caps the calls of cases that make thousands, where each takes milliseconds.
    #[must_use]
    pub fn at_most(mut self, calls: usize) -> Self {
        self.most = calls;
        self
    }

    /// Names a variable in which it tells a process its rank; the first that is set counts.
    #[must_use]
    pub fn rank_in(mut self, variable: &'static str) -> Self {
        self.rank.push(variable);
        self
    }
}
