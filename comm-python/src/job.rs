//! A job of Python processes: `comm_run::Job` with a queue for its output and unnamed files for its calls and results.
//!
//! Every rank inherits three descriptors, and their numbers are the last arguments of its command: the call, which all ranks read; its
//! record, to which it writes the result of the call; its stack, to which it writes its Python stack when a signal ends it. The files
//! have no names, so nothing stays behind even if all processes are killed.
//!
//! Python reads the lines on the thread that called `run`, and writes them to the `sys.stdout` of that moment.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comm_run::{Backend, Ending, Exit, Handle, Line, LineEnd, RankOutcome, Running, Signal};
use comm_run::{Sink, StartError, Stream};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// How often a caller that waits for lines checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// How many bytes are gathered before they are passed on, when lines arrive faster than they are read.
const GATHER_BYTES: usize = 64 << 10;
/// How many gathered pieces may wait before the ranks have to wait.
const QUEUE: usize = 4;

/// A piece of output: the rank, whether it wrote to standard error, the bytes, and whether the line has ended.
type Piece = (usize, bool, Vec<u8>, bool);

/// The same for Python.
type Shown = (usize, bool, Py<PyBytes>, bool);

/// How a rank ended.
#[derive(Debug)]
#[pyclass(module = "cobre_comm._native", frozen, get_all)]
pub(crate) struct RankEnd {
    /// Its exit code.
    code: Option<i32>,
    /// The number of the signal that killed it, if one did.
    signal: Option<i32>,
    /// Whether the launcher had asked it to end.
    asked: bool,
    /// The time from the start of the job to its end.
    seconds: f64,
    /// The last lines it wrote, 20 of each stream.
    output: String,
}

/// A running job. Dropping it ends the job.
#[derive(Debug)]
#[pyclass(module = "cobre_comm._native", frozen)]
pub(crate) struct Job {
    // Dropped before the job: a sink that waits for room in the queue must notice that the reader is gone.
    pieces: Mutex<Option<Receiver<Vec<Piece>>>>,
    running: Mutex<Option<Running>>,
    handle: Handle,
    records: Vec<Mutex<Option<File>>>,
    stacks: Vec<Mutex<Option<File>>>,
}

#[pymethods]
impl Job {
    /// Starts `ranks` processes of `command`, and appends the descriptors of the call, the record and the stack as arguments.
    #[new]
    #[pyo3(signature = (command, ranks, backend, timeout, call))]
    fn new(
        py: Python<'_>,
        command: Vec<OsString>,
        ranks: usize,
        backend: &str,
        timeout: Option<f64>,
        call: Vec<Bound<'_, PyBytes>>,
    ) -> PyResult<Self> {
        let backend = match backend {
            "shm" => Backend::Shm,
            "tcp" => Backend::Tcp,
            other => return Err(PyValueError::new_err(format!("backend: {other:?}"))),
        };
        let timeout = timeout.map(Duration::try_from_secs_f64).transpose();
        let timeout =
            timeout.map_err(|error| PyValueError::new_err(format!("timeout: {error}")))?;
        let mut words = command.into_iter();
        let program = words.next().unwrap_or_default();
        let mut job = comm_run::Job::new(program, ranks).args(words);
        job = job.backend(backend).live(0);
        if let Some(timeout) = timeout {
            job = job.timeout(timeout);
        }
        let (sender, pieces) = sync_channel(QUEUE);
        let job = job.sink(Feed::new(sender));
        let call = call_file(call).map_err(|error| no_room("keep the call of", &error))?;
        let files = with_files(job, ranks, &call);
        let (job, records, stacks) = files.map_err(|error| no_room("create files for", &error))?;
        let running = py.detach(|| job.start()).map_err(|error| refused(&error))?;
        Ok(Self {
            pieces: Mutex::new(Some(pieces)),
            handle: running.handle(),
            running: Mutex::new(Some(running)),
            records: records
                .into_iter()
                .map(|file| Mutex::new(Some(file)))
                .collect(),
            stacks: stacks
                .into_iter()
                .map(|file| Mutex::new(Some(file)))
                .collect(),
        })
    }

