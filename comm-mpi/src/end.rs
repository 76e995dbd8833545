//! From `MPI_Init` to the end of MPI at process exit: an orderly end, or one of the whole job.
//!
//! Finalizing waits for the other ranks, so it is correct only if no rank waits for this one. A rank that
//! exits with 0 and has dropped its communicators finalizes MPI. A rank that exits with another code, or
//! while a communicator is alive, or after an error that the others did not get, ends the job through
//! `MPI_Abort`: with its code, or with 1.
//!
//! A hook of the process, [`comm_kit::exit`], gets the code. Where the system supports no such hook, MPI is
//! finalized when its thread ends, before the code is known.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use comm_kit::{Owner, exit};
use ferrompi::{Communicator, Error, Mpi, ThreadLevel};

/// How long a rank that ends the job lets all ranks write their output: launchers lose output that they have
/// not read when they end a job.
const GRACE: Duration = Duration::from_millis(500);

/// After this time, a rank that failed and keeps running ends the job: its output has been read by then.
const LINGER: Duration = Duration::from_secs(1);

/// MPI of this process; a process can initialise it only once.
static END: OnceLock<End> = OnceLock::new();

thread_local! {
    /// MPI, on the thread that initialised it. It has no destructor, so the hook still finds it after all
    /// destructors have run.
    static MPI: Cell<Option<ManuallyDrop<Mpi>>> = const { Cell::new(None) };
    /// Whether this thread ends the job: `MPI_Abort` exits, and therefore calls the hook again.
    static ENDS_THE_JOB: Cell<bool> = const { Cell::new(false) };
    /// Finalizes MPI at the end of its thread, where there is no hook.
    static THREAD_END: Cell<Option<ThreadEnd>> = const { Cell::new(None) };
}

struct ThreadEnd;

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        if let Some(end) = current().filter(|end| end.is_over()) {
            end.finalize();
        }
    }
}

/// MPI of this process, and how it ends.
pub(crate) struct End {
    owner: Owner,
    level: ThreadLevel,
    world: Communicator,
    /// How many communicators that `init` created are alive, or have left others alive.
    in_use: AtomicUsize,
    /// Whether a thread is inside MPI; checked where MPI admits one thread at a time.
    pub(crate) inside: AtomicBool,
    /// Whether this rank failed while the others may be waiting for it.
    is_broken: AtomicBool,
    /// Whether a thread ends MPI, or the job.
    is_ending: AtomicBool,
    keeper: Mutex<Option<Keeper>>,
    /// What to do before MPI is finalized.
    last: Mutex<Vec<Last>>,
}

type Last = Box<dyn FnOnce() + Send>;

/// A dedicated thread that initialised MPI, and finalizes it.
struct Keeper {
    finalize: Sender<()>,
    thread: JoinHandle<()>,
}

/// Returns MPI of this process, if it was initialised here and not by a parent process.
pub(crate) fn current() -> Option<&'static End> {
    END.get().filter(|end| end.owner.is_here())
}

/// Initialises MPI, and runs `more` with it.
///
/// The thread that initialises MPI must finalize it. The main thread exists until the process ends; any other
/// thread may end long before, so a dedicated thread is used in its place.
pub(crate) fn begin<F>(more: F) -> Result<&'static End, Error>
where
    F: FnOnce(&Mpi) -> Result<(), Error> + Send + 'static,
{
    let on_main_thread = exit::on_main_thread() != Some(false);
    let (end, more) = if on_main_thread || !exit::IS_SUPPORTED {
        let mpi = Mpi::init_thread(ThreadLevel::Multiple)?;
        let end = End::of(mpi.thread_level(), mpi.world(), None);
        let more = more(&mpi);
        MPI.set(Some(ManuallyDrop::new(mpi)));
        (end, more)
    } else {
        keep(more)?
    };
    let end = END.get_or_init(|| end);
    if !exit::on_exit(exited) {
        THREAD_END.set(Some(ThreadEnd));
    }
    more.map(|()| end)
}

/// Initialises MPI on a dedicated thread.
fn keep<F>(more: F) -> Result<(End, Result<(), Error>), Error>
where
    F: FnOnce(&Mpi) -> Result<(), Error> + Send + 'static,
{
    let (finalize, told) = mpsc::channel();
    let (started, start) = mpsc::channel();
    let thread = thread::Builder::new().name("mpi".to_owned());
    let thread = thread.spawn(move || {
        let mpi = match Mpi::init_thread(ThreadLevel::Multiple) {
            Ok(mpi) => ManuallyDrop::new(mpi),
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        };
        let more = more(&mpi);
        let _ = started.send(Ok((mpi.thread_level(), mpi.world(), more)));
        if told.recv().is_ok() {
            drop(ManuallyDrop::into_inner(mpi));
        }
    });
    let thread = thread.map_err(|error| Error::Internal(error.to_string()))?;
    let lost = |_| Error::Internal("the thread that initialises MPI panicked".to_owned());
    let (level, world, more) = start.recv().map_err(lost)??;
    let keeper = Keeper { finalize, thread };
    Ok((End::of(level, world, Some(keeper)), more))
}

