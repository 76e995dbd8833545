//! The client side of a handshake.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::event::{PollFd, PollFlags};

use super::{Identity, nonce};
use crate::encryption::leaves_loopback;
use crate::handshake::{
    CHALLENGE, Client, HandshakeError, Hello, LinkKind, LinkSecrets, REPLY, Session, Status,
    greeting, seen_beyond,
};
use crate::link::{Channel, Traffic};
use crate::socket::{begin_connect, finish_connect};

/// Why a link could not be opened.
#[derive(Debug)]
pub(crate) enum DialError {
    /// The other end refuses this rank. If the status is a proved one, trying again changes nothing.
    Refused(Status),
    /// No process listens there yet, or not the right one.
    Failed(String),
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self::Failed(match error.kind() {
            ErrorKind::UnexpectedEof => "it closed the connection during the handshake".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// A link that is being opened.
pub(crate) struct Dial<'a> {
    stream: TcpStream,
    identity: &'a Identity,
    hello: Box<dyn FnMut(SocketAddr) -> io::Result<Hello> + 'a>,
    state: State,
    received: usize,
    /// The secrets of the link once it is open, if it is to be encrypted.
    traffic: Option<Traffic>,
}

enum State {
    Connecting,
    Challenge([u8; CHALLENGE]),
    Reply {
        client: Box<Client>,
        reply: [u8; REPLY],
        sealed: Option<LinkKind>,
    },
}

impl<'a> Dial<'a> {
    /// Begins to connect; once connected, `hello` creates the hello for the given local address.
    pub(crate) fn new(
        address: SocketAddr,
        identity: &'a Identity,
        hello: impl FnMut(SocketAddr) -> io::Result<Hello> + 'a,
    ) -> Result<Self, DialError> {
        Ok(Self {
            stream: begin_connect(address)?,
            identity,
            hello: Box::new(hello),
            state: State::Connecting,
            received: 0,
            traffic: None,
        })
    }

    pub(crate) fn interest(&self) -> PollFd<'_> {
        let flags = match self.state {
            State::Connecting => PollFlags::OUT,
            _ => PollFlags::IN,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Makes progress after a poll; returns the session once the link is open.
    pub(crate) fn advance(&mut self) -> Result<Option<Session>, DialError> {
        loop {
            match &mut self.state {
                State::Connecting => {
                    let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
                    crate::poll::poll_for(&mut fds, Some(std::time::Duration::ZERO))?;
                    if fds[0].revents().is_empty() {
                        return Ok(None);
                    }
                    finish_connect(&self.stream)?;
                    self.state = State::Challenge([0; CHALLENGE]);
                }
                State::Challenge(challenge) => {
                    if !fill(&mut self.stream, challenge, &mut self.received)? {
                        return Ok(None);
                    }
                    let local = self.stream.local_addr()?;
                    let beyond = seen_beyond(challenge) || leaves_loopback(&self.stream)?;
                    let hello = Hello {
                        sealed: self.identity.seals(beyond),
                        local,
                        ..(self.hello)(local)?
                    };
                    let client = Client::new(challenge, &hello, &nonce()?, &self.identity.keys);
                    let client = match client {
                        Ok(client) => client,
                        Err(HandshakeError::Version(version)) => {
                            tracing::debug!(version, "met another version");
                            // If it does not arrive, the other side merely does not learn the reason.
                            let _ = self.stream.write(&greeting());
                            return Err(DialError::Refused(Status::OtherVersion));
                        }
                        Err(error) => return Err(DialError::Failed(error.to_string())),
                    };
                    // A new socket has room for these few bytes.
                    if self.stream.write(client.hello())? != client.hello().len() {
                        return Err(DialError::Failed("the link accepts no bytes".to_owned()));
                    }
                    self.received = 0;
                    self.state = State::Reply {
                        client: Box::new(client),
                        reply: [0; REPLY],
                        sealed: hello.sealed.then_some(hello.link),
                    };
                }
                State::Reply {
                    client,
                    reply,
                    sealed,
                } => {
                    if !fill(&mut self.stream, reply, &mut self.received)? {
                        return Ok(None);
                    }
                    return match client.reply(reply, &self.identity.keys) {
                        Ok((Status::Welcome, session)) => {
                            let secrets = client.secrets(reply, &self.identity.keys);
                            self.traffic = sealed.map(|link| traffic(&secrets, link));
                            Ok(Some(session))
                        }
                        Ok((status, _)) => Err(DialError::Refused(status)),
                        Err(error) => Err(DialError::Failed(error.to_string())),
                    };
                }
            }
        }
    }

    pub(crate) fn into_channel(self) -> Channel {
        Channel {
            stream: self.stream,
            traffic: self.traffic,
        }
    }
}

fn traffic(secrets: &LinkSecrets, link: LinkKind) -> Traffic {
    Traffic {
        outward: secrets.to_server,
        inward: secrets.to_client,
        link: link.name(),
    }
}

/// Reads until `into` is full; returns whether it is.
fn fill(stream: &mut TcpStream, into: &mut [u8], received: &mut usize) -> io::Result<bool> {
    while *received < into.len() {
        match stream.read(&mut into[*received..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => *received += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
