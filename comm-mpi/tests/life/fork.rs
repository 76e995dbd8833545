//! Forks, in one place.
//!
//! # Safety
//!
//! - **F1** The child does what any thread may do after a fork in a process with one thread that
//!   matters: it calls, drops and ends.
#![expect(unsafe_code, reason = "fork has no safe interface")]

/// Runs `child` in a forked process, which ends with 0 unless it panics; returns whether it ended well.
pub(crate) fn ends_well(child: impl FnOnce()) -> bool {
    // SAFETY: F1, upheld by the callers, which are tests.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child();
        std::process::exit(0);
    }
    let mut status = 1;
    // SAFETY: `status` outlives the call, and `pid` is a child that no other code waits for.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    waited == pid && status == 0
}
