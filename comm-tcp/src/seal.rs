//! Encrypts and authenticates the bytes on a link, as records that are sealed separately.
//!
//! ```text
//!  0 length - 1      2 the same, inverted      4 encrypted bytes, 1 to 64 KiB      tag, 16 bytes
//! ```
//!
//! AES-256-GCM. Each direction of each link has its own key, derived from the secret and the whole handshake;
//! the nonce is the number of the record. So a record that was changed, omitted, repeated, moved or taken
//! from another link does not open. The length is not secret. A flipped bit of it is noticed at once. An
//! attacker who forges both halves of the length can make the reader wait, as withholding the bytes would, or
//! look for the tag in the wrong place.
//!
//! Bytes are sealed from their source and opened into their destination, with one buffer of one record
//! between them and the kernel.

mod cipher;

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};

use crate::link::Stream;
use cipher::{Cipher, TAG};

pub(crate) use cipher::TrafficSecret;

/// The maximum number of bytes of one record.
pub(crate) const RECORD: usize = 64 << 10;

/// The length in front of a record.
const HEAD: usize = 4;

/// The overhead of a record.
pub(crate) const OVERHEAD: usize = HEAD + TAG;

/// Seals outgoing bytes.
pub(crate) struct Sealer {
    cipher: Cipher,
    /// Room for one record; its contents are being sent, and how much of that has been.
    record: Box<[u8]>,
    length: usize,
    gone: usize,
    /// How many of its bytes have not yet been reported as sent.
    uncounted: usize,
    /// How many bytes have been sent so far, including those of incomplete records.
    moved: u64,
}

impl Sealer {
    pub(crate) fn new(secret: TrafficSecret) -> Self {
        Self {
            cipher: Cipher::new(secret),
            record: vec![0; RECORD + OVERHEAD].into_boxed_slice(),
            length: 0,
            gone: 0,
            uncounted: 0,
            moved: 0,
        }
    }

    /// Returns how many bytes have been sent so far, including those of an incomplete record.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    /// Sends as much as fits and returns how many bytes of `parts` that was, in whole records.
    ///
    /// Bytes count as sent once the last byte of their record is. Until then the caller presents them again:
    /// they must be the same.
    pub(crate) fn send<S: Stream>(
        &mut self,
        stream: &mut S,
        parts: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut sent = 0;
        loop {
            match self.flush(stream) {
                Ok(()) => sent += std::mem::take(&mut self.uncounted),
                Err(error) if error.kind() == ErrorKind::WouldBlock && sent > 0 => return Ok(sent),
                Err(error) => return Err(error),
            }
            if sent >= length {
                return Ok(sent);
            }
            self.uncounted = self.seal(parts, sent)?;
        }
    }

    /// Sends a few bytes between those of another sender, which may be in the middle of a record.
    pub(crate) fn interject<S: Stream>(&mut self, stream: &mut S, bytes: &[u8]) -> io::Result<()> {
        self.flush(stream)?;
        // The record of the other sender still counts as that sender's.
        self.seal(&[IoSlice::new(bytes)], 0)?;
        self.flush(stream)
    }

    /// Returns whether bytes are in flight that do not count as sent.
    pub(crate) fn is_begun(&self) -> bool {
        self.uncounted > 0
    }

