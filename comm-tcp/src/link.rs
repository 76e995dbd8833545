//! One link to one rank: frames and raw bytes over a stream that never blocks.
//!
//! What is read ahead stays in the link's own small inbox, so a frame costs one system call and a
//! later frame is never lost; long payloads bypass it and land where they belong, and what is only to be
//! folded may be looked at where it is. What could not be written when a rank left a call early is kept and
//! goes out first in the next one.

mod wire;

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};

use crate::frame::{FrameKind, HEADER, Header, MOST_TEXT};
use crate::member::Loss;

pub(crate) use wire::{Channel, Stream, Traffic, Voice, Wire};

/// How much is read ahead.
pub(crate) const INBOX: usize = 16 << 10;

/// How many bytes wait for a rank that reads nothing, before repeated notices to it are dropped.
const MOST_UNREAD: usize = 64 << 10;

/// How many short frames of one link are read before something else has its turn: more than an honest rank has to say at once.
pub(crate) const TURN: usize = 64;

/// Why a link can no longer be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The rank at the other end.
    pub(crate) peer: usize,
    pub(crate) reason: String,
}

/// One end of a link.
#[derive(Debug)]
pub(crate) struct Link<S = Wire> {
    stream: S,
    peer: usize,
    inbox: Box<[u8]>,
    start: usize,
    end: usize,
    backlog: Vec<u8>,
    /// How much of a discarded frame is still to come.
    discarding: u64,
    /// The first call of which the other end has not sent its entry or answer.
    due: u64,
    /// What came is not what was sent.
    altered: bool,
    /// The system has said that no way leads to the other end.
    unreachable: bool,
    sent: u64,
    received: u64,
}

impl<S: Stream> Link<S> {
    pub(crate) fn new(stream: S, peer: usize) -> Self {
        Self {
            stream,
            peer,
            inbox: vec![0; INBOX].into_boxed_slice(),
            start: 0,
            end: 0,
            backlog: Vec::new(),
            discarding: 0,
            due: 0,
            altered: false,
            unreachable: false,
            sent: 0,
            received: 0,
        }
    }

    /// Returns how many bytes this end has sent and received so far; on an encrypted link those that
    /// travel, also of a record of which only a part has gone or come.
    pub(crate) fn flow(&self) -> (u64, u64) {
        self.stream.flow().unwrap_or((self.sent, self.received))
    }

    /// Returns whether the next frame has begun to come.
    pub(crate) fn is_coming(&self) -> bool {
        self.start < self.end || self.stream.is_coming()
    }

    pub(crate) fn peer(&self) -> usize {
        self.peer
    }

    /// Returns whether the link is of no use any more because what came is not what was sent.
    pub(crate) fn is_altered(&self) -> bool {
        self.altered
    }