/// Ends MPI when the process exits.
fn exited(code: u8) {
    // A forked child has no MPI.
    if let Some(end) = current() {
        end.exit(code);
    }
}

impl End {
    fn of(level: ThreadLevel, world: Communicator, keeper: Option<Keeper>) -> Self {
        Self {
            owner: Owner::mark(),
            level,
            world,
            in_use: AtomicUsize::new(0),
            inside: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            keeper: Mutex::new(keeper),
            last: Mutex::default(),
        }
    }

    pub(crate) fn level(&self) -> ThreadLevel {
        self.level
    }

    pub(crate) fn world(&self) -> &Communicator {
        &self.world
    }

    /// Returns whether MPI lets this thread call it at all.
    pub(crate) fn permits_this_thread(&self) -> bool {
        self.level >= ThreadLevel::Serialized || is_mpi_here()
    }

    /// Records that a communicator of this process is alive.
    pub(crate) fn enter_use(&self) {
        self.in_use.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a communicator of this process is gone.
    pub(crate) fn leave_use(&self) {
        // Release: what the threads of a communicator did with MPI happens before the end.
        self.in_use.fetch_sub(1, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        // Acquire: pairs with the release of every communicator.
        self.in_use.load(Ordering::Acquire) == 0
    }

    /// Records that this rank failed in a way that the others do not know about.
    #[cold]
    pub(crate) fn fail(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Ends the job soon if this rank failed, because the rank takes part in no call any longer. A short
    /// delay lets the program report the error, and exit with its own code.
    pub(crate) fn left(&'static self) {
        if !self.is_broken.load(Ordering::Relaxed) || self.is_alone() {
            return;
        }
        let linger = move || {
            thread::sleep(LINGER);
            self.end_job(1);
        };
        // Only one thread may call MPI, or no thread is left to wait: end the job now.
        if self.level < ThreadLevel::Serialized || thread::Builder::new().spawn(linger).is_err() {
            self.end_job(1);
        }
    }

    /// Ends the job through `MPI_Abort`; returns if another thread does, or this thread may not.
    pub(crate) fn end_job(&self, code: i32) {
        if self.permits_this_thread() && !self.is_ending.swap(true, Ordering::Relaxed) {
            self.abort(code);
        }
    }

    /// Ends the job through `MPI_Abort`, whichever communicator the caller uses.
    ///
    /// Called on the world: on a duplicate of it, MPICH kills the ranks one after another, and if its
    /// launcher sees a killed rank first, it returns 9 instead of `code`.
    pub(crate) fn abort(&self, code: i32) -> ! {
        self.is_ending.store(true, Ordering::Relaxed);
        ENDS_THE_JOB.set(true);
        self.world.abort(code)
    }

    fn exit(&self, code: u8) {
        if ENDS_THE_JOB.get() {
            return;
        }
        if self.is_ending.swap(true, Ordering::Relaxed) {
            // Another thread ends the job; an exit would interrupt it.
            thread::sleep(2 * GRACE);
            return;
        }
        let over = self.is_over();
        let can_finalize = is_mpi_here() || self.keeper().is_some();
        let in_peace = code == 0 && !self.is_broken.load(Ordering::Relaxed);
        if over && can_finalize && (in_peace || self.is_alone()) {
            self.finalize();
        } else if !self.is_alone() && self.permits_this_thread() {
            let why = match code {
                0 if !over => "with 0 while a communicator is alive; drop it before exiting",
                0 if in_peace => {
                    "with 0 on a thread that cannot finalize MPI; exit on the main thread"
                }
                0 => "with 0 after an error of MPI",
                _ => "with a code that is not 0",
            };
            let rank = self.world.rank();
            tracing::error!(rank, code, "exits {why}; ending the job through MPI_Abort");
            thread::sleep(GRACE);
            self.abort(i32::from(code.max(1)));
        }
    }

    fn is_alone(&self) -> bool {
        self.world.size() == 1
    }

    fn keeper(&self) -> std::sync::MutexGuard<'_, Option<Keeper>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores what has to be done before MPI is finalized; dropped if MPI is not finalized.
    pub(crate) fn before_finalizing(&self, last: impl FnOnce() + Send + 'static) {
        self.last().push(Box::new(last));
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Vec<Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finalizes MPI on the thread that initialised it; waits for the other ranks.
    fn finalize(&self) {
        let last = std::mem::take(&mut *self.last());
        if self.permits_this_thread() {
            for last in last {
                last();
            }
        } else {
            // Their drops would call MPI.
            std::mem::forget(last);
        }
        if let Some(Keeper { finalize, thread }) = self.keeper().take() {
            let _ = finalize.send(());
            let _ = thread.join();
        } else if let Some(mpi) = MPI.take() {
            drop(ManuallyDrop::into_inner(mpi));
        }
    }
}

/// Returns whether this thread initialised MPI, and MPI is not finalized.
fn is_mpi_here() -> bool {
    let mpi = MPI.take();
    let is_here = mpi.is_some();
    MPI.set(mpi);
    is_here
}
