//! Runs of the solver as real processes, each with a deadline.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comm_run::{Backend, Job, Line, OnFailure, Outcome};

use super::ROLE;

/// A backend and a number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Local,
    Shm(usize),
    Tcp(usize),
    #[cfg(feature = "mpi")]
    Mpi(usize),
}

impl Transport {
    /// Returns the number of ranks.
    pub(crate) fn ranks(self) -> usize {
        match self {
            Self::Local => 1,
            Self::Shm(ranks) | Self::Tcp(ranks) => ranks,
            #[cfg(feature = "mpi")]
            Self::Mpi(ranks) => ranks,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Local => "local x 1".to_owned(),
            Self::Shm(ranks) => format!("shm x {ranks}"),
            Self::Tcp(ranks) => format!("tcp x {ranks}"),
            #[cfg(feature = "mpi")]
            Self::Mpi(ranks) => format!("mpi x {ranks}"),
        }
    }
}

/// The end of a run and its output.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    /// Every line of every rank, with the rank in front.
    pub(crate) lines: Vec<String>,
}

impl Ran {
    /// Returns the lines as one text.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// The role of a rank of the unmodified solver.
pub(crate) const RANK: &str = "rank";

/// How long one run may take; usually it takes a second.
const LIMIT: Duration = Duration::from_mins(1);

/// Prepares a run of this binary as `role`, with arguments separated by blanks. If a rank fails, the launcher does not end the others:
/// they must end by themselves.
pub(crate) fn prepare(transport: Transport, role: &str, arguments: &str) -> Result<Job, String> {
    let own = std::env::current_exe()
        .map_err(|why| format!("the path of this program is unknown: {why}"))?;
    let job = match transport {
        Transport::Local => Job::new(own, 1).env("COBRE_COMM_BACKEND", "local"),
        Transport::Shm(ranks) => Job::new(own, ranks).backend(Backend::Shm),
        Transport::Tcp(ranks) => Job::new(own, ranks).backend(Backend::Tcp),
        #[cfg(feature = "mpi")]
        Transport::Mpi(ranks) => super::matrix::mpi::launch(ranks)?.args([own]),
    };
    let words = arguments.split_whitespace();
    Ok(job
        .args(words)
        .env(ROLE, role)
        .on_failure(OnFailure::LetOthersFinish)
        .timeout(LIMIT))
}

/// Runs a job and keeps its output.
pub(crate) fn run(job: Job) -> Result<Ran, String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&lines);
    let job = job.sink(move |line: Line<'_>| {
        let text = format!("[{}] {}", line.rank, String::from_utf8_lossy(line.bytes));
        let mut lines = heard.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(text);
        Ok(())
    });
    let outcome = job
        .run()
        .map_err(|why| format!("it did not start: {why}"))?;
    let lines = lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Ran { outcome, lines })
}

/// Runs the solver with these arguments and a checkpoint, and returns the file. Fails if the solver fails.
pub(crate) fn policy(
    transport: Transport,
    arguments: &str,
    file: &Path,
) -> Result<Vec<u8>, String> {
    let words = format!("{arguments} --checkpoint {}", file.display());
    let ran = run(prepare(transport, RANK, &words)?)?;
    if !ran.outcome.success() {
        return Err(format!(
            "{}: {:?}\n{}",
            transport.name(),
            ran.outcome.ending,
            ran.text()
        ));
    }
    std::fs::read(file).map_err(|why| format!("{}: {why}", file.display()))
}

/// Creates a scratch folder that is removed when it is dropped.
pub(crate) fn scratch() -> Result<(tempfile::TempDir, PathBuf), String> {
    let folder = tempfile::tempdir().map_err(|why| format!("no scratch folder: {why}"))?;
    let file = folder.path().join("policy");
    Ok((folder, file))
}