    /// Returns whether the link ended because no way led to the other end any more: the process there may live.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.unreachable
    }

    /// Returns how the link ended, once it has.
    #[cold]
    pub(crate) fn loss(&self) -> Loss {
        match (self.altered, self.unreachable) {
            (true, _) => Loss::Altered,
            (false, true) => Loss::Unreachable,
            (false, false) => Loss::Closed,
        }
    }

    /// Returns whether bytes that were to be written have begun to go out and do not count as written
    /// yet. They must be presented again. As long as something is kept, it is that which goes out.
    pub(crate) fn is_begun(&self) -> bool {
        self.backlog.is_empty() && self.stream.is_begun()
    }

    /// Takes the next header once all of it has come.
    #[inline]
    pub(crate) fn header(&mut self) -> Result<Option<Header>, Broken> {
        let header = self.peek()?;
        if header.is_some() {
            self.start += HEADER;
        }
        Ok(header)
    }

    /// Takes the next small frame, header and body, once all of it has come.
    pub(crate) fn frame(&mut self) -> Result<Option<(Header, Vec<u8>)>, Broken> {
        let Some(header) = self.peek()? else {
            return Ok(None);
        };
        if header.length > MOST_TEXT {
            return Err(Broken {
                peer: self.peer,
                reason: format!(
                    "it sent {:?} of {} bytes where a short frame is due",
                    header.kind, header.length
                ),
            });
        }
        let length = usize::try_from(header.length).unwrap_or(0);
        self.ahead(HEADER + length)?;
        let whole = self.inbox[self.start..self.end].get(..HEADER + length);
        let Some((_, body)) = whole.and_then(|whole| whole.split_at_checked(HEADER)) else {
            return Ok(None);
        };
        let body = body.to_vec();
        self.start += HEADER + length;
        Ok(Some((header, body)))
    }

    /// Notes that the entry or answer of a call has come, of which there is one: who sends more would be read without end.
    #[inline]
    pub(crate) fn note(&mut self, header: &Header) -> Result<(), Broken> {
        if header.sequence < self.due {
            return Err(Broken {
                peer: self.peer,
                reason: format!(
                    "it sent {:?} of call {} again",
                    header.kind, header.sequence
                ),
            });
        }
        self.due = header.sequence.saturating_add(1);
        Ok(())
    }

    /// Discards frames of calls before `sequence`; returns whether there were any.
    pub(crate) fn discard_before(&mut self, sequence: u64) -> Result<bool, Broken> {
        let mut any = false;
        while let Some(header) = self.peek()? {
            let entry = !matches!(header.kind, FrameKind::Bulk);
            if header.sequence >= sequence || !entry {
                break;
            }
            self.note(&header)?;
            self.start += HEADER;
            self.discarding = header.length;
            any = true;
        }
        Ok(any)
    }

    /// Returns the next header and leaves it where it is.
    #[inline]
    fn peek(&mut self) -> Result<Option<Header>, Broken> {
        if self.discarding > 0 && !self.discard()? {
            return Ok(None);
        }
        self.ahead(HEADER)?;
        let Some(bytes) = self.inbox[self.start..self.end].first_chunk() else {
            return Ok(None);
        };
        let header = Header::decode(bytes).map_err(|error| Broken {
            peer: self.peer,
            reason: format!("it sent what is no frame: {error}"),
        })?;
        Ok(Some(header))
    }

    /// Reads and forgets the rest of a discarded frame; returns whether all of it has come.
    #[cold]
    fn discard(&mut self) -> Result<bool, Broken> {
        while self.discarding > 0 {
            match self.skip(self.discarding)? {
                0 => return Ok(false),
                skipped => self.discarding -= skipped,
            }
        }
        Ok(true)
    }

    /// Reads what is there, at most `into.len()` bytes; 0 if nothing is.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let ahead = (self.end - self.start).min(into.len());
        into[..ahead].copy_from_slice(&self.inbox[self.start..self.start + ahead]);
        self.start += ahead;
        if ahead == into.len() {
            return Ok(ahead);
        }
        match receive(&mut self.stream, &mut into[ahead..]) {
            Ok(count) => {
                self.received += count as u64;
                Ok(ahead + count)
            }
            // What came before the end counts; the end shows again at the next read.
            Err(_) if ahead > 0 => Ok(ahead),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Takes `count` bytes, few enough for the inbox, once all of them have come.
    pub(crate) fn take(&mut self, count: usize) -> Result<Option<Vec<u8>>, Broken> {
        self.ahead(count)?;
        let whole = self.inbox[self.start..self.end].get(..count);
        let bytes = whole.map(<[u8]>::to_vec);
        self.start += bytes.as_ref().map_or(0, Vec::len);
        Ok(bytes)
    }

    /// Returns whether the next `count` bytes, few enough for the inbox, have come. They stay there, to be looked at,
    /// and are discarded before the next frame is read.
    pub(crate) fn hold(&mut self, count: usize) -> Result<bool, Broken> {
        self.ahead(count)?;
        let held = self.end - self.start >= count;
        if held {
            self.discarding = count as u64;
        }
        Ok(held)
    }

    /// Lends the bytes that are held, and discards them.
    pub(crate) fn release(&mut self) -> &[u8] {
        let count = usize::try_from(std::mem::take(&mut self.discarding)).unwrap_or(0);
        let start = self.start;
        self.start += count.min(self.end - start);
        &self.inbox[start..self.start]
    }

    /// Reads and forgets, at most `count` bytes.
    pub(crate) fn skip(&mut self, count: u64) -> Result<u64, Broken> {
        self.ahead(1)?;
        let ahead = self.end - self.start;
        let skipped = usize::try_from(count).map_or(ahead, |count| ahead.min(count));
        self.start += skipped;
        Ok(skipped as u64)
    }

    /// Writes what fits, in order, behind what was kept; returns how much of `parts` went.
    #[inline]
    pub(crate) fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Broken> {
        while !self.backlog.is_empty() {
            match send(&mut self.stream, &[IoSlice::new(&self.backlog)]) {
                Ok(0) => return Ok(0),
                Ok(count) => {
                    let count = count.min(self.backlog.len());
                    self.sent += count as u64;
                    drop(self.backlog.drain(..count));
                }
                Err(error) => return Err(self.broken(&error)),
            }
        }
        if parts.iter().all(|part| part.is_empty()) {
            return Ok(0);
        }
        match send(&mut self.stream, parts) {
            Ok(count) => {
                self.sent += count as u64;
                Ok(count)
            }
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Keeps bytes that must go out before anything else.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.backlog.extend_from_slice(bytes);
    }

    /// Keeps bytes that must go out before anything else, unless so many wait already that the other end reads nothing.
    pub(crate) fn offer(&mut self, bytes: &[u8]) {
        if self.backlog.len() < MOST_UNREAD {
            self.keep(bytes);
        }
    }

    /// Returns how many bytes wait to go out.
    pub(crate) fn kept(&self) -> usize {
        self.backlog.len()
    }

    /// Reads ahead if fewer than `count` bytes are there, until they are or nothing more is: a
    /// stream that opens records may hold the rest already, and no poll would tell.
    fn ahead(&mut self, count: usize) -> Result<(), Broken> {
        while self.end - self.start < count {
            if self.start == self.end {
                (self.start, self.end) = (0, 0);
            } else if self.start > 0 {
                self.inbox.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            match receive(&mut self.stream, &mut self.inbox[self.end..]) {
                Ok(0) => break,
                Ok(count) => {
                    self.received += count as u64;
                    self.end += count;
                }
                Err(error) => return Err(self.broken(&error)),
            }
        }
        Ok(())
    }

    #[cold]
    fn broken(&mut self, error: &io::Error) -> Broken {
        self.altered |= error.kind() == ErrorKind::InvalidData;
        // A router may say so, too.
        self.unreachable |= matches!(
            error.kind(),
            ErrorKind::TimedOut
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
        );
        let reason = match error.kind() {
            ErrorKind::UnexpectedEof => "it closed the link".to_owned(),
            _ => error.to_string(),
        };
        Broken {
            peer: self.peer,
            reason,
        }
    }
}

impl Link {
    /// Returns whether what travels is encrypted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.stream.is_sealed()
    }

    /// Returns a second way to send over the link, for a few bytes from another thread.
    pub(crate) fn voice(&self) -> io::Result<Voice> {
        self.stream.voice()
    }
}

impl<S: AsFd> Link<S> {
    /// Returns what to poll for, if this rank wants to read from or write to the link.
    pub(crate) fn interest(&self, read: bool, write: bool) -> Option<PollFd<'_>> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, read);
        flags.set(PollFlags::OUT, write);
        (!flags.is_empty()).then(|| PollFd::new(self, flags))
    }
}

impl<S: AsFd> AsFd for Link<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Receives; 0 if nothing is there, an error at the end of the stream.
fn receive<S: Stream>(stream: &mut S, into: &mut [u8]) -> io::Result<usize> {
    loop {
        return match stream.receive(into) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            result => result,
        };
    }
}

/// Sends; 0 if there is no room.
fn send<S: Stream>(stream: &mut S, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        return match stream.send(parts) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            result => result,
        };
    }
}

#[cfg(test)]
impl Link {
    /// Creates a link within this process, and its other end; neither blocks.
    pub(crate) fn pair(peer: usize) -> (Self, std::os::unix::net::UnixStream) {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        (Self::new(one.into(), peer), other)
    }
}

#[cfg(test)]
mod tests;
