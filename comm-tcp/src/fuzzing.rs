//! Feeds any bytes to all code that reads from a link: for the fuzzer, the tests and the benchmark. Not part
//! of the interface.

use std::io::{self, ErrorKind, IoSlice};

use comm_kit::Call;

use crate::collective::Incoming;
use crate::frame::{FrameKind, HEADER, Header};
use crate::handshake::{
    CHALLENGE, Client, HELLO, Hello, Keys, NONCE, REPLY, SESSION, Server, Status,
};
use crate::link::{Link, Stream};
use crate::notice::Notice;
use crate::seal::Opener;

/// The version in headers and handshakes.
pub const VERSION: u8 = crate::frame::VERSION;

/// A stream that yields its bytes in pieces of one length, with a pause after each.
struct Pieces<'a> {
    rest: &'a [u8],
    piece: usize,
    pause: bool,
}

impl Stream for Pieces<'_> {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.pause = !self.pause;
        if self.pause && !self.rest.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = self.rest.len().min(self.piece).min(into.len());
        let (now, later) = self.rest.split_at(count);
        into[..count].copy_from_slice(now);
        self.rest = later;
        Ok(count)
    }

    fn send(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

/// Reads `bytes` as frames, notices, entries of a call, sealed records and all messages of a
/// handshake.
///
/// # Panics
///
/// If something decoded does not encode to the bytes it was read from, or if a proof or a record is accepted
/// that was never created.
pub fn any_bytes(bytes: &[u8]) {
    frames(bytes);
    handshakes(bytes);
    records(bytes);
    let piece = bytes.first().map_or(1, |&first| usize::from(first) + 1);
    let stream = Pieces {
        rest: bytes,
        piece,
        pause: false,
    };
    let mut payload = [0; 24];
    let mut link = Link::new(stream, 1);
    // Each iteration reads a byte or pauses; an entry or the end comes first.
    let looks = 4 * bytes.len() + 8;
    let at = (3, Call::broadcast(24, 8, 1));
    let mut incoming = Incoming::new();
    for _ in 0..looks {
        let advanced = incoming.advance(&mut link, FrameKind::Enter, at, &mut payload[..]);
        if advanced.is_err() || incoming.entry().is_some() {
            return;
        }
    }
}

fn frames(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<HEADER>() {
        let Ok(header) = Header::decode(head) else {
            return;
        };
        assert_eq!(header.encode(), *head, "a header encodes to the same bytes");
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        let (body, later) = tail.split_at(tail.len().min(length));
        if let Some(notice) = Notice::decode(&header, body)
            && header.kind != FrameKind::Bulk
        {
            let _ = notice.encode();
        }
        rest = later;
    }
}

fn records(bytes: &[u8]) {
    let mut stream = Pieces {
        rest: bytes,
        piece: bytes.first().map_or(1, |&first| usize::from(first) + 1),
        pause: false,
    };
    let mut opener = Opener::new([5; 32], "data");
    let mut into = [0; 24];
    for _ in 0..2 * bytes.len() + 2 {
        let count = opener.receive(&mut stream, &mut into).unwrap_or(0);
        assert_eq!(count, 0, "a record out of nothing");
    }
}

fn handshakes(bytes: &[u8]) {
    let keys = Keys::new(b"a secret that is never guessed");
    let server = Server::new([3; NONCE], false);
    let _ = Server::tolerates(bytes);
    if let Some(hello) = bytes.first_chunk::<HELLO>() {
        assert!(
            server.hello(hello, &keys).is_err(),
            "a proof out of nothing"
        );
    }
    let Some(said) = Hello::decode(bytes) else {
        return;
    };
    if let Some(challenge) = bytes.first_chunk::<CHALLENGE>() {
        let _ = Client::new(challenge, &said, &[4; NONCE], &keys);
    }
    let client = Client::new(server.challenge(), &said, &[4; NONCE], &keys);
    if let (Ok(client), Some(reply)) = (client, bytes.first_chunk::<REPLY>()) {
        let welcome = client
            .reply(reply, &keys)
            .is_ok_and(|(status, _)| status.is_welcome());
        assert!(!welcome, "a welcome out of nothing");
    }
}

/// Encodes a header and decodes it; for the benchmark.
#[must_use]
pub fn header_there_and_back(sequence: u64) -> bool {
    let header = Header::new(FrameKind::Enter, sequence, Call::barrier(), 0);
    Header::decode(&header.encode()).is_ok_and(|decoded| decoded.sequence == sequence)
}

/// Creates all messages of a handshake and checks them; for the benchmark.
#[must_use]
pub fn handshake_there_and_back(secret: &[u8]) -> bool {
    let keys = Keys::new(secret);
    let server = Server::new([1; NONCE], true);
    let Some(said) = Hello::decode(&[1; HELLO]) else {
        return false;
    };
    let Ok(client) = Client::new(server.challenge(), &said, &[2; NONCE], &keys) else {
        return false;
    };
    let welcome = server.hello(client.hello(), &keys).is_ok();
    let reply = server.reply(client.hello(), Status::Welcome, &[3; SESSION], &keys);
    welcome && client.reply(&reply, &keys).is_ok()
}
