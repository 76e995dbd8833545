//! The measured launchers.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::spawn;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// The launcher of Open MPI sometimes does not notice the end of such short ranks.
const PATIENCE: Duration = Duration::from_secs(5);

/// A launcher, and its option to put the rank in front of a line.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) name: String,
    program: String,
    prefix: &'static [&'static str],
}

impl Launcher {
    /// Returns the builds of `comm-run` from the command line, then the launchers of MPI in PATH.
    pub(crate) fn all(own: &[String]) -> Vec<Self> {
        let ours = own.iter().map(|program| Self {
            name: program.clone(),
            program: program.clone(),
            prefix: &[],
        });
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed = |program: &str| {
            std::env::split_paths(&path).any(|folder| folder.join(Path::new(program)).exists())
        };
        let others: [(&str, &[&str]); 2] = [
            ("mpiexec.mpich", &["-prepend-rank"]),
            ("mpiexec.openmpi", &["--tag-output"]),
        ];
        let others = others.into_iter().filter(|(program, _)| installed(program));
        let others = others.map(|(program, prefix)| Self {
            name: program.into(),
            program: program.into(),
            prefix,
        });
        ours.chain(others).collect()
    }

    /// Builds the command that starts this number of ranks of a program.
    pub(crate) fn command(&self, ranks: usize, prefix: bool, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // Open MPI requires these to start as root, and to start more ranks than cores.
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        command.args(["-n", &ranks.to_string()]);
        if prefix {
            command.args(self.prefix);
        }
        command.args(words);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs ranks to their end; if the launcher hangs, kills it and returns false.
    pub(crate) fn run(&self, ranks: usize, words: &[&str]) -> io::Result<bool> {
        let mut command = self.command(ranks, false, words);
        let mut child = command.stdout(Stdio::null()).spawn()?;
        let pid = Pid::from_child(&child);
        let (ended, end) = channel::<()>();
        let guard = spawn(move || {
            let hangs = end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            // The launcher is not reaped before this thread has ended, so the process id is still its own.
            hangs && kill_process(pid, Signal::KILL).is_ok()
        });
        let exits = || {
            waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            )
        };
        rustix::io::retry_on_intr(exits)?;
        drop(ended);
        let is_killed = guard.join().unwrap_or(false);
        let status = child.wait()?;
        if status.success() || is_killed {
            Ok(!is_killed)
        } else {
            Err(io::Error::other(format!("{}: {status}", self.name)))
        }
    }
}
