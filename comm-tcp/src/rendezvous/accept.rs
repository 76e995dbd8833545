//! The server side of handshakes: a listener, and the connections that have not proved anything yet.
//!
//! Strangers cost a bounded number of sockets for a bounded time, and [`crowd`](super::crowd) selects the
//! connections that give way to new ones. So scanners, silent connections and floods do not keep a rank from
//! joining.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::complaints::Complaints;
use super::crowd::{self, Source};
use super::{Identity, nonce};
use crate::encryption::{Encryption, leaves_loopback};
use crate::handshake::{CHALLENGE, HELLO, Hello, Server, Status};
use crate::link::{Channel, Traffic};
use crate::poll::poll_for;
use crate::socket::prepare;

/// How long a handshake may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);

/// How many connections are accepted before the handshakes are checked again.
const BATCH: usize = 64;

/// How many handshakes may be in progress, beyond two for each rank.
const ROOM: usize = 256;

/// A link whose other end has proved that it belongs here.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) hello: Hello,
    pub(crate) stream: Channel,
    pub(crate) address: SocketAddr,
}

/// Decides which links are accepted, and keeps them.
pub(crate) trait Admission {
    /// Returns whether to accept the link that asked at `asked`; `None` if that cannot be decided yet.
    fn decide(&mut self, hello: &Hello, asked: Instant, now: Instant) -> Option<Status>;
    fn keep(&mut self, proven: Proven, now: Instant);
}

/// Accepts links and drives their handshakes.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    /// In order of arrival.
    pending: Vec<Pending>,
    most: usize,
    /// Why the last connection could not be accepted, if that is still the case.
    trouble: Option<String>,
    complaints: Complaints,
}

#[derive(Debug)]
struct Pending {
    stream: TcpStream,
    address: SocketAddr,
    since: Instant,
    server: Server,
    /// The link leaves loopback, as seen from here.
    beyond: bool,
    sent: usize,
    hello: [u8; HELLO],
    received: usize,
    /// The hello, once it is proved, and since when it is.
    said: Option<(Hello, Instant)>,
}

/// How far a handshake has got.
enum Progress {
    Waiting,
    /// The whole hello is there.
    Said,
    /// The part of the hello is there that all versions have in common.
    OtherVersion,
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener, size: usize) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            pending: Vec::new(),
            most: ROOM + 2 * size,
            trouble: None,
            complaints: Complaints::default(),
        })
    }

    /// Returns why no connection can be accepted any longer.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns who was refused and why, as far as that may be the reason for a missing rank.
    pub(crate) fn refused(&self) -> Option<String> {
        self.complaints.reasons()
    }

    /// Returns what to poll: the listener and the handshakes in progress.
    pub(crate) fn interest<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.listener, PollFlags::IN));
        // A client that waits for a decision has sent everything; its end shows when it is answered.
        let talking = self.pending.iter().filter(|pending| pending.said.is_none());
        fds.extend(talking.map(Pending::interest));
    }

    /// Returns when the oldest handshake runs out of time.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.pending
            .first()
            .map(|pending| pending.since + HANDSHAKE)
    }

    /// Moves everything that can be moved.
    pub(crate) fn advance(
        &mut self,
        identity: &Identity,
        admission: &mut dyn Admission,
        now: Instant,
    ) {
        self.accept(now);
        self.make_room(self.pending.len().saturating_sub(self.most), now);
        let ready = self.ready();
        let pending = std::mem::take(&mut self.pending);
        for (mut pending, ready) in pending.into_iter().zip(ready) {
            let progress = if ready {
                pending.advance()
            } else {
                Ok(Progress::Waiting)
            };
            let status = match progress {
                Ok(Progress::Waiting) => None,
                Ok(Progress::OtherVersion) => Some(Status::OtherVersion),
                Ok(Progress::Said) => pending.status(identity, admission, now),
                Err(reason) => {
                    self.complaints.dropped(pending.address, &reason, now);
                    continue;
                }
            };
            if let Some(status) = status {
                pending.conclude(status, identity, admission, &mut self.complaints, now);
            } else if now.saturating_duration_since(pending.since) < HANDSHAKE {
                self.pending.push(pending);
            } else if pending.said.is_some() {
                // The client may ask again.
                let status = Status::NotExpected;
                pending.conclude(status, identity, admission, &mut self.complaints, now);
            } else {
                let reason = "it sent too little for too long";
                self.complaints.dropped(pending.address, reason, now);
            }
        }
        self.complaints.settle(Some(now));
    }

    /// Determines with one system call which handshakes can be moved: a flood is long, and most of its
    /// connections are silent.
    fn ready(&self) -> Vec<bool> {
        let mut fds: Vec<PollFd<'_>> = self.pending.iter().map(Pending::interest).collect();
        let polled = poll_for(&mut fds, Some(Duration::ZERO));
        let stirred = |fd: &PollFd<'_>| polled.is_err() || !fd.revents().is_empty();
        let fds = fds.iter().zip(&self.pending);
        fds.map(|(fd, pending)| stirred(fd) || pending.said.is_some())
            .collect()
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..BATCH {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    self.trouble = None;
                    match Pending::new(stream, address, now) {
                        Ok(pending) => self.pending.push(pending),
                        Err(error) => tracing::debug!(%address, %error, "lost a connection"),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, for example: another connection is closed to make room.
                    let trouble = error.to_string();
                    if self.trouble.as_ref() != Some(&trouble) {
                        tracing::warn!(%error, "cannot accept");
                    }
                    self.trouble = Some(trouble);
                    self.make_room(1, now);
                    std::thread::sleep(Duration::from_millis(1));
                    return;
                }
            }
        }
    }

    /// Closes some connections that have proved nothing.
    fn make_room(&mut self, excess: usize, now: Instant) {
        if excess == 0 {
            return;
        }
        let source = |pending: &Pending| match pending.said {
            Some(_) => None,
            None => Some(Source::of(pending.address.ip())),
        };
        let sources: Vec<Option<Source>> = self.pending.iter().map(source).collect();
        // Without random numbers the oldest goes.
        let draw = || getrandom::u32().map_or(0, |drawn| drawn as usize);
        let gone = crowd::give_way(&sources, excess, draw);
        let (mut gone, mut places) = (gone.into_iter().peekable(), 0..);
        let complaints = &mut self.complaints;
        self.pending.retain(|pending| {
            let stays = places.next() != gone.peek().copied();
            if !stays {
                gone.next();
                complaints.dropped(pending.address, "too many others connected after it", now);
            }
            stays
        });
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.complaints.settle(None);
    }
}

