//! What all calls along the ring have in common: a header in front, then a stream of bytes.

use crate::call::Call;
use crate::frame::{Header, Kind};
use crate::link::{Broken, Link};
use crate::links::{Links, Ring};
use crate::message::Message;

/// The most that is moved in one go, so that reading and writing take turns.
pub(crate) const PORTION: usize = 1 << 20;

/// The header that goes in front of a stream, and whether it has gone or come.
#[derive(Debug)]
pub(crate) struct Heads {
    out: Message<'static>,
    expected: Option<Header>,
}

impl Heads {
    pub(crate) fn new((sequence, call): (u64, Call), bytes_out: usize, bytes_in: usize) -> Self {
        let header = |length: usize| Header::new(Kind::Bulk, sequence, call, length);
        // The message has no body of its own: the stream follows it piece by piece.
        let mut out = Message::stream(&header(bytes_out));
        if bytes_out == 0 {
            out.give_up();
        }
        Self {
            out,
            expected: (bytes_in > 0).then(|| header(bytes_in)),
        }
    }

    /// Gives how many bytes the header announces.
    #[cfg(test)]
    pub(crate) fn bytes_out(&self) -> u64 {
        self.out.announced()
    }

    /// Sends the header; tells whether the stream may follow.
    pub(crate) fn sent(&mut self, link: &mut Link) -> Result<bool, Broken> {
        if !self.out.is_sent() {
            self.out.send(link)?;
        }
        Ok(self.out.is_sent())
    }

    /// Reads the header; tells whether the stream follows.
    pub(crate) fn came(&mut self, link: &mut Link) -> Result<bool, Broken> {
        let Some(expected) = self.expected else {
            return Ok(true);
        };
        let Some(header) = link.header()? else {
            return Ok(false);
        };
        if header != expected {
            return Err(Broken {
                peer: link.peer(),
                reason: format!("it sent {header:?} where {expected:?} was due"),
            });
        }
        self.expected = None;
        Ok(true)
    }
}

/// Gives the ring; that there is one was looked at before.
pub(crate) fn ring(links: &mut Links) -> Result<&mut Ring, Broken> {
    links.ring.as_mut().ok_or_else(|| Broken {
        peer: 0,
        reason: "there is no ring".to_owned(),
    })
}
