//! The server side of handshakes: a listener, and whoever has connected but proven nothing yet.
//!
//! Strangers cost a bounded number of sockets for a bounded time, and the oldest of them gives way
//! to the next that comes. So scanners, and links that say nothing, never keep a rank out.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::{Identity, nonce};
use crate::encryption::{Encryption, leaves_loopback};
use crate::handshake::{CHALLENGE, HELLO, Hello, Server, Status};
use crate::link::{Channel, Traffic};
use crate::socket::prepare;

/// How long a handshake may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);

/// How many connections are accepted before the handshakes are looked at again.
const BATCH: usize = 64;

/// A link whose other end has proven that it belongs here.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) hello: Hello,
    pub(crate) stream: Channel,
    pub(crate) address: SocketAddr,
}

/// Decides who is let in, and keeps their links.
pub(crate) trait Admission {
    fn decide(&mut self, hello: &Hello) -> Status;
    fn keep(&mut self, proven: Proven);
}

/// Accepts links and drives their handshakes.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    pending: VecDeque<Pending>,
    most: usize,
    /// Why the last connection could not be accepted, if that is how it stands.
    trouble: Option<String>,
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
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener, size: usize) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            pending: VecDeque::new(),
            most: 64 + 2 * size,
            trouble: None,
        })
    }

    /// Returns why nobody can be let in any more.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns what to poll: the listener and the handshakes under way.
    pub(crate) fn interest<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.listener, PollFlags::IN));
        for pending in &self.pending {
            let flags = match pending.sent {
                CHALLENGE => PollFlags::IN,
                _ => PollFlags::IN | PollFlags::OUT,
            };
            fds.push(PollFd::new(&pending.stream, flags));
        }
    }

    /// Returns when the oldest handshake runs out of time.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.pending
            .front()
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
        let mut waiting = VecDeque::with_capacity(self.pending.len());
        for mut pending in self.pending.drain(..) {
            match pending.advance() {
                Ok(false) if now - pending.since < HANDSHAKE => waiting.push_back(pending),
                Ok(false) => pending.drop_because("it said too little for too long"),
                Ok(true) => pending.conclude(identity, admission),
                Err(reason) => pending.drop_because(&reason),
            }
        }
        self.pending = waiting;
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..BATCH {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    self.trouble = None;
                    if self.pending.len() >= self.most
                        && let Some(oldest) = self.pending.pop_front()
                    {
                        oldest.drop_because("too many others came after it");
                    }
                    match Pending::new(stream, address, now) {
                        Ok(pending) => self.pending.push_back(pending),
                        Err(error) => tracing::debug!(%address, %error, "lost a connection"),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, for one: room is made at the cost of who came first.
                    let trouble = error.to_string();
                    if self.trouble.as_ref() != Some(&trouble) {
                        tracing::warn!(%error, "cannot accept");
                    }
                    self.trouble = Some(trouble);
                    drop(self.pending.pop_front());
                    std::thread::sleep(Duration::from_millis(1));
                    return;
                }
            }
        }
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
        })
    }

    /// Moves bytes; returns whether the whole hello is there.
    fn advance(&mut self) -> Result<bool, String> {
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
                Ok(0) => return Err("it hung up".to_owned()),
                Ok(count) => self.received += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
            if !Server::tolerates(&self.hello[..self.received]) {
                return Err("it does not speak this protocol".to_owned());
            }
        }
        Ok(self.received == HELLO)
    }

    fn conclude(mut self, identity: &Identity, admission: &mut dyn Admission) {
        let hello = self.server.hello(&self.hello, &identity.keys);
        let (status, hello) = match hello {
            Ok(hello) => {
                let wrong = || self.differs(&hello, identity).unwrap_or(Status::Welcome);
                let status = match admission.decide(&hello) {
                    Status::Welcome => wrong(),
                    refusal => refusal,
                };
                (status, Some(hello))
            }
            Err(status) => (status, None),
        };
        let Identity { session, keys, .. } = identity;
        let reply = self.server.reply(&self.hello, status, session, keys);
        // A new socket has room for these few bytes; one that has not is no loss.
        let sent = self
            .stream
            .write(&reply)
            .is_ok_and(|count| count == reply.len());
        match (status, hello) {
            (Status::Welcome, Some(hello)) if sent => {
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
                admission.keep(Proven {
                    hello,
                    stream,
                    address: self.address,
                });
            }
            _ => {
                let rank = hello.map(|hello| hello.from);
                tracing::warn!(address = %self.address, ?rank, ?status, "refused a link");
                // The refusal must arrive before the socket goes.
                crate::socket::hang_up(&self.stream);
            }
        }
    }

    /// Checks what a client that has proved itself says about the connection; returns what is wrong
    /// with it.
    fn differs(&self, hello: &Hello, identity: &Identity) -> Option<Status> {
        let here = SocketAddr::new(self.address.ip().to_canonical(), self.address.port());
        // Plain where nobody can listen in, unless somebody passes the bytes on.
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

    fn drop_because(self, reason: &str) {
        tracing::warn!(address = %self.address, reason, "dropped a connection that proved nothing");
    }
}
