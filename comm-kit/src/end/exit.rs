//! A hook that runs with the exit code of the process, where the system provides it.
//!
//! Destructors of thread-locals and `atexit` handlers do not see the exit code. glibc's `on_exit` handlers
//! do, both when `main` returns and when `exit` is called.
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

/// Whether the system can pass the exit code to a hook.
pub const IS_SUPPORTED: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

/// Registers `hook` to be called with the exit code of this process (the byte that the parent sees) when
/// `main` returns or `exit` is called. Returns whether the system supports this.
///
/// The hook runs on the exiting thread, after the destructors of that thread's thread-locals and before all
/// handlers that were registered earlier. A forked child inherits the hook. A process that is ended by a
/// signal or `_exit` does not call it. There is one hook: the first one stays.
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

/// Returns whether the calling thread is the main thread; not known on systems other than Linux.
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
