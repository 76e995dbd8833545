//! Starts a rank on systems without [`vfork`](crate::start::vfork): between fork and exec the rank ties its life to the starter's.
//!
//! # Safety
//!
//! Only the calling thread exists in the forked child; a lock that another thread held is never
//! released.
//!
//! - I1: the hook calls only async-signal-safe functions: plain system calls, no allocation, no
//!   lock, no panic that allocates.
//! - I2: the hook owns what it uses (numbers, and counted references that keep the warden's pipe
//!   and the passed descriptors open), so it borrows nothing that could be gone when the command is spawned.

#![expect(
    unsafe_code,
    reason = "pre_exec is the only place where a rank can enlist before its program runs"
)]

use std::io::{self, PipeWriter};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Resource, Rlimit, getpid, setrlimit};

use crate::start::{Leader, Passed, Start};
use crate::supervise::warden::enlistment;

/// Starts the process, and returns when its program runs.
pub(super) fn spawn(start: &Start) -> io::Result<Leader> {
    let mut command = Command::new(&start.program);
    command.args(&start.args);
    command.env_clear().envs(&start.variables);
    if let Some(folder) = &start.folder {
        command.current_dir(folder);
    }
    command.process_group(0);
    command.stdin(start.null.try_clone()?);
    let (stdout, to_stdout) = io::pipe()?;
    let (stderr, to_stderr) = io::pipe()?;
    command.stdout(to_stdout).stderr(to_stderr);
    let (warden, passed, limit) = (start.warden.clone(), start.passed.clone(), start.limit);
    let hook = move || prepare(warden.as_ref(), &passed, limit);
    // SAFETY: I1, `prepare` makes system calls on data of the stack only; I2, the closure is `move`.
    unsafe { command.pre_exec(hook) };
    Ok(Leader {
        pid: Pid::from_child(&command.spawn()?),
        pipes: (stdout.into(), stderr.into()),
    })
}

fn prepare(
    warden: Option<&Arc<PipeWriter>>,
    passed: &[Passed],
    limit: Option<Rlimit>,
) -> io::Result<()> {
    if let Some(pipe) = warden {
        // Before the program runs, so that it can never start a process before the warden knows its
        // group.
        let mut line = [0; 32];
        let line = enlistment(getpid(), &mut line);
        rustix::io::retry_on_intr(|| rustix::io::write(pipe, line))?;
    }
    for passed in passed {
        fcntl_setfd(passed.as_fd(), FdFlags::empty())?;
    }
    if let Some(limit) = limit {
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}
