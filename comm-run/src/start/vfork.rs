//! Starts a process without copying this one (Linux): the child runs in the memory of its parent until it executes the program,
//! and the thread that starts it waits until then.
//!
//! A copy costs more with every megabyte of this process and stops its other threads meanwhile, which shows with 64 ranks.
//! `posix_spawn` avoids the copy too, but cannot tie the life of the child to the starter's before its program runs.
//!
//! # Safety
//!
//! - I1: `clone` returns only when the child has executed its program or ended (`CLONE_VFORK`), so everything that `spawn` borrows or
//!   owns outlives the child's use of it, and no other thread accesses the `Image` meanwhile.
//! - I2: other threads of the parent keep running in the same memory. So the child only makes system calls on the image and on its
//!   own stack: no allocation, no lock, no panic that allocates.
//! - I3: the child has its own stack: [`STACK`] bytes, aligned to 16, that no other code uses until `clone` has returned.
//! - I4: the child runs no handler of its parent: all signals are blocked from before `clone` until the child has reset every
//!   handler to the default, which changes nothing for the parent (no `CLONE_SIGHAND`).
//! - I5: each list of words ends with a null pointer, and every other pointer points to a `CString` that the image keeps.

#![expect(
    unsafe_code,
    reason = "no safe interface starts a process in the memory of its parent"
)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io::{self, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, chdir, getpid, getppid,
    set_parent_process_death_signal, setpgid, setrlimit, waitid,
};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::start::{Leader, Start};
use crate::supervise::warden::enlistment;

/// Far more than the child needs, even without optimisation.
const STACK: usize = 64 << 10;
/// Where a shell looks for programs if `PATH` is not set.
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";
const SHELL: &CStr = c"/bin/sh";

/// Everything the child needs, in the form that system calls take.
struct Image<'a> {
    /// The paths to try, in this order.
    programs: Vec<CString>,
    arguments: Words,
    variables: Words,
    /// The arguments of a shell for a script that names no interpreter; the second one is replaced by the script.
    script: Words,
    folder: Option<CString>,
    /// Standard input, output and error.
    streams: [RawFd; 3],
    passed: Vec<BorrowedFd<'a>>,
    processor: Option<CpuSet>,
    limit: Option<Rlimit>,
    warden: Option<&'a PipeWriter>,
    starter: Pid,
    /// The error if no program is found.
    error: Option<Errno>,
}

/// A null-terminated list of words for `execve`.
struct Words {
    pointers: Vec<*const c_char>,
    _kept: Vec<CString>,
}

impl Words {
    fn new(words: Vec<CString>) -> Self {
        let pointers = words.iter().map(|word| word.as_ptr());
        Self {
            pointers: pointers.chain([ptr::null()]).collect(),
            // Moves the `CString`s, but not the heap memory that the pointers point to.
            _kept: words,
        }
    }
}

/// Starts the process, and returns when its program runs.
///
/// # Errors
///
/// The system's error about the program or its process.
pub(super) fn spawn(start: &Start) -> io::Result<Leader> {
    let (stdout, to_stdout) = pipe()?;
    let (stderr, to_stderr) = pipe()?;
    let null = start.null.as_raw_fd();
    let mut image = Image::new(start, [null, to_stdout.as_raw_fd(), to_stderr.as_raw_fd()])?;
    let pid = clone(&mut image)?;
    if let Some(error) = image.error {
        // It has ended, and no other code knows its process id.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
        return Err(error.into());
    }
    Ok(Leader {
        pid,
        pipes: (stdout, stderr),
    })
}

/// Creates a pipe with other numbers than the standard streams, because the child overwrites those.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    let above = |end: OwnedFd| -> io::Result<OwnedFd> {
        match end.as_raw_fd() {
            0..=2 => Ok(fcntl_dupfd_cloexec(&end, 3)?),
            _ => Ok(end),
        }
    };
    Ok((above(reader.into())?, above(writer.into())?))
}

impl<'a> Image<'a> {
    fn new(start: &'a Start, streams: [RawFd; 3]) -> io::Result<Self> {
        let path = start.variables.get(OsStr::new("PATH"));
        let path = path.map_or(USUAL_PATH, |path| path.as_bytes());
        let program = start.program.as_bytes();
        let arguments = start.args.iter().map(|word| text(word.as_bytes()));
        let arguments: Vec<CString> = [text(program)]
            .into_iter()
            .chain(arguments)
            .collect::<io::Result<_>>()?;
        let script = [SHELL.to_owned(), CString::default()].into_iter();
        let script = script.chain(arguments.iter().skip(1).cloned()).collect();
        let variables = start.variables.iter();
        let variables =
            variables.map(|(name, value)| text(&[name.as_bytes(), value.as_bytes()].join(&b'=')));
        let folder = start.folder.as_ref();
        let folder = folder.map(|folder| text(folder.as_os_str().as_bytes()));
        let processor = start.processor.map(|processor| {
            let mut set = CpuSet::new();
            set.set(processor);
            set
        });
        Ok(Self {
            programs: candidates(program, path)?,
            arguments: Words::new(arguments),
            variables: Words::new(variables.collect::<io::Result<_>>()?),
            script: Words::new(script),
            folder: folder.transpose()?,
            streams,
            passed: start.passed.iter().map(|passed| passed.as_fd()).collect(),
            processor,
            limit: start.limit,
            warden: start.warden.as_deref(),
            starter: getpid(),
            error: None,
        })
    }

