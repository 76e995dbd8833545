//! What a link moves its bytes over: a socket, plain or with everything sealed.

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

use crate::seal::{Opener, Sealer, TrafficSecret};

/// Moves bytes without waiting; `WouldBlock` if none can be moved.
pub(crate) trait Stream {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize>;
    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Returns whether bytes that do not count as sent are on their way.
    fn is_begun(&self) -> bool {
        false
    }

    /// Returns whether bytes have begun to come that cannot be received yet.
    fn is_coming(&self) -> bool {
        false
    }

    /// Returns how many bytes have gone and come so far, if those are others than the ones that were
    /// sent and received here.
    fn flow(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Up to how many bytes it is cheaper to lay parts side by side than to hand the kernel a list of them.
const TOGETHER: usize = 1 << 10;

/// Peers that are gone give an error, never a signal.
#[cfg(not(target_vendor = "apple"))]
const QUIET: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const QUIET: SendFlags = SendFlags::empty();

impl Stream for OwnedFd {
    #[inline]
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.as_fd().receive(into)
    }

    #[inline]
    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.as_fd().send(parts)
    }
}

impl Stream for BorrowedFd<'_> {
    #[inline]
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(*self, into, RecvFlags::empty())?;
        Ok(count)
    }

    #[inline]
    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [only] = parts {
            return Ok(rustix::net::send(*self, only, QUIET)?);
        }
        let length = parts.iter().map(|part| part.len()).sum();
        if length <= TOGETHER {
            let mut bytes = [0; TOGETHER];
            let mut rest = &mut bytes[..];
            for part in parts {
                let (into, behind) = rest.split_at_mut(part.len());
                into.copy_from_slice(part);
                rest = behind;
            }
            return Ok(rustix::net::send(*self, &bytes[..length], QUIET)?);
        }
        let mut control = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(*self, parts, &mut control, QUIET)?)
    }
}

/// A connection whose handshake is through, and the secrets of its two directions if it is to be
/// encrypted.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) stream: TcpStream,
    pub(crate) traffic: Option<Traffic>,
}

/// What one end of an encrypted link needs.
pub(crate) struct Traffic {
    pub(crate) outward: TrafficSecret,
    pub(crate) inward: TrafficSecret,
    /// What the link is for, in words.
    pub(crate) link: &'static str,
}

impl std::fmt::Debug for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Traffic(redacted)")
    }
}

impl Deref for Channel {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A socket, and what seals and opens its bytes.
#[derive(Debug)]
pub(crate) struct Wire {
    fd: OwnedFd,
    seal: Option<Seal>,
}

#[derive(Debug)]
struct Seal {
    inward: Box<Opener>,
    /// Under a lock of its own: an abort sends from another thread, while a call is under way.
    outward: Arc<Mutex<Sealer>>,
}

impl Wire {
    pub(super) fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    pub(super) fn voice(&self) -> io::Result<Voice> {
        let outward = self.seal.as_ref().map(|seal| Arc::clone(&seal.outward));
        let fd = self.fd.try_clone()?;
        Ok(Voice { fd, outward })
    }
}

/// Within one process there is nothing to encrypt.
impl From<UnixStream> for Wire {
    fn from(stream: UnixStream) -> Self {
        let fd = stream.into();
        Self { fd, seal: None }
    }
}

impl From<Channel> for Wire {
    fn from(channel: Channel) -> Self {
        let seal = channel.traffic.map(|traffic| Seal {
            inward: Box::new(Opener::new(traffic.inward, traffic.link)),
            outward: Arc::new(Mutex::new(Sealer::new(traffic.outward))),
        });
        let fd = channel.stream.into();
        Self { fd, seal }
    }
}

impl Stream for Wire {
    #[inline]
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.seal {
            None => self.fd.receive(into),
            Some(seal) => seal.inward.receive(&mut self.fd, into),
        }
    }

    #[inline]
    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.seal {
            None => self.fd.send(parts),
            Some(seal) => lock(&seal.outward).send(&mut self.fd, parts),
        }
    }

    fn is_begun(&self) -> bool {
        let seal = self.seal.as_ref();
        seal.is_some_and(|seal| lock(&seal.outward).is_begun())
    }

    fn is_coming(&self) -> bool {
        let seal = self.seal.as_ref();
        seal.is_some_and(|seal| seal.inward.is_coming())
    }

    fn flow(&self) -> Option<(u64, u64)> {
        let seal = self.seal.as_ref()?;
        Some((lock(&seal.outward).moved(), seal.inward.moved()))
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A second way to send over a link.
#[derive(Debug)]
pub(crate) struct Voice {
    fd: OwnedFd,
    outward: Option<Arc<Mutex<Sealer>>>,
}

impl Voice {
    /// Sends a few bytes, in one go: another thread that sends at the same time cannot come between
    /// them.
    pub(crate) fn say(&self, bytes: &[u8]) -> io::Result<()> {
        // No new descriptor: there may be none left, and that be the reason.
        let mut fd = self.fd.as_fd();
        match &self.outward {
            None => fd.send(&[IoSlice::new(bytes)]).map(drop),
            Some(outward) => lock(outward).interject(&mut fd, bytes),
        }
    }
}

/// A thread that panicked while it held the lock was not in the middle of anything that matters: a record
/// is sealed as a whole or not at all.
fn lock(sealer: &Mutex<Sealer>) -> std::sync::MutexGuard<'_, Sealer> {
    sealer.lock().unwrap_or_else(PoisonError::into_inner)
}
