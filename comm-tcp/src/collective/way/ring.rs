//! Large calls along the ring: a header in front, then a stream of bytes from neighbour to neighbour.

mod allgatherv;
mod allreduce;
mod broadcast;

use comm_kit::Call;

use super::Outgoing;
use crate::engine::{Links, Ring};
use crate::frame::{Header, Kind};
use crate::link::{Broken, Link};

pub(crate) use allgatherv::{Allgatherv, bytes_out, links_crossed};
pub(crate) use allreduce::Allreduce;
pub(crate) use broadcast::Broadcast;

/// The header that goes in front of a stream, and whether it has gone or come.
#[derive(Debug)]
struct Heads {
    out: Outgoing<'static>,
    expected: Option<Header>,
}

impl Heads {
    fn new((sequence, call): (u64, Call), bytes_out: usize, bytes_in: usize) -> Self {
        let header = |length: usize| Header::new(Kind::Bulk, sequence, call, length);
        // The message has no body of its own: the stream follows it piece by piece.
        let mut out = Outgoing::stream(&header(bytes_out));
        if bytes_out == 0 {
            out.give_up();
        }
        Self {
            out,
            expected: (bytes_in > 0).then(|| header(bytes_in)),
        }
    }

    /// Sends the header; returns whether the stream may follow.
    fn sent(&mut self, link: &mut Link) -> Result<bool, Broken> {
        if !self.out.is_sent() {
            self.out.send(link)?;
        }
        Ok(self.out.is_sent())
    }

    /// Reads the header; returns whether the stream follows.
    fn came(&mut self, link: &mut Link) -> Result<bool, Broken> {
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

/// Returns the ring; that there is one, the way of the call has made sure.
fn ring(links: &mut Links) -> Result<&mut Ring, Broken> {
    links.ring.as_mut().ok_or_else(|| Broken {
        peer: 0,
        reason: "there is no ring".to_owned(),
    })
}