    /// Makes a record of the bytes after the first `skip` bytes of `parts`; returns how many it contains.
    fn seal(&mut self, parts: &[IoSlice<'_>], mut skip: usize) -> io::Result<usize> {
        let mut rest = parts.iter().filter_map(|part| {
            let from = skip.min(part.len());
            skip -= from;
            (from < part.len()).then(|| &part[from..])
        });
        let first = rest.next().unwrap_or_default();
        let mut length = first.len().min(RECORD);
        let (head, room) = self.record.split_at_mut(HEAD);
        let mut gathered = false;
        for part in rest {
            let count = part.len().min(RECORD - length);
            if count == 0 {
                break;
            }
            if !gathered {
                room[..length].copy_from_slice(&first[..length]);
                gathered = true;
            }
            room[length..length + count].copy_from_slice(&part[..count]);
            length += count;
        }
        head.copy_from_slice(&encode(length));
        if gathered {
            self.cipher.seal_in_place(room, length)?;
        } else {
            self.cipher.seal(&first[..length], room)?;
        }
        (self.length, self.gone) = (OVERHEAD + length, 0);
        Ok(length)
    }

    /// Sends the rest of the current record.
    fn flush<S: Stream>(&mut self, stream: &mut S) -> io::Result<()> {
        while self.gone < self.length {
            let rest = &self.record[self.gone..self.length];
            match stream.send(&[IoSlice::new(rest)]) {
                Ok(0) => return Err(ErrorKind::WouldBlock.into()),
                Ok(count) => {
                    self.gone += count;
                    self.moved += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens incoming bytes.
pub(crate) struct Opener {
    cipher: Cipher,
    /// The purpose of the link, for messages.
    link: &'static str,
    /// Received bytes that are not opened yet: at most a record, and the length of the next.
    sealed: Box<[u8]>,
    start: usize,
    end: usize,
    /// How many bytes have been received so far, including those of incomplete records.
    moved: u64,
    /// Opened bytes that did not fit into their destination, and how many of them were taken.
    opened: Vec<u8>,
    taken: usize,
    altered: bool,
}

impl Opener {
    pub(crate) fn new(secret: TrafficSecret, link: &'static str) -> Self {
        Self {
            cipher: Cipher::new(secret),
            link,
            sealed: vec![0; RECORD + OVERHEAD + HEAD].into_boxed_slice(),
            start: 0,
            end: 0,
            moved: 0,
            opened: Vec::new(),
            taken: 0,
            altered: false,
        }
    }

    /// Returns how many bytes have been received so far, including those of an incomplete record.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    /// Returns whether a record has begun to arrive.
    pub(crate) fn is_coming(&self) -> bool {
        self.start < self.end
    }

    /// Receives authenticated bytes, like [`Stream::receive`].
    pub(crate) fn receive<S: Stream>(
        &mut self,
        stream: &mut S,
        into: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            if self.taken < self.opened.len() {
                let count = into.len().min(self.opened.len() - self.taken);
                into[..count].copy_from_slice(&self.opened[self.taken..self.taken + count]);
                self.taken += count;
                return Ok(count);
            }
            let Some(length) = self.whole()? else {
                match self.fill(stream)? {
                    0 => return Ok(0),
                    _ => continue,
                }
            };
            if length <= into.len() {
                self.open(length, &mut into[..length])?;
                return Ok(length);
            }
            let mut opened = std::mem::take(&mut self.opened);
            opened.resize(length, 0);
            self.open(length, &mut opened)?;
            self.opened = opened;
            self.taken = 0;
        }
    }

    /// Returns how many bytes the next record contains, once all of it has arrived.
    fn whole(&mut self) -> io::Result<Option<usize>> {
        let Some(&head) = self.sealed[self.start..self.end].first_chunk() else {
            return Ok(None);
        };
        let length = decode(head).filter(|_| !self.altered);
        let length = length.ok_or_else(|| self.alter())?;
        let come = self.end - self.start >= OVERHEAD + length;
        Ok(come.then_some(length))
    }

    fn open(&mut self, length: usize, into: &mut [u8]) -> io::Result<()> {
        let record = &self.sealed[self.start + HEAD..][..length + TAG];
        if self.cipher.open(record, into).is_err() {
            return Err(self.alter());
        }
        self.start += OVERHEAD + length;
        Ok(())
    }

    fn fill<S: Stream>(&mut self, stream: &mut S) -> io::Result<usize> {
        self.sealed.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = stream.receive(&mut self.sealed[self.end..])?;
        self.end += count;
        self.moved += count as u64;
        Ok(count)
    }

    #[cold]
    fn alter(&mut self) -> io::Error {
        self.altered = true;
        let reason = format!(
            "the bytes received over the {} link are not those that were sent: they were changed \
             between the two ranks",
            self.link
        );
        io::Error::new(ErrorKind::InvalidData, reason)
    }
}

/// Returns the length of a record, twice, the second time inverted.
fn encode(length: usize) -> [u8; HEAD] {
    // The callers keep it between 1 and `RECORD`, which is one more than fits.
    let length = u16::try_from(length.wrapping_sub(1)).unwrap_or(u16::MAX);
    let ([a, b], [c, d]) = (length.to_be_bytes(), (!length).to_be_bytes());
    [a, b, c, d]
}

fn decode([a, b, c, d]: [u8; HEAD]) -> Option<usize> {
    let (length, inverted) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    (length == !inverted).then(|| usize::from(length) + 1)
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(redacted)")
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener(redacted)")
    }
}

#[cfg(test)]
mod tests;