    /// Executes the program; returns the error if that fails. Runs in the child: I2.
    fn become_program(&mut self) -> Errno {
        match self.prepare() {
            Ok(()) => self.execute(),
            Err(error) => error,
        }
    }

    fn prepare(&self) -> Result<(), Errno> {
        setpgid(None, None)?;
        if let Some(pipe) = self.warden {
            // Before the program runs, so that it can never start a process before the warden knows its group.
            let mut line = [0; 32];
            let line = enlistment(getpid(), &mut line);
            rustix::io::retry_on_intr(|| rustix::io::write(pipe, line))?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the starter died before the line above, the signal will never be sent.
        if getppid() != Some(self.starter) {
            return Err(Errno::SRCH);
        }
        for (from, to) in self.streams.into_iter().zip(0..) {
            // SAFETY: I2, one system call; the descriptors are the child's own copies.
            if unsafe { libc::dup2(from, to) } < 0 {
                return Err(last_error());
            }
        }
        for passed in &self.passed {
            fcntl_setfd(passed, FdFlags::empty())?;
        }
        if let Some(folder) = &self.folder {
            chdir(folder.as_c_str())?;
        }
        if let Some(set) = &self.processor {
            sched_setaffinity(None, set)?;
        }
        if let Some(limit) = self.limit {
            setrlimit(Resource::Nofile, limit)?;
        }
        heed_signals();
        Ok(())
    }

    /// Tries every path, as `execvp` does.
    fn execute(&mut self) -> Errno {
        let mut result = Errno::NOENT;
        for program in &self.programs {
            let error = execute(program, &self.arguments, &self.variables);
            result = match error {
                Errno::NOEXEC => {
                    self.script.pointers[1] = program.as_ptr();
                    return execute(SHELL, &self.script, &self.variables);
                }
                // A later path may be executable; if none is, this error is the more helpful one.
                Errno::ACCESS => error,
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV => match result {
                    Errno::ACCESS => result,
                    _ => error,
                },
                _ => return error,
            };
        }
        result
    }
}

/// Returns the paths where a program may be.
fn candidates(program: &[u8], path: &[u8]) -> io::Result<Vec<CString>> {
    if program.contains(&b'/') {
        return Ok(vec![text(program)?]);
    }
    if program.is_empty() {
        return Ok(Vec::new());
    }
    let folders = path.split(|&byte| byte == b':');
    let at = |folder: &[u8]| match folder {
        b"" => text(program),
        folder => text(&[folder, program].join(&b'/')),
    };
    folders.map(at).collect()
}

fn text(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn execute(program: &CStr, arguments: &Words, variables: &Words) -> Errno {
    let (arguments, variables) = (arguments.pointers.as_ptr(), variables.pointers.as_ptr());
    // SAFETY: I5; I1 keeps the image.
    unsafe { libc::execve(program.as_ptr(), arguments, variables) };
    last_error()
}

/// Returns the error of the last call of libc, in this thread or in the one that waits for this child: I1.
fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Resets every handler to the default, since the program does not contain the handlers, and unblocks all signals.
fn heed_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: I2, one system call, which fills the action or fails.
        if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
            continue;
        }
        // SAFETY: the call above has filled it.
        let mut action = unsafe { action.assume_init() };
        let is_ignored = action.sa_sigaction == libc::SIG_IGN;
        // Rust ignores SIGPIPE in every program; a rank starts with the default.
        let keeps = is_ignored && signal != libc::SIGPIPE;
        if keeps || action.sa_sigaction == libc::SIG_DFL {
            continue;
        }
        action.sa_sigaction = libc::SIG_DFL;
        // SAFETY: I2, one system call; I4, the handlers are the child's own copies.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
    set_mask(&empty_set());
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: fills the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the call above has filled it.
    unsafe { set.assume_init() }
}

fn full_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: fills the set.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: the call above has filled it.
    unsafe { set.assume_init() }
}

/// Blocks these signals and no others in this thread, and returns which were blocked.
fn set_mask(set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = empty_set();
    // SAFETY: both sets are filled; cannot fail with this request.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, &raw mut before) };
    before
}

/// Starts the child and waits until it has executed its program or failed to.
fn clone(image: &mut Image<'_>) -> io::Result<Pid> {
    let mut stack: Vec<u128> = Vec::with_capacity(STACK / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let before = set_mask(&full_set());
    let argument = (&raw mut *image).cast::<c_void>();
    // SAFETY: I1 to I4; `top` is the end of a stack that grows downwards, and `u128` aligns it.
    let pid = unsafe { libc::clone(child, top.cast(), flags, argument) };
    let failed = io::Error::last_os_error();
    set_mask(&before);
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or(failed)
}

extern "C" fn child(image: *mut c_void) -> c_int {
    // SAFETY: I1, `clone` above passes the image, and no other code uses it until the child has ended.
    let image = unsafe { &mut *image.cast::<Image<'_>>() };
    image.error = Some(image.become_program());
    127
}