    /// Waits for the next pieces of output; returns `None` at the end. Ctrl-C raises `KeyboardInterrupt` here.
    fn read(&self, py: Python<'_>) -> PyResult<Option<Vec<Shown>>> {
        loop {
            let received = py.detach(|| {
                let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
                let pieces = pieces.as_ref().ok_or(RecvTimeoutError::Disconnected)?;
                pieces.recv_timeout(LOOK)
            });
            match received {
                Ok(pieces) => {
                    let pieces = pieces.into_iter().map(|(rank, error, bytes, ended)| {
                        (rank, error, PyBytes::new(py, &bytes).unbind(), ended)
                    });
                    return Ok(Some(pieces.collect()));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Asks the ranks to end, as Ctrl-C does; they are killed half a second later, or at once with `kill`.
    fn stop(&self, kill: bool) {
        self.handle.stop(if kill {
            Signal::Kill
        } else {
            Signal::Interrupt
        });
    }

    /// The process ids of the ranks.
    #[getter]
    fn pids(&self) -> Vec<u32> {
        self.handle.pids()
    }

    /// Waits for the end; returns whether the job timed out, the rank that the launcher blames, and how each rank ended. Call it once,
    /// after `read` has returned `None`.
    fn wait(&self, py: Python<'_>) -> PyResult<(bool, Option<usize>, Vec<RankEnd>)> {
        let running = take(&self.running);
        let running = running.ok_or_else(|| PyRuntimeError::new_err("wait was already called"))?;
        let outcome = py.detach(|| running.wait());
        let ends = outcome.ranks.into_iter().map(RankEnd::from).collect();
        let blamed = match outcome.ending {
            Ending::RankFailed(rank) => Some(rank),
            _ => None,
        };
        Ok((outcome.ending == Ending::TimedOut, blamed, ends))
    }

    /// Returns the descriptor of a rank's record, which the caller then owns.
    fn take_record(&self, rank: usize) -> PyResult<i32> {
        taken(&self.records, rank)
    }

    /// Returns the descriptor of a rank's stack, which the caller then owns.
    fn take_stack(&self, rank: usize) -> PyResult<i32> {
        taken(&self.stacks, rank)
    }
}

impl From<RankOutcome> for RankEnd {
    fn from(rank: RankOutcome) -> Self {
        let (code, signal) = match rank.exit {
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(number)) => (None, Some(number)),
            Some(Exit::Unknown) | None => (None, None),
        };
        let lines = rank.last_lines.iter();
        let lines = lines.map(|line| String::from_utf8_lossy(&line.bytes) + "\n");
        Self {
            code,
            signal,
            asked: rank.ended_by.is_some(),
            seconds: rank.elapsed.as_secs_f64(),
            output: lines.collect(),
        }
    }
}

/// Gathers lines for the caller.
struct Feed {
    sender: SyncSender<Vec<Piece>>,
    gathered: Vec<Piece>,
    bytes: usize,
}

impl Feed {
    fn new(sender: SyncSender<Vec<Piece>>) -> Self {
        let (gathered, bytes) = (Vec::new(), 0);
        Self {
            sender,
            gathered,
            bytes,
        }
    }
}

impl Sink for Feed {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        let ended = !matches!(line.end, LineEnd::Open | LineEnd::Limit);
        let piece = (
            line.rank,
            line.stream == Stream::Stderr,
            line.bytes.to_vec(),
            ended,
        );
        self.gathered.push(piece);
        self.bytes += line.bytes.len() + 1;
        if self.bytes < GATHER_BYTES {
            Ok(())
        } else {
            self.flush()
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.bytes = 0;
        match std::mem::take(&mut self.gathered) {
            gathered if gathered.is_empty() => Ok(()),
            gathered => self.sender.send(gathered).map_err(io::Error::other),
        }
    }
}

/// Writes the call to a file, which all ranks read.
fn call_file(pieces: Vec<Bound<'_, PyBytes>>) -> io::Result<Arc<OwnedFd>> {
    let mut file = tempfile::tempfile()?;
    for piece in pieces {
        file.write_all(piece.as_bytes())?;
    }
    // A clone is never one of the first three descriptors: a caller may have closed those, and a rank uses them for its streams.
    Ok(Arc::new(OwnedFd::from(file.try_clone()?)))
}

/// Passes the three files to every rank, and returns those that the ranks write.
fn with_files(
    mut job: comm_run::Job,
    ranks: usize,
    call: &Arc<OwnedFd>,
) -> io::Result<(comm_run::Job, Vec<File>, Vec<File>)> {
    let (mut records, mut stacks) = (Vec::new(), Vec::new());
    for rank in 0..ranks {
        let (record, stack) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let passed = [
            OwnedFd::from(record.try_clone()?),
            OwnedFd::from(stack.try_clone()?),
        ]
        .map(Arc::new);
        for descriptor in [call].into_iter().chain(&passed) {
            job = job.rank_args(rank, [descriptor.as_raw_fd().to_string()]);
            job = job.pass_descriptor(rank, Arc::clone(descriptor));
        }
        records.push(record);
        stacks.push(stack);
    }
    Ok((job, records, stacks))
}

fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn taken(files: &[Mutex<Option<File>>], rank: usize) -> PyResult<i32> {
    let file = files.get(rank).and_then(take);
    let file = file.ok_or_else(|| {
        PyValueError::new_err(format!("the file of rank {rank} was already taken"))
    })?;
    Ok(file.into_raw_fd())
}

fn no_room(what: &str, error: &io::Error) -> PyErr {
    let folder = std::env::temp_dir();
    PyOSError::new_err(format!(
        "cannot {what} the ranks in {}: {error}; free space there, or set TMPDIR to another folder",
        folder.display()
    ))
}

fn refused(error: &StartError) -> PyErr {
    match error {
        StartError::NoRanks | StartError::TooFewProcessors { .. } => {
            PyValueError::new_err(format!("ranks: {error}"))
        }
        _ => PyOSError::new_err(format!("the ranks cannot be started: {error}")),
    }
}
