//! How two ranks prove to each other that they know the secret, before they exchange anything else.
//!
//! ```text
//! server                                                                client
//!   Challenge: magic, version, beyond loopback, nonce             ────────►
//!   ◄────────   Hello: magic, version, who, which link, nonce, HMAC(Kc, all before)
//!   Reply: status, session, HMAC(Ks, all before)                  ────────►
//! ```
//!
//! The two sides have different keys, so a proof cannot be reflected; both proofs cover both nonces, so
//! neither can be replayed. The server proves nothing to a client that has not proved itself: such a refusal
//! depends on no secret. The keys of an encrypted link are derived from the secret and all three messages.
//! Without a secret the key is empty and the code is the same. All messages have a fixed length. The module
//! does no I/O: bytes in, bytes out.

mod hello;
mod keys;

use crate::frame::VERSION;
pub(crate) use hello::{Hello, LAYOUT, LinkKind, job};
use keys::PROOF;
pub(crate) use keys::{Keys, LinkSecrets, derive};

pub(crate) const MAGIC: [u8; 8] = *b"cobrecom";
pub(crate) const CHALLENGE: usize = 8 + 4 + NONCE;
pub(crate) const HELLO: usize = hello::FIELDS + NONCE + PROOF;
pub(crate) const REPLY: usize = 4 + SESSION + PROOF;
pub(crate) const NONCE: usize = 32;
pub(crate) const SESSION: usize = 16;

/// Distinguishes one start of a job from every other: random bytes that rank 0 draws.
pub(crate) type Session = [u8; SESSION];

/// Whether a link was accepted, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Welcome = 0,
    OtherVersion = 1,
    OtherLayout = 2,
    OtherSize = 3,
    OtherJob = 4,
    OtherSession = 5,
    NoSuchRank = 6,
    Taken = 7,
    WrongProof = 8,
    NotExpected = 9,
    OtherEncryption = 10,
    Relayed = 11,
}

impl Status {
    pub(crate) fn is_welcome(self) -> bool {
        self == Self::Welcome
    }

    /// Returns whether the server sends this status only to a client that has proved itself, and proves
    /// itself in turn.
    pub(crate) fn is_proven(self) -> bool {
        !matches!(self, Self::OtherVersion | Self::WrongProof)
    }

    const ALL: [Self; 12] = [
        Self::Welcome,
        Self::OtherVersion,
        Self::OtherLayout,
        Self::OtherSize,
        Self::OtherJob,
        Self::OtherSession,
        Self::NoSuchRank,
        Self::Taken,
        Self::WrongProof,
        Self::NotExpected,
        Self::OtherEncryption,
        Self::Relayed,
    ];
}

/// Why a handshake ends here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("the program that answers there does not speak this protocol")]
    Stranger,
    #[error("it speaks version {0} of the protocol, this rank {VERSION}")]
    Version(u16),
    #[error("its proof does not fit the secret of this rank")]
    Proof,
    #[error("it sent an unknown status")]
    Status,
}

/// The side that accepted the connection.
#[derive(Debug)]
pub(crate) struct Server {
    challenge: [u8; CHALLENGE],
}

impl Server {
    /// Starts a handshake; `beyond` is whether the link leaves loopback, as seen from here.
    pub(crate) fn new(nonce: [u8; NONCE], beyond: bool) -> Self {
        let mut challenge = [0; CHALLENGE];
        challenge[..8].copy_from_slice(&MAGIC);
        challenge[8..10].copy_from_slice(&u16::from(VERSION).to_be_bytes());
        challenge[11] = u8::from(beyond);
        challenge[12..].copy_from_slice(&nonce);
        Self { challenge }
    }

    /// Returns what to send first.
    pub(crate) fn challenge(&self) -> &[u8; CHALLENGE] {
        &self.challenge
    }

    /// Returns early, from the bytes received so far, whether the other side may be a client of this
    /// protocol.
    pub(crate) fn tolerates(received: &[u8]) -> bool {
        let seen = received.len().min(MAGIC.len());
        received[..seen] == MAGIC[..seen]
    }

    /// Returns, from the bytes received so far, whether the other side has another version; that part is the
    /// same in all versions.
    pub(crate) fn other_version(received: &[u8]) -> bool {
        let version = received.get(8..10);
        version.is_some_and(|version| *version != u16::from(VERSION).to_be_bytes())
    }

