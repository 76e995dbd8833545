//! The frames of one call on one link: the one that goes out, the one that comes in, and the headers
//! in front of streams.

use std::io::IoSlice;

use comm_kit::Call;

use crate::frame::{FrameKind, HEADER, Header};
use crate::link::{Broken, Link, Stream};
use crate::notice::unpack;

/// Sends a header and what belongs to it, in as many pieces as the link takes.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    /// Absent if it lies in front of the body.
    head: Option<[u8; HEADER]>,
    body: &'a [u8],
    sent: usize,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(header: &Header, body: &'a [u8]) -> Self {
        debug_assert_eq!(header.length, body.len() as u64);
        Self {
            head: Some(header.encode()),
            body,
            sent: 0,
        }
    }

    /// Creates a message of bytes that begin with their header.
    pub(crate) fn whole(frame: &'a [u8]) -> Self {
        Self {
            head: None,
            body: frame,
            sent: 0,
        }
    }

    /// Creates a header after which a stream follows that is not part of the message.
    pub(crate) fn stream(header: &Header) -> Self {
        Self {
            head: Some(header.encode()),
            body: &[],
            sent: 0,
        }
    }

    /// Sends what fits; returns how much that was.
    #[inline]
    pub(crate) fn send<S: Stream>(&mut self, link: &mut Link<S>) -> Result<usize, Broken> {
        let (head, body) = self.rest();
        let parts = [IoSlice::new(head), IoSlice::new(body)];
        let count = link.write(match (head, body) {
            ([], _) => &parts[1..],
            (_, []) => &parts[..1],
            _ => &parts,
        })?;
        self.sent += count;
        Ok(count)
    }

    /// Returns how many bytes go out in all.
    pub(crate) fn len(&self) -> usize {
        self.head().len() + self.body.len()
    }

    fn head(&self) -> &[u8] {
        self.head.as_ref().map_or(&[], |head| head)
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.sent > 0
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.sent == self.len()
    }

    /// Leaves the rest to the link: it goes out in the next call.
    #[cold]
    pub(crate) fn leave<S: Stream>(&mut self, link: &mut Link<S>) {
        let (head, body) = self.rest();
        link.keep(head);
        link.keep(body);
        self.give_up();
    }

    /// Counts as sent: the other end is gone.
    pub(crate) fn give_up(&mut self) {
        self.sent = self.len();
    }

    fn rest(&self) -> (&[u8], &'a [u8]) {
        let head = self.head();
        let of_head = self.sent.min(head.len());
        (&head[of_head..], &self.body[self.sent - of_head..])
    }
}

/// The headers in front of the two streams of a large call, one out and one in, and whether they
/// have gone and come.
#[derive(Debug)]
pub(crate) struct Heads {
    out: Outgoing<'static>,
    expected: Option<Header>,
}

