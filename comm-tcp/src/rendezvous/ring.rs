//! The links between workers: every rank connects to its successor in the ring, and to the deputy on rank
//! 1, while its predecessor connects to it, and on rank 1 all others.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::accept::{Acceptor, Admission, HANDSHAKE, Proven};
use super::dial::{Dial, DialError};
use super::{Countdown, Identity, NOWHERE, number};
use crate::handshake::{Hello, LinkKind, Status};
use crate::link::{Channel, Link};
use crate::watch::DEPUTY;

/// What shows that the other end of a link has closed it, where the system tells that from bytes that have
/// come: on others it shows when the link is read.
#[cfg(target_os = "linux")]
const ENDS: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const ENDS: PollFlags = PollFlags::empty();

/// What a rank has opened.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The ring, or why there is none; an empty text if none was wanted.
    pub(crate) ring: Result<RingStreams, String>,
    pub(crate) deputy: DeputyStreams,
}

/// The two links of a rank in the ring.
#[derive(Debug)]
pub(crate) struct RingStreams {
    pub(crate) next: Channel,
    pub(crate) prev: Channel,
}

/// The links to the deputy.
#[derive(Debug, Default)]
pub(crate) struct DeputyStreams {
    /// The one of this rank, if it is not the deputy's own.
    pub(crate) mine: Option<Channel>,
    /// On the deputy's rank those of the others, in rank order, with where they run.
    pub(crate) others: Vec<Option<(Channel, IpAddr)>>,
}

impl Opened {
    /// Returns what there is where nothing was wanted.
    pub(crate) fn nothing() -> Self {
        Self {
            ring: Err(String::new()),
            deputy: DeputyStreams::default(),
        }
    }
}

/// Where a rank finds those to whom it connects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) successor: SocketAddr,
    pub(crate) deputy: SocketAddr,
}

/// Lets the predecessor in, once, and on the deputy's rank all others, each once.
struct RingAdmission<'a> {
    identity: &'a Identity,
    prev: Option<Channel>,
    others: Vec<Option<(Channel, IpAddr)>>,
}

impl<'a> RingAdmission<'a> {
    fn new(identity: &'a Identity) -> Self {
        let Identity { rank, size, .. } = *identity;
        let others = if rank == DEPUTY { size } else { 0 };
        Self {
            identity,
            prev: None,
            others: (0..others).map(|_| None).collect(),
        }
    }

    /// Returns whether the deputy has yet to hear of somebody.
    fn is_waiting(&self) -> bool {
        let others = self.others.iter().enumerate();
        others
            .into_iter()
            .any(|(rank, it)| it.is_none() && rank != self.identity.rank)
    }
}

impl Admission for RingAdmission<'_> {
    fn decide(&mut self, hello: &Hello, _: Instant, _: Instant) -> Option<Status> {
        let Identity { rank, size, .. } = *self.identity;
        if let Some(status) = self.identity.differs(hello) {
            return Some(status);
        }
        let from = usize::try_from(hello.from).unwrap_or(usize::MAX);
        let place = self.others.get(from).filter(|_| from != rank);
        Some(match hello.link {
            _ if hello.session != self.identity.session => Status::OtherSession,
            LinkKind::Ring if hello.from == number((rank + size - 1) % size) => match self.prev {
                Some(_) => Status::Taken,
                None => Status::Welcome,
            },
            LinkKind::Watch if let Some(place) = place => match place {
                Some(_) => Status::Taken,
                None => Status::Welcome,
            },
            LinkKind::Ring | LinkKind::Watch | LinkKind::Data => Status::NotExpected,
        })
    }

    fn keep(&mut self, proven: Proven, _: Instant) {
        let Proven {
            hello,
            stream,
            address,
        } = proven;
        if hello.link == LinkKind::Ring {
            self.prev = Some(stream);
            return;
        }
        let place = usize::try_from(hello.from).ok();
        if let Some(place) = place.and_then(|place| self.others.get_mut(place)) {
            *place = Some((stream, address.ip().to_canonical()));
        }
    }
}

/// A link that this rank opens.
struct Opening<'a> {
    from: usize,
    to: usize,
    address: SocketAddr,
    dial: Result<Dial<'a>, String>,
    is_open: bool,
}

