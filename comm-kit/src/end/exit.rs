//! How a process ends: a hook that is told the exit code, where the system can tell it.
//!
//! Destructors of thread-locals and `atexit` do not see the code. `on_exit` of glibc does, whether
//! `main` returned it or somebody called `exit`.
//!
//! # Safety
//!
//! - **I1** `ended` has the signature that `on_exit` asks for, ignores its second
//!   argument, and does not unwind: a panic in an `extern "C"` function ends the process.
//! - **I2** It is registered once and only reads a static, which lives as long as its code.
#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "on_exit has no safe interface")
)]

/// Tells whether the system can tell a hook the exit code.
pub const IS_SUPPORTED: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

/// Registers `hook` to be called with the exit code of this process, the byte that its parent sees,
/// when `main` returns or `exit` is called; returns whether the system does so.
///
/// It runs on the thread that exits, after the destructors of that thread's thread-locals and before
/// whatever was registered earlier. A forked child inherits it. A process that a signal or `_exit` ends
/// does not call it. There is one hook: the first one stays.
#[must_use]
pub fn on_exit(hook: fn(u8)) -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    return glibc::register(hook);
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    {
        let _ = hook;
        false
    }
}

/// Returns whether the calling thread is the one that `main` runs on; not known off Linux.
#[must_use]
pub fn on_main_thread() -> Option<bool> {
    #[cfg(target_os = "linux")]
    {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        Some(u32::try_from(thread) == Ok(std::process::id()))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;
    use std::sync::OnceLock;

    static HOOK: OnceLock<fn(u8)> = OnceLock::new();

    unsafe extern "C" {
        fn on_exit(
            function: extern "C" fn(status: c_int, argument: *mut c_void),
            argument: *mut c_void,
        ) -> c_int;
    }

    pub(super) fn register(hook: fn(u8)) -> bool {
        if HOOK.set(hook).is_err() {
            return false;
        }
        // SAFETY: I1 and I2.
        let registered = unsafe { on_exit(ended, null_mut()) };
        registered == 0
    }

    pub(super) extern "C" fn ended(status: c_int, _: *mut c_void) {
        if let Some(hook) = HOOK.get() {
            let [code, ..] = status.to_le_bytes();
            hook(code);
        }
    }
}
