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

impl Launcher {
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

    /// Gives a command to start something other than the suite with.
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