    /// Reads the whole hello and checks its proof.
    pub(crate) fn hello(&self, hello: &[u8; HELLO], keys: &Keys) -> Result<Hello, Status> {
        let version = u16::from_be_bytes([hello[8], hello[9]]);
        if hello[..8] != MAGIC || version != u16::from(VERSION) {
            return Err(Status::OtherVersion);
        }
        let (said, proof) = hello.split_at(HELLO - PROOF);
        if !keys.client_proves(&[&self.challenge, said], proof) {
            return Err(Status::WrongProof);
        }
        Hello::decode(said).ok_or(Status::NotExpected)
    }

    /// Returns what to send last. It depends on the secret only if the client has proved that it knows the
    /// secret: other clients get no material for guessing it.
    pub(crate) fn reply(
        &self,
        hello: &[u8; HELLO],
        status: Status,
        session: &Session,
        keys: &Keys,
    ) -> [u8; REPLY] {
        let mut reply = [0; REPLY];
        reply[0] = status as u8;
        if status == Status::Welcome {
            reply[4..4 + SESSION].copy_from_slice(session);
        }
        if status.is_proven() {
            let (said, proof) = reply.split_at_mut(REPLY - PROOF);
            proof.copy_from_slice(&keys.server_proof(&[&self.challenge, hello, said]));
        }
        reply
    }

    /// Derives the secrets of the link, once its handshake is complete.
    pub(crate) fn secrets(
        &self,
        hello: &[u8; HELLO],
        reply: &[u8; REPLY],
        keys: &Keys,
    ) -> LinkSecrets {
        keys.link_secrets(&[&self.challenge, hello, reply])
    }
}

/// Returns whether the challenge says that the link leaves loopback. If the challenge was changed on the way,
/// no proof fits.
pub(crate) fn seen_beyond(challenge: &[u8; CHALLENGE]) -> bool {
    challenge[11] == 1
}

/// Returns what a client sends to a server of another version before it disconnects: its own version, where
/// every version expects it.
pub(crate) fn greeting() -> [u8; 12] {
    let mut greeting = [0; 12];
    greeting[..8].copy_from_slice(&MAGIC);
    greeting[8..10].copy_from_slice(&u16::from(VERSION).to_be_bytes());
    greeting
}

/// The side that opened the connection.
#[derive(Debug)]
pub(crate) struct Client {
    challenge: [u8; CHALLENGE],
    hello: [u8; HELLO],
}

impl Client {
    /// Processes the challenge and creates the hello.
    pub(crate) fn new(
        challenge: &[u8; CHALLENGE],
        hello: &Hello,
        nonce: &[u8; NONCE],
        keys: &Keys,
    ) -> Result<Self, HandshakeError> {
        if challenge[..8] != MAGIC {
            return Err(HandshakeError::Stranger);
        }
        let version = u16::from_be_bytes([challenge[8], challenge[9]]);
        if version != u16::from(VERSION) {
            return Err(HandshakeError::Version(version));
        }
        let mut bytes = [0; HELLO];
        let (said, proof) = bytes.split_at_mut(HELLO - PROOF);
        said[..hello::FIELDS].copy_from_slice(&hello.encode());
        said[hello::FIELDS..].copy_from_slice(nonce);
        proof.copy_from_slice(&keys.client_proof(&[challenge, said]));
        Ok(Self {
            challenge: *challenge,
            hello: bytes,
        })
    }

    /// Returns what to send.
    pub(crate) fn hello(&self) -> &[u8; HELLO] {
        &self.hello
    }

    /// Reads the reply. Only two refusals need no proof: a server with another version or another secret
    /// could not create a valid one.
    pub(crate) fn reply(
        &self,
        reply: &[u8; REPLY],
        keys: &Keys,
    ) -> Result<(Status, Session), HandshakeError> {
        let status = Status::ALL.into_iter().find(|&s| s as u8 == reply[0]);
        let status = status.ok_or(HandshakeError::Status)?;
        let (said, proof) = reply.split_at(REPLY - PROOF);
        let proven = keys.server_proves(&[&self.challenge, &self.hello, said], proof);
        if status.is_proven() && !proven {
            return Err(HandshakeError::Proof);
        }
        let mut session = [0; SESSION];
        session.copy_from_slice(&said[4..]);
        Ok((status, session))
    }

    /// Derives the secrets of the link, once its handshake is complete.
    pub(crate) fn secrets(&self, reply: &[u8; REPLY], keys: &Keys) -> LinkSecrets {
        keys.link_secrets(&[&self.challenge, &self.hello, reply])
    }
}

#[cfg(test)]
mod tests;
