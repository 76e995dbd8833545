//! What happens in a rank between fork and exec: it ties its life to the starter's.
//!
//! # Safety
//!
//! Only the calling thread exists in the forked child; a lock another thread held stays locked for
//! ever.
//!
//! - I1: the hook calls only async-signal-safe functions: plain system calls, no allocation, no
//!   lock, no panic that allocates.
//! - I2: the hook owns what it uses (a number, and counted references that keep the warden's pipe
//!   and the descriptors that are passed on open), so it borrows nothing that could be gone when the command is spawned.

#![expect(
    unsafe_code,
    reason = "pre_exec is the only place where the parent-death signal can be asked for"
)]

use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, getpid};

use crate::warden::enlistment;

/// Passes a descriptor on to the process that `command` starts, under the same number, and to no
/// other process: the descriptor here stays close-on-exec.
pub(crate) fn pass_on<F: AsFd + Send + Sync + 'static>(command: &mut Command, passed: Arc<F>) {
    let hook = move || Ok(fcntl_setfd(&*passed, FdFlags::empty())?);
    // SAFETY: I1, one system call; I2, the closure is `move`.
    unsafe { command.pre_exec(hook) };
}

/// Binds the process that `command` starts, with all its threads, to one processor.
#[cfg(target_os = "linux")]
pub(crate) fn bind(command: &mut Command, processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let hook = move || Ok(rustix::thread::sched_setaffinity(None, &set)?);
    // SAFETY: I1, one system call; I2, the closure is `move`.
    unsafe { command.pre_exec(hook) };
}

/// Never called: no processor is chosen here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(_: &mut Command, _: usize) {}

/// Makes the process that `command` starts the leader of a group of its own, which ends with the
/// starter.
///
/// The parent-death signal fires when the *thread* that spawned ends, so that thread must live as
/// long as the rank.
pub(crate) fn tie_to_starter(command: &mut Command, warden: Option<Arc<PipeWriter>>) {
    command.process_group(0);
    let starter = getpid();
    let hook = move || tie(starter, warden.as_deref());
    // SAFETY: I1, `tie` makes system calls on the stack's data only; I2, the closure is `move`.
    unsafe { command.pre_exec(hook) };
}

fn tie(starter: Pid, warden: Option<&PipeWriter>) -> io::Result<()> {
    if let Some(pipe) = warden {
        // Before the program runs, so that there is no moment in which it could start something the
        // warden has not heard of.
        let mut line = [0; 32];
        let line = enlistment(getpid(), &mut line);
        rustix::io::retry_on_intr(|| rustix::io::write(pipe, line))?;
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The starter may have died before the line above; then nobody will send the signal.
        if getppid() != Some(starter) {
            return Err(rustix::io::Errno::SRCH.into());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = starter;
    Ok(())
}
