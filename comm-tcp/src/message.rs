//! A frame on its way out.

use std::io::IoSlice;

use crate::frame::{HEADER, Header};
use crate::link::{Broken, Link, Stream};

/// Sends a header and what belongs to it, in as many pieces as the link takes.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    head: [u8; HEADER],
    body: &'a [u8],
    sent: usize,
}

impl<'a> Message<'a> {
    pub(crate) fn new(header: &Header, body: &'a [u8]) -> Self {
        debug_assert_eq!(header.length, body.len() as u64);
        Self {
            head: header.encode(),
            body,
            sent: 0,
        }
    }

    /// Makes a header after which a stream follows that is not part of the message.
    pub(crate) fn stream(header: &Header) -> Self {
        Self {
            head: header.encode(),
            body: &[],
            sent: 0,
        }
    }

    /// Gives how many bytes the header announces.
    #[cfg(test)]
    pub(crate) fn announced(&self) -> u64 {
        Header::decode(&self.head).map_or(0, |header| header.length)
    }

    /// Sends what fits; returns how much that was.
    pub(crate) fn send<S: Stream>(&mut self, link: &mut Link<S>) -> Result<usize, Broken> {
        let (head, body) = self.rest();
        let count = link.write(&[IoSlice::new(head), IoSlice::new(body)])?;
        self.sent += count;
        Ok(count)
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.sent > 0
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.sent == HEADER + self.body.len()
    }

    /// Leaves the rest to the link: it goes out in the next call.
    pub(crate) fn leave<S: Stream>(&mut self, link: &mut Link<S>) {
        let (head, body) = self.rest();
        link.keep(head);
        link.keep(body);
        self.give_up();
    }

    /// Counts as sent: the other end is gone.
    pub(crate) fn give_up(&mut self) {
        self.sent = HEADER + self.body.len();
    }

    fn rest(&self) -> (&[u8], &'a [u8]) {
        let head = self.sent.min(HEADER);
        (&self.head[head..], &self.body[self.sent - head..])
    }
}
