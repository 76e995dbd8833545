//! Takes over a listener that the launcher opened, for all communicators of this process.
//!
//! The launcher binds the port before anything starts, so no other process can take it. A process that
//! creates a second communicator listens there again, so the socket stays open: a worker that connects early
//! waits in its queue.
//!
//! # Safety
//!
//! A number from the environment becomes a descriptor that this process closes. The following must hold:
//!
//! - I1: the descriptor is open and is a listening stream socket, which is checked before it is owned, and
//!   not one of the three standard streams.
//! - I2: no other code in this process owns the descriptor. The launcher passed it on only for this purpose.
//!   Each number is taken at most once in the life of the process and never closed, so it is never confused
//!   with a later descriptor of the same number. Callers get duplicates.

#![expect(
    unsafe_code,
    reason = "owning a descriptor that came as a number; I1 and I2 above"
)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{SocketType, sockopt};

/// The listeners of this process, by number, and whether each is in use.
static TAKEN: Mutex<BTreeMap<RawFd, (TcpListener, bool)>> = Mutex::new(BTreeMap::new());

fn taken() -> MutexGuard<'static, BTreeMap<RawFd, (TcpListener, bool)>> {
    // The map is never left half updated.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets one start listen at a time: the links of two would be mixed up.
#[derive(Debug)]
pub(crate) struct Turn(RawFd);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((_, busy)) = taken().get_mut(&self.0) {
            *busy = false;
        }
    }
}

/// Returns the listening socket `fd`, which this process takes over on first use; no other caller gets it
/// before the turn is dropped.
pub(crate) fn listener(fd: RawFd) -> Result<(TcpListener, Turn), String> {
    if fd <= 2 {
        return Err("a listener is passed on as descriptor 3 or above".to_owned());
    }
    let mut taken = taken();
    let (listener, busy) = match taken.entry(fd) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert((own(fd)?, false)),
    };
    if *busy {
        return Err(
            "another thread of this process is creating a communicator with it; create one after the other, in the same \
             order on all ranks"
                .to_owned(),
        );
    }
    let duplicate = listener.try_clone().map_err(|error| error.to_string())?;
    *busy = true;
    Ok((duplicate, Turn(fd)))
}

/// Takes over a descriptor that is not yet in [`TAKEN`]; the caller inserts it.
fn own(fd: RawFd) -> Result<TcpListener, String> {
    // SAFETY: I2: borrowed only for the checks below, and no other code closes it meanwhile. A number that is
    // not open makes the checks fail.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let listening = listens(borrowed).map_err(|error| error.to_string())?;
    let stream = sockopt::socket_type(borrowed) == Ok(SocketType::STREAM);
    let address = rustix::net::getsockname(borrowed).map_err(|error| error.to_string())?;
    if !listening || !stream || std::net::SocketAddr::try_from(address).is_err() {
        return Err("it is not a listening TCP socket".to_owned());
    }
    let _ = rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC);
    // SAFETY: I1: the checks above; I2: `TAKEN` did not hold it, keeps it from now on, and is locked
    // meanwhile.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(TcpListener::from(owned))
}

#[cfg(not(target_vendor = "apple"))]
fn listens(fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    sockopt::socket_acceptconn(fd)
}

/// This system does not report it: a socket that has an address and no peer is assumed to be listening, and
/// otherwise fails at the first accept.
#[cfg(target_vendor = "apple")]
fn listens(fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    rustix::net::getsockname(fd)?;
    Ok(rustix::net::getpeername(fd).is_err())
}
