//! Building the ring: every rank connects to its successor while its predecessor connects to it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::accept::{Acceptor, Admission, HANDSHAKE, Proven};
use super::dial::{Dial, DialError};
use super::{Countdown, Identity, NOWHERE, number};
use crate::handshake::{Hello, LinkKind, Status};
use crate::link::{Channel, Link};

/// The events that show that the other end of a link has closed it, where the system distinguishes that from
/// received bytes; on other systems it shows when the link is read.
#[cfg(target_os = "linux")]
const ENDS: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const ENDS: PollFlags = PollFlags::empty();

/// The two links of a rank in the ring.
#[derive(Debug)]
pub(crate) struct RingStreams {
    pub(crate) next: Channel,
    pub(crate) prev: Channel,
}

/// Accepts the predecessor, once.
struct RingAdmission<'a> {
    identity: &'a Identity,
    prev: Option<Channel>,
}

impl Admission for RingAdmission<'_> {
    fn decide(&mut self, hello: &Hello, _: Instant, _: Instant) -> Option<Status> {
        let Identity { rank, size, .. } = *self.identity;
        if let Some(status) = self.identity.differs(hello) {
            return Some(status);
        }
        Some(if hello.session != self.identity.session {
            Status::OtherSession
        } else if hello.link != LinkKind::Ring || hello.from != number((rank + size - 1) % size) {
            Status::NotExpected
        } else if self.prev.is_some() {
            Status::Taken
        } else {
            Status::Welcome
        })
    }

    fn keep(&mut self, proven: Proven, _: Instant) {
        self.prev = Some(proven.stream);
    }
}

/// Returns how long building the ring may take: less than the remaining time of the start, so that there is
/// time to continue without a ring.
pub(crate) fn limit(time: &mut Countdown) -> Duration {
    HANDSHAKE.min(time.left() / 2)
}

/// Opens both links within `limit`, or returns why that is not possible. Fails as soon as a link to rank 0,
/// or on rank 0 one to a worker, ends: then there will be no job.
pub(crate) fn build(
    identity: &Identity,
    acceptor: &mut Acceptor,
    successor: SocketAddr,
    data: &[Link],
    limit: Duration,
    time: &mut Countdown,
) -> Result<RingStreams, String> {
    let deadline = time.part(limit);
    let Identity { rank, size, .. } = *identity;
    let next_rank = (rank + 1) % size;
    let explain = |error: DialError| {
        let reason = match error {
            DialError::Refused(status) => format!("refused: {status:?}"),
            DialError::Failed(reason) => reason,
        };
        format!("rank {rank} cannot reach rank {next_rank} at {successor}: {reason}")
    };
    let mut admission = RingAdmission {
        identity,
        prev: None,
    };
    let hello = |_| Ok(identity.hello(LinkKind::Ring, next_rank, NOWHERE));
    let mut dial = Dial::new(successor, identity, hello).map_err(explain)?;
    let mut connected = false;
    loop {
        acceptor.advance(identity, &mut admission, time.now());
        if !connected {
            connected = dial.advance().map_err(explain)?.is_some();
        }
        if connected && let Some(prev) = admission.prev.take() {
            let next = dial.into_channel();
            return Ok(RingStreams { next, prev });
        }
        let now = time.now();
        if now >= deadline {
            return Err(if connected {
                format!("rank {rank} got no connection from its predecessor")
            } else {
                format!("rank {rank} got no answer from rank {next_rank} at {successor}")
            });
        }
        let mut limit = deadline - now;
        if let Some(due) = acceptor.next_due() {
            limit = limit.min(due.saturating_duration_since(now) + Duration::from_millis(1));
        }
        let ends = data.iter().map(|link| PollFd::new(link, ENDS));
        let mut fds: Vec<PollFd<'_>> = ends.collect();
        acceptor.interest(&mut fds);
        if !connected {
            fds.push(dial.interest());
        }
        time.wait(&mut fds, limit);
        if fds[..data.len()].iter().any(|fd| !fd.revents().is_empty()) {
            return Err("a rank left while the ring was built".to_owned());
        }
    }
}