impl<'a> Opening<'a> {
    fn new(identity: &'a Identity, link: LinkKind, to: usize, address: SocketAddr) -> Self {
        let hello = move |_| Ok(identity.hello(link, to, NOWHERE));
        let mut opening = Self {
            from: identity.rank,
            to,
            address,
            dial: Err(String::new()),
            is_open: false,
        };
        opening.dial = Dial::new(address, identity, hello).map_err(|error| opening.explain(error));
        opening
    }

    fn explain(&self, error: DialError) -> String {
        let reason = match error {
            DialError::Refused(status) => format!("refused: {status:?}"),
            DialError::Failed(reason) => reason,
        };
        let Self {
            from, to, address, ..
        } = self;
        format!("rank {from} cannot reach rank {to} at {address}: {reason}")
    }

    fn advance(&mut self) {
        if !self.is_open
            && let Ok(dial) = &mut self.dial
        {
            match dial.advance() {
                Ok(session) => self.is_open = session.is_some(),
                Err(error) => self.dial = Err(self.explain(error)),
            }
        }
    }

    /// Returns the dial that is still under way.
    fn under_way(&self) -> Option<&Dial<'a>> {
        self.dial.as_ref().ok().filter(|_| !self.is_open)
    }

    fn finish(self) -> Result<Channel, String> {
        let Self {
            from, to, address, ..
        } = self;
        let dial = self.dial?;
        if !self.is_open {
            return Err(format!(
                "rank {from} got no answer from rank {to} at {address}"
            ));
        }
        Ok(dial.into_channel())
    }
}

/// Returns how long opening these links may take: less than what is left to start, so that there is time to
/// go without.
pub(crate) fn limit(time: &mut Countdown) -> Duration {
    HANDSHAKE.min(time.left() / 2)
}

/// Opens what can be opened within `limit`. Nothing can any more when a link to rank 0, or of rank 0 to a
/// worker, ends: then there will be no job.
pub(crate) fn open(
    identity: &Identity,
    acceptor: &mut Acceptor,
    addresses: Addresses,
    data: &[Link],
    limit: Duration,
    time: &mut Countdown,
) -> Opened {
    let deadline = time.part(limit);
    let Identity { rank, size, .. } = *identity;
    let mut admission = RingAdmission::new(identity);
    let mut next = Opening::new(
        identity,
        LinkKind::Ring,
        (rank + 1) % size,
        addresses.successor,
    );
    let to_deputy = || Opening::new(identity, LinkKind::Watch, DEPUTY, addresses.deputy);
    let mut mine = (rank != DEPUTY).then(to_deputy);
    loop {
        acceptor.advance(identity, &mut admission, time.now());
        next.advance();
        mine.iter_mut().for_each(Opening::advance);
        let ring_waits = next.dial.is_ok() && !(next.is_open && admission.prev.is_some());
        let deputy_waits = mine.as_ref().and_then(Opening::under_way).is_some();
        let now = time.now();
        if now >= deadline || !(ring_waits || deputy_waits || admission.is_waiting()) {
            break;
        }
        let mut limit = deadline - now;
        if let Some(due) = acceptor.next_due() {
            limit = limit.min(due.saturating_duration_since(now) + Duration::from_millis(1));
        }
        let ends = data.iter().map(|link| PollFd::new(link, ENDS));
        let mut fds: Vec<PollFd<'_>> = ends.collect();
        acceptor.interest(&mut fds);
        let dials = [Some(&next), mine.as_ref()].into_iter().flatten();
        fds.extend(dials.filter_map(Opening::under_way).map(Dial::interest));
        time.wait(&mut fds, limit);
        if fds[..data.len()].iter().any(|fd| !fd.revents().is_empty()) {
            return Opened {
                ring: Err("a rank left while the ring was built".to_owned()),
                deputy: DeputyStreams::default(),
            };
        }
    }
    let ring = next.finish().and_then(|next| match admission.prev {
        Some(prev) => Ok(RingStreams { next, prev }),
        None => Err(format!("rank {rank} heard nothing of its predecessor")),
    });
    let mine = mine.and_then(|mine| {
        let reason =
            |reason: &String| tracing::debug!(rank, %reason, "there is no way to the deputy");
        mine.finish().inspect_err(reason).ok()
    });
    let deputy = DeputyStreams {
        mine,
        others: admission.others,
    };
    Opened { ring, deputy }
}
