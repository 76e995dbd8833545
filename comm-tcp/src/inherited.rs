//! Takes over a listener that the launcher opened.
//!
//! # Safety
//!
//! A number from the environment becomes a descriptor that this process closes. What must hold:
//!
//! - I1: the descriptor is open and is a listening stream socket, checked before it is owned, and
//!   not one of the three standard streams.
//! - I2: nobody else in this process owns it. The launcher passed it on for this purpose and no
//!   other; each number is taken at most once in the life of the process, whoever asks, so it is
//!   never closed twice and never confused with a later descriptor of the same number.

#![expect(
    unsafe_code,
    reason = "owning a descriptor that came as a number; I1 and I2 above"
)]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use rustix::net::{SocketType, sockopt};

static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Takes over the listening socket `fd`, once.
pub(crate) fn listener(fd: RawFd) -> Result<TcpListener, String> {
    if fd <= 2 {
        return Err("a listener is passed on as 3 or above".to_owned());
    }
    let mut taken = TAKEN.lock().map_err(|error| error.to_string())?;
    if taken.contains(&fd) {
        return Err("this process has taken it already; a listener serves one job".to_owned());
    }
    // SAFETY: I2: borrowed only for the checks below, and nobody else closes it meanwhile. A number
    // that is not open makes them fail.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let listening = listens(borrowed).map_err(|error| error.to_string())?;
    let stream = sockopt::socket_type(borrowed) == Ok(SocketType::STREAM);
    let address = rustix::net::getsockname(borrowed).map_err(|error| error.to_string())?;
    if !listening || !stream || std::net::SocketAddr::try_from(address).is_err() {
        return Err("it is no TCP socket that listens".to_owned());
    }
    let _ = rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC);
    taken.insert(fd);
    // SAFETY: I1: the checks above; I2: `taken` did not hold it and does from now on.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(TcpListener::from(owned))
}

#[cfg(not(target_vendor = "apple"))]
fn listens(fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    sockopt::socket_acceptconn(fd)
}

/// This system does not tell: a socket that has an address and no peer is taken for a listener, and
/// one that is none fails at the first accept.
#[cfg(target_vendor = "apple")]
fn listens(fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    rustix::net::getsockname(fd)?;
    Ok(rustix::net::getpeername(fd).is_err())
}
