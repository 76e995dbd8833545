//! For how long nothing has come from the other end of a socket, as the system saw it.
//!
//! The other end's system confirms what it receives, and answers keepalive, whatever its process does. So silence tells
//! of a host that is gone, or cannot be reached, while the socket still lives and may carry what is to be said then.
//!
//! # Safety
//!
//! - **I1** `getsockopt` writes at most as many bytes as `length` says when it is called, which is the size of `Info`.
//! - **I2** `Info` holds plain integers: any bytes are a value of it.
//! - **I3** The descriptor is open as long as it is borrowed.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "TCP_INFO has no safe interface")
)]

use std::os::fd::AsFd;
use std::time::Duration;

/// Whether the system tells.
pub(super) const IS_KNOWN: bool = cfg!(target_os = "linux");

/// What the system knows of the other end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Silence {
    /// For how long nothing has come, not even a confirmation.
    pub(crate) lasts: Duration,
    /// Something that was sent is not confirmed.
    pub(crate) unconfirmed: bool,
}

/// Returns what the system knows of the other end, where it tells.
pub(crate) fn silence(socket: &impl AsFd) -> Option<Silence> {
    #[cfg(target_os = "linux")]
    return linux::silence(socket.as_fd());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        None
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_int, c_void};
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::time::Duration;

    use super::Silence;

    const IPPROTO_TCP: c_int = 6;
    const TCP_INFO: c_int = 11;

    /// The beginning of `struct tcp_info`, in words of 32 bits.
    type Info = [u32; 15];
    /// How many packets are not confirmed.
    const UNCONFIRMED: usize = 6;
    /// Milliseconds since data came last.
    const LAST_DATA: usize = 13;
    /// Milliseconds since a confirmation came last.
    const LAST_ACK: usize = 14;

    unsafe extern "C" {
        fn getsockopt(
            socket: c_int,
            level: c_int,
            name: c_int,
            value: *mut c_void,
            length: *mut u32,
        ) -> c_int;
    }

    pub(super) fn silence(socket: BorrowedFd<'_>) -> Option<Silence> {
        let mut info: Info = [0; 15];
        let size = size_of::<Info>();
        let mut length = u32::try_from(size).ok()?;
        let value = info.as_mut_ptr().cast::<c_void>();
        // SAFETY: I1: `value` points to `length` bytes that are borrowed here alone. I2, I3.
        let result = unsafe {
            getsockopt(
                socket.as_raw_fd(),
                IPPROTO_TCP,
                TCP_INFO,
                value,
                &raw mut length,
            )
        };
        let is_whole = usize::try_from(length) == Ok(size);
        let last = info[LAST_DATA].min(info[LAST_ACK]);
        (result == 0 && is_whole).then(|| Silence {
            lasts: Duration::from_millis(last.into()),
            unconfirmed: info[UNCONFIRMED] > 0,
        })
    }
}