impl Heads {
    pub(crate) fn new((sequence, call): (u64, Call), bytes_out: usize, bytes_in: usize) -> Self {
        let header = |length: usize| Header::new(FrameKind::Bulk, sequence, call, length);
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
    pub(crate) fn sent(&mut self, link: &mut Link) -> Result<bool, Broken> {
        if !self.out.is_sent() {
            self.out.send(link)?;
        }
        Ok(self.out.is_sent())
    }

    /// Reads the header; returns whether the stream follows.
    pub(crate) fn came(&mut self, link: &mut Link) -> Result<bool, Broken> {
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

/// Where the bytes of a payload go.
pub(crate) trait Sink {
    fn len(&self) -> usize;

    /// Returns where byte `at` of the payload goes, and as many after it as lie together.
    fn room(&mut self, at: usize) -> &mut [u8];

    /// Takes what has come of the payload from byte `at` on; returns how much that was.
    fn take<S: Stream>(&mut self, link: &mut Link<S>, at: usize) -> Result<usize, Broken> {
        link.read(self.room(at))
    }

    /// Takes note that all bytes before `end` have come, from `peer`.
    fn came(&mut self, end: usize, peer: usize) -> Result<(), Broken> {
        let _ = (end, peer);
        Ok(())
    }
}

/// No payload.
impl Sink for () {
    fn len(&self) -> usize {
        0
    }

    fn room(&mut self, _: usize) -> &mut [u8] {
        &mut []
    }
}

impl Sink for [u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn room(&mut self, at: usize) -> &mut [u8] {
        &mut self[at..]
    }
}

/// A payload of this many bytes that stays in the inbox of its link.
#[derive(Debug)]
pub(crate) struct InInbox(pub(crate) usize);

impl Sink for InInbox {
    fn len(&self) -> usize {
        self.0
    }

    fn room(&mut self, _: usize) -> &mut [u8] {
        &mut []
    }

    fn take<S: Stream>(&mut self, link: &mut Link<S>, _: usize) -> Result<usize, Broken> {
        Ok(if link.hold(self.0)? { self.0 } else { 0 })
    }
}

/// Reads frames until the one of the current call has come: frames of earlier calls, which were left
/// early, are skipped. Nothing lands unless the header agrees.
#[derive(Debug)]
pub(crate) struct Incoming {
    state: State,
    /// Bytes have come that are no header yet.
    coming: bool,
}

#[derive(Debug)]
enum State {
    Header,
    Skip { left: u64, then: Option<Entry> },
    Text { kind: FrameKind, length: usize },
    Payload { at: usize },
    Done(Entry),
}

impl Incoming {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Header,
            coming: false,
        }
    }

    /// Returns what was read, once all of it was.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match &self.state {
            State::Done(entry) => Some(entry),
            _ => None,
        }
    }

    /// Returns whether the frame of the current call has begun to come.
    pub(crate) fn has_begun(&self) -> bool {
        match &self.state {
            State::Header => self.coming,
            State::Skip { then, .. } => then.is_some(),
            State::Text { .. } | State::Payload { .. } | State::Done(_) => true,
        }
    }

    /// Reads what is there; returns whether anything was. `kind` is what an agreeing frame is.
    pub(crate) fn advance<S: Stream, L: Sink + ?Sized>(
        &mut self,
        link: &mut Link<S>,
        kind: FrameKind,
        (sequence, call): (u64, Call),
        sink: &mut L,
    ) -> Result<bool, Broken> {
        let mut moved = false;
        loop {
            match &mut self.state {
                State::Done(_) => return Ok(moved),
                State::Header => {
                    let Some(header) = link.header()? else {
                        self.coming = link.is_coming();
                        return Ok(moved);
                    };
                    self.state = begin(&header, kind, sequence, call, sink.len())
                        .ok_or_else(|| astray(link.peer(), &header, sequence))?;
                    // Of the current call this rank takes no more than it asks for: one, or one per piece.
                    if header.sequence < sequence {
                        link.note(&header)?;
                    }
                }
                State::Payload { at } if *at == sink.len() => {
                    self.state = State::Done(Entry::Agreed);
                }
                State::Payload { at } => {
                    let count = sink.take(link, *at)?;
                    if count == 0 {
                        return Ok(moved);
                    }
                    *at += count;
                    sink.came(*at, link.peer())?;
                }
                State::Skip { .. } | State::Text { .. } => {
                    if !self.read_aside(link, kind)? {
                        return Ok(moved);
                    }
                }
            }
            moved = true;
        }
    }

    /// Reads what is there of a frame that carries no payload for this call; returns whether anything was.
    #[cold]
    fn read_aside<S: Stream>(
        &mut self,
        link: &mut Link<S>,
        kind: FrameKind,
    ) -> Result<bool, Broken> {
        match &mut self.state {
            State::Skip { left: 0, then } => {
                self.state = then.take().map_or(State::Header, State::Done);
            }
            State::Skip { left, .. } => {
                let skipped = link.skip(*left)?;
                *left -= skipped;
                return Ok(skipped > 0);
            }
            State::Text { kind: said, length } => {
                let said = *said;
                let Some(body) = link.take(*length)? else {
                    return Ok(false);
                };
                let (rank, reason) = unpack(&body);
                // Who refuses its own entry says who it is; rank 0 answers for any of them.
                let rank = if kind == FrameKind::Enter {
                    link.peer()
                } else {
                    rank
                };
                self.state = State::Done(match said {
                    FrameKind::Mismatch => Entry::Mismatch {
                        rank,
                        message: reason,
                    },
                    _ => Entry::Refused { rank, reason },
                });
            }
            State::Header | State::Payload { .. } | State::Done(_) => {}
        }
        Ok(true)
    }
}

/// Decides how to go on after a header; `None` if no rank in its right mind sends it now.
fn begin(
    header: &Header,
    kind: FrameKind,
    sequence: u64,
    call: Call,
    expected: usize,
) -> Option<State> {
    if header.sequence < sequence && header.kind != FrameKind::Bulk {
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
        // Who enters cannot know that ranks differ.
        FrameKind::Mismatch if kind == FrameKind::Enter => None,
        FrameKind::Refused | FrameKind::Mismatch => Some(State::Text {
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

#[cfg(test)]
mod tests;