impl Pending {
    fn new(stream: TcpStream, address: SocketAddr, since: Instant) -> std::io::Result<Self> {
        prepare(&stream)?;
        let beyond = leaves_loopback(&stream)?;
        Ok(Self {
            stream,
            address,
            since,
            server: Server::new(nonce()?, beyond),
            beyond,
            sent: 0,
            hello: [0; HELLO],
            received: 0,
            said: None,
        })
    }

    fn interest(&self) -> PollFd<'_> {
        let flags = match self.sent {
            CHALLENGE => PollFlags::IN,
            _ => PollFlags::IN | PollFlags::OUT,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Moves bytes; returns how much of the hello is there.
    fn advance(&mut self) -> Result<Progress, String> {
        let challenge = self.server.challenge();
        while self.sent < CHALLENGE {
            match self.stream.write(&challenge[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        while self.received < HELLO {
            match self.stream.read(&mut self.hello[self.received..]) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(count) => self.received += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
            let received = &self.hello[..self.received];
            if !Server::tolerates(received) {
                return Err("it does not speak this protocol".to_owned());
            }
            if Server::other_version(received) {
                return Ok(Progress::OtherVersion);
            }
        }
        Ok(if self.received == HELLO {
            Progress::Said
        } else {
            Progress::Waiting
        })
    }

    /// Returns whether the client is accepted, once its hello is there; `None` if that cannot be decided yet.
    fn status(
        &mut self,
        identity: &Identity,
        admission: &mut dyn Admission,
        now: Instant,
    ) -> Option<Status> {
        let (hello, asked) = match self.said {
            Some(said) => said,
            None => match self.server.hello(&self.hello, &identity.keys) {
                Ok(hello) => *self.said.insert((hello, now)),
                Err(status) => return Some(status),
            },
        };
        match admission.decide(&hello, asked, now) {
            Some(Status::Welcome) => {
                Some(self.differs(&hello, identity).unwrap_or(Status::Welcome))
            }
            other => other,
        }
    }

    fn conclude(
        mut self,
        status: Status,
        identity: &Identity,
        admission: &mut dyn Admission,
        complaints: &mut Complaints,
        now: Instant,
    ) {
        let Identity { session, keys, .. } = identity;
        let reply = self.server.reply(&self.hello, status, session, keys);
        // A new socket has room for these few bytes; if it does not, nothing is lost.
        let sent = self
            .stream
            .write(&reply)
            .is_ok_and(|count| count == reply.len());
        match (status, self.said) {
            (Status::Welcome, Some((hello, _))) if sent => {
                let secrets = self.server.secrets(&self.hello, &reply, keys);
                let traffic = hello.sealed.then(|| Traffic {
                    outward: secrets.to_client,
                    inward: secrets.to_server,
                    link: hello.link.name(),
                });
                let stream = Channel {
                    stream: self.stream,
                    traffic,
                };
                let proven = Proven {
                    hello,
                    stream,
                    address: self.address,
                };
                admission.keep(proven, now);
            }
            (_, said) => {
                complaints.refused(self.address, said.map(|(hello, _)| hello.from), status, now);
                // The refusal must arrive before the socket is closed.
                crate::socket::hang_up(&self.stream);
            }
        }
    }

    /// Checks what an authenticated client says about the connection; returns what is wrong with it.
    fn differs(&self, hello: &Hello, identity: &Identity) -> Option<Status> {
        let here = SocketAddr::new(self.address.ip().to_canonical(), self.address.port());
        // Plain where no one can listen in, unless a proxy forwards the bytes.
        let guarded = identity.has_secret && identity.encryption == Encryption::Auto;
        let too_little = identity.seals(self.beyond) && !hello.sealed;
        let too_much = hello.sealed && !identity.seals(true);
        if too_little || too_much {
            Some(Status::OtherEncryption)
        } else if guarded && !hello.sealed && hello.local != here {
            Some(Status::Relayed)
        } else {
            None
        }
    }
}
