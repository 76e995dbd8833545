//! The header in front of everything that travels after the handshake.
//!
//! ```text
//!  0 version   1 kind   2 reserved, zero
//!  8 sequence          16 the call, two words     32 length of what follows
//! ```
//!
//! 40 bytes, numbers big-endian. Payloads keep the byte order of the machine, which the handshake
//! compares. Pure: nothing here reads, writes or allocates, and whatever bytes come in, a header or
//! an error comes out.

use comm_kit::Call;

/// The length of a header.
pub const HEADER: usize = 40;

/// The version of headers and handshakes; ranks of one job agree on it.
pub(crate) const VERSION: u8 = 5;

/// The longest text in a frame: reasons and causes.
pub(crate) const MOST_TEXT: u64 = 1024;

/// The longest payload of a call that travels with its header; more goes as bulk, after all agreed.
pub(crate) const MOST_EAGER: u64 = 4 << 20;

/// What a frame is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// A rank enters a call; its part follows if the call is small.
    Enter = 1,
    /// A rank refused its arguments; the reason follows. From rank 0 the verdict for all.
    Refused = 2,
    /// Rank 0 has seen all enter the same call; the result follows if the call is small.
    Answer = 3,
    /// Rank 0 has seen ranks enter different calls; the text follows.
    Mismatch = 4,
    /// The bytes of a large call follow.
    Bulk = 5,

    /// On a watch link, to rank 0: waits for the others in this call.
    Waiting = 16,
    /// Waited for the whole timeout.
    TimedOut = 17,
    /// No byte came from, or went to, a neighbour for long, or for the whole timeout.
    Stalled = 18,
    /// A link broke.
    Broken = 19,
    /// Leaves for good, and takes part in no call from this sequence on.
    Goodbye = 20,
    /// Cannot go on, and how that came.
    Lost = 21,
    /// Ends the job.
    Abort = 22,
    /// From rank 0: the first cause, for everybody.
    Cause = 23,
    /// To rank 0: will time out soon; are you there?
    Ping = 24,
    /// From rank 0: it is.
    Pong = 25,
    /// Was interrupted, and ends the job.
    Interrupted = 26,
    /// To rank 0: gave up by itself, and why.
    GaveUp = 27,
    /// To rank 0: bytes of this call move, however slowly.
    Moving = 28,
    /// From rank 0: bytes move elsewhere; wait on.
    WaitOn = 29,
    /// What came over a link is not what was sent.
    Altered = 30,

    /// While the ranks come together, from rank 0: all are there, your successor is here.
    Seat = 32,
    /// To rank 0: the ring stands on this side, or the reason why it does not follows.
    Ring = 33,
    /// From rank 0: begin, with the ring or without it.
    Start = 34,
    /// There will be no job, or not with this rank; the reason follows.
    Stop = 35,
    /// From rank 0: not all are there yet; who is missing follows. Answered with [`Pong`](Self::Pong).
    Missing = 36,
}

impl FrameKind {
    const ALL: [Self; 25] = [
        Self::Enter,
        Self::Refused,
        Self::Answer,
        Self::Mismatch,
        Self::Bulk,
        Self::Waiting,
        Self::TimedOut,
        Self::Stalled,
        Self::Broken,
        Self::Goodbye,
        Self::Lost,
        Self::Abort,
        Self::Cause,
        Self::Ping,
        Self::Pong,
        Self::Interrupted,
        Self::GaveUp,
        Self::Moving,
        Self::WaitOn,
        Self::Altered,
        Self::Seat,
        Self::Ring,
        Self::Start,
        Self::Stop,
        Self::Missing,
    ];

    /// Returns how much may follow.
    const fn most(self) -> u64 {
        match self {
            Self::Bulk => u64::MAX,
            Self::Enter | Self::Answer => MOST_EAGER,
            _ => MOST_TEXT,
        }
    }
}

/// What follows, and which call it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: FrameKind,
    pub(crate) sequence: u64,
    /// What was called; absent in frames that belong to no call.
    pub(crate) call: Option<Call>,
    pub(crate) length: u64,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("version {0} instead of {VERSION}")]
    Version(u8),
    #[error("unknown kind {0}")]
    Kind(u8),
    #[error("bytes that are reserved are not zero")]
    Reserved,
    #[error("{length} bytes announced where {most} is the most")]
    Length { length: u64, most: u64 },
}

impl Header {
    pub(crate) fn new(kind: FrameKind, sequence: u64, call: Call, length: usize) -> Self {
        Self {
            kind,
            sequence,
            call: Some(call),
            length: length as u64,
        }
    }

    pub(crate) fn plain(kind: FrameKind, sequence: u64, length: usize) -> Self {
        Self {
            kind,
            sequence,
            call: None,
            length: length as u64,
        }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = VERSION;
        bytes[1] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        // No call has these words.
        let [first, second] = self.call.map_or([0; 2], Call::words);
        bytes[16..24].copy_from_slice(&first.to_be_bytes());
        bytes[24..32].copy_from_slice(&second.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    #[inline]
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Self, FrameError> {
        if bytes[0] != VERSION {
            return Err(FrameError::Version(bytes[0]));
        }
        let kind = FrameKind::ALL
            .into_iter()
            .find(|&kind| kind as u8 == bytes[1]);
        let kind = kind.ok_or(FrameError::Kind(bytes[1]))?;
        if bytes[2..8] != [0; 6] {
            return Err(FrameError::Reserved);
        }
        let words = [word(bytes, 16), word(bytes, 24)];
        let header = Self {
            kind,
            sequence: word(bytes, 8),
            call: (words != [0; 2]).then(|| Call::from_words(words)),
            length: word(bytes, 32),
        };
        if header.length > kind.most() {
            return Err(FrameError::Length {
                length: header.length,
                most: kind.most(),
            });
        }
        Ok(header)
    }
}

fn word(bytes: &[u8; HEADER], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests;
