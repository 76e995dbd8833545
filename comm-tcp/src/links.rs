//! The links of one rank, and what a call waits for on them.

use rustix::event::{PollFd, PollFlags};

use crate::link::Link;

/// Holds the links of one rank.
#[derive(Debug)]
pub(crate) struct Links {
    /// On rank 0 one link per worker, in rank order; on a worker the one to rank 0.
    pub(crate) data: Vec<Link>,
    /// The ring, if there is one: where bulk goes to and comes from.
    pub(crate) ring: Option<Ring>,
}

/// Holds the links to the two neighbours.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) next: Link,
    pub(crate) prev: Link,
}

/// Names a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Data(usize),
    Next,
    Prev,
}

/// Says what could move on a link if the other end did its part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    pub(crate) port: Port,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Links {
    pub(crate) fn get(&self, port: Port) -> Option<&Link> {
        match port {
            Port::Data(place) => self.data.get(place),
            Port::Next => self.ring.as_ref().map(|ring| &ring.next),
            Port::Prev => self.ring.as_ref().map(|ring| &ring.prev),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Link> {
        let ring = self.ring.iter().flat_map(|ring| [&ring.next, &ring.prev]);
        self.data.iter().chain(ring)
    }

    /// Turns wants into what poll takes.
    pub(crate) fn interest(&self, wants: &[Want]) -> Vec<PollFd<'_>> {
        let flags = |want: &Want| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, want.read);
            flags.set(PollFlags::OUT, want.write);
            flags
        };
        wants
            .iter()
            .filter(|want| want.read || want.write)
            .filter_map(|want| Some(PollFd::new(self.get(want.port)?, flags(want))))
            .collect()
    }
}
