//! Reading the one frame of a call from one link.

use crate::call::Call;
use crate::frame::{Header, Kind};
use crate::link::{Broken, Link, Stream};
use crate::notice::text;

/// What another rank has to say about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It made the same call, and its bytes have landed.
    Agreed,
    /// It made another call.
    Differs(Call),
    /// A rank refused its arguments.
    Refused { rank: usize, reason: String },
    /// Rank 0 found that the ranks differ.
    Mismatch { rank: usize, message: String },
}

/// Takes the bytes of a payload.
pub(crate) trait Land {
    fn len(&self) -> usize;
    /// Gives where byte `at` of the payload goes, and as many after it as lie together.
    fn room(&mut self, at: usize) -> &mut [u8];
}

impl Land for [u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn room(&mut self, at: usize) -> &mut [u8] {
        &mut self[at..]
    }
}

/// Reads frames until the one of the current call has come: frames of earlier calls, which were left
/// early, are skipped. Nothing lands unless the header agrees.
#[derive(Debug)]
pub(crate) struct Reading {
    state: State,
}

#[derive(Debug)]
enum State {
    Header,
    Skip { left: u64, then: Option<Entry> },
    Text { kind: Kind, length: usize },
    Payload { at: usize },
    Done(Entry),
}

impl Reading {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Header,
        }
    }

    /// Gives what was read, once all of it was.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match &self.state {
            State::Done(entry) => Some(entry),
            _ => None,
        }
    }

    /// Reads what is there; tells whether anything was. `kind` is what an agreeing frame is.
    pub(crate) fn advance<S: Stream, L: Land + ?Sized>(
        &mut self,
        link: &mut Link<S>,
        kind: Kind,
        (sequence, call): (u64, Call),
        land: &mut L,
    ) -> Result<bool, Broken> {
        let mut moved = false;
        loop {
            match &mut self.state {
                State::Done(_) => return Ok(moved),
                State::Header => {
                    let Some(header) = link.header()? else {
                        return Ok(moved);
                    };
                    self.state = begin(&header, kind, sequence, call, land.len())
                        .ok_or_else(|| astray(link.peer(), &header, sequence))?;
                }
                State::Skip { left: 0, then } => {
                    self.state = then.take().map_or(State::Header, State::Done);
                }
                State::Skip { left, .. } => {
                    let skipped = link.skip(*left)?;
                    if skipped == 0 {
                        return Ok(moved);
                    }
                    *left -= skipped;
                }
                State::Text { kind, length } => {
                    let kind = *kind;
                    let Some(body) = link.take(*length)? else {
                        return Ok(moved);
                    };
                    let (rank, reason) = unpack(&body);
                    self.state = State::Done(match kind {
                        Kind::Mismatch => Entry::Mismatch {
                            rank,
                            message: reason,
                        },
                        _ => Entry::Refused { rank, reason },
                    });
                }
                State::Payload { at } if *at == land.len() => {
                    self.state = State::Done(Entry::Agreed);
                }
                State::Payload { at } => {
                    let count = link.read(land.room(*at))?;
                    if count == 0 {
                        return Ok(moved);
                    }
                    *at += count;
                }
            }
            moved = true;
        }
    }
}

/// Decides how to go on after a header; `None` if no rank in its right mind sends it now.
fn begin(header: &Header, kind: Kind, sequence: u64, call: Call, expected: usize) -> Option<State> {
    if header.sequence < sequence && header.kind != Kind::Bulk {
        return Some(State::Skip {
            left: header.length,
            then: None,
        });
    }
    if header.sequence != sequence {
        return None;
    }
    let length = usize::try_from(header.length).ok()?;
    match header.kind {
        Kind::Refused | Kind::Mismatch => Some(State::Text {
            kind: header.kind,
            length,
        }),
        sent if sent == kind && header.call == Some(call) => {
            (length == expected).then_some(State::Payload { at: 0 })
        }
        sent if sent == kind => Some(State::Skip {
            left: header.length,
            then: Some(Entry::Differs(header.call?)),
        }),
        _ => None,
    }
}

#[cold]
fn astray(peer: usize, header: &Header, sequence: u64) -> Broken {
    Broken {
        peer,
        reason: format!(
            "it sent {:?} of call {} with {} bytes in call {sequence}, which makes no sense; do all \
             ranks run the same build?",
            header.kind, header.sequence, header.length
        ),
    }
}

/// Reads the entry of a broadcast from a link, looking at most `looks` times; for the fuzzer.
pub(crate) fn read_entry<S: Stream>(
    link: &mut Link<S>,
    at: (u64, Call),
    land: &mut [u8],
    looks: usize,
) {
    let mut reading = Reading::new();
    for _ in 0..looks {
        let advanced = reading.advance(link, Kind::Enter, at, land);
        if advanced.is_err() || reading.entry().is_some() {
            return;
        }
    }
}

/// Packs a rank and a text into the body of a frame.
pub(crate) fn pack(rank: usize, text: &str) -> Vec<u8> {
    let mut body = u32::try_from(rank)
        .unwrap_or(u32::MAX)
        .to_be_bytes()
        .to_vec();
    body.extend_from_slice(crate::notice::cut(text).as_bytes());
    body
}

fn unpack(body: &[u8]) -> (usize, String) {
    let (rank, rest) = body.split_at(body.len().min(4));
    let rank = rank
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes));
    (usize::try_from(rank).unwrap_or(0), text(rest))
}

#[cfg(test)]
mod tests;
