//! What travels on watch links: who waits, who left, what broke, and the first cause.
//!
//! Pure, as `frame` is: a notice becomes bytes, and any bytes become a notice or an error.

use std::time::Duration;

use comm_api::{CommError, FailureKind, Operation};
use comm_kit::Call;
use comm_kit::words::{Lost, printable};

use crate::frame::{FrameKind, HEADER, Header};

/// Why the job cannot go on: decided once, by rank 0, the same on every rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) kind: FailureKind,
    pub(crate) rank: Option<usize>,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn new(kind: FailureKind, rank: Option<usize>, message: impl Into<String>) -> Self {
        Self {
            kind,
            rank,
            message: message.into(),
        }
    }

    /// Names nobody instead of a rank that a job of `size` does not have.
    pub(crate) fn within(mut self, size: usize) -> Self {
        self.rank = self.rank.filter(|&rank| rank < size);
        self
    }

    /// Returns the body of a frame.
    fn body(&self) -> Vec<u8> {
        let mut body = vec![failure_code(self.kind)];
        body.extend_from_slice(&self.rank.map_or(NO_RANK.to_be_bytes(), number));
        body.extend_from_slice(cut(&self.message).as_bytes());
        body
    }

    /// Reads the body of a frame.
    fn read(body: &[u8]) -> Option<Self> {
        let (kind, rest) = body.split_first()?;
        Some(Self {
            kind: failure_kind(*kind)?,
            rank: rank(*rest.first_chunk()?),
            message: text(&rest[4..]),
        })
    }

    /// Returns the error of a method.
    pub(crate) fn error(&self, operation: Operation) -> CommError {
        CommError::failed(operation, self.kind, self.rank, self.message.clone())
    }
}

/// What has gone over the ring links of a rank so far: sent to and received from its successor, then its
/// predecessor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) next: (u64, u64),
    pub(crate) prev: (u64, u64),
}

/// A message on a watch link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    Waiting {
        sequence: u64,
        call: Call,
    },
    /// After `timeout`, which is that of the rank.
    TimedOut {
        sequence: u64,
        call: Call,
        timeout: Duration,
    },
    /// `last` says that the timeout is over.
    Stalled {
        sequence: u64,
        peer: usize,
        last: bool,
        timeout: Duration,
        flow: Flow,
    },
    /// Bytes of the call have moved since the last report.
    Moving {
        sequence: u64,
        timeout: Duration,
    },
    /// The timeout of the rank begins anew: bytes move elsewhere.
    WaitOn,
    Broken {
        sequence: u64,
        peer: usize,
        reason: String,
    },
    /// What came over a link is not what was sent.
    Altered {
        peer: usize,
        reason: String,
    },
    Goodbye {
        sequence: u64,
    },
    Ping,
    Pong,
    /// The rank cannot go on.
    Lost(Lost),
    Abort {
        code: i32,
    },
    /// The rank was interrupted while it waited, and ends the job.
    Interrupted,
    /// The rank failed with a cause that nobody told it.
    GaveUp(Cause),
    /// `answered` is the first sequence rank 0 has not answered: answers below it are on their way.
    Cause {
        cause: Cause,
        answered: u64,
    },
}

const NO_RANK: u32 = u32::MAX;

impl Notice {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Waiting { sequence, call } => with_call(FrameKind::Waiting, *sequence, *call),
            Self::TimedOut {
                sequence,
                call,
                timeout,
            } => {
                let body = micros(*timeout);
                let header = Header::new(FrameKind::TimedOut, *sequence, *call, body.len());
                [&header.encode()[..], &body].concat()
            }
            Self::Stalled {
                sequence,
                peer,
                last,
                timeout,
                flow: Flow { next, prev },
            } => {
                let mut body = number(*peer).to_vec();
                body.push(u8::from(*last));
                body.extend_from_slice(&micros(*timeout));
                for count in [next.0, next.1, prev.0, prev.1] {
                    body.extend_from_slice(&count.to_be_bytes());
                }
                frame(FrameKind::Stalled, *sequence, &body)
            }
            Self::Moving { sequence, timeout } => {
                frame(FrameKind::Moving, *sequence, &micros(*timeout))
            }
            Self::WaitOn => frame(FrameKind::WaitOn, 0, &[]),
            Self::Broken {
                sequence,
                peer,
                reason,
            } => frame(FrameKind::Broken, *sequence, &pack(*peer, reason)),
            Self::Altered { peer, reason } => frame(FrameKind::Altered, 0, &pack(*peer, reason)),
            Self::Goodbye { sequence } => frame(FrameKind::Goodbye, *sequence, &[]),
            Self::Ping => frame(FrameKind::Ping, 0, &[]),
            Self::Pong => frame(FrameKind::Pong, 0, &[]),
            Self::Lost(lost) => frame(FrameKind::Lost, 0, &[lost.code()]),
            Self::Interrupted => frame(FrameKind::Interrupted, 0, &[]),
            Self::Abort { code } => frame(FrameKind::Abort, 0, &code.to_be_bytes()),
            Self::GaveUp(cause) => frame(FrameKind::GaveUp, 0, &cause.body()),
            Self::Cause { cause, answered } => frame(FrameKind::Cause, *answered, &cause.body()),
        }
    }

    /// Returns whether a rank says it again and again, rather than once, at the end of its job.
    pub(crate) fn is_repeated(&self) -> bool {
        match self {
            Self::Waiting { .. }
            | Self::TimedOut { .. }
            | Self::Stalled { .. }
            | Self::Moving { .. }
            | Self::WaitOn
            | Self::Ping
            | Self::Pong => true,
            Self::Broken { .. }
            | Self::Altered { .. }
            | Self::Goodbye { .. }
            | Self::Lost(_)
            | Self::Abort { .. }
            | Self::Interrupted
            | Self::GaveUp(_)
            | Self::Cause { .. } => false,
        }
    }

    /// Returns the rank that the notice names, if it names one.
    pub(crate) fn names(&self) -> Option<usize> {
        match self {
            Self::Stalled { peer, .. } | Self::Broken { peer, .. } | Self::Altered { peer, .. } => {
                Some(*peer)
            }
            Self::Cause { cause, .. } | Self::GaveUp(cause) => cause.rank,
            Self::Waiting { .. }
            | Self::TimedOut { .. }
            | Self::Moving { .. }
            | Self::WaitOn
            | Self::Goodbye { .. }
            | Self::Ping
            | Self::Pong
            | Self::Lost(_)
            | Self::Abort { .. }
            | Self::Interrupted => None,
        }
    }

    /// Reads a notice; `None` for what no rank sends on a watch link.
    pub(crate) fn decode(header: &Header, body: &[u8]) -> Option<Self> {
        let sequence = header.sequence;
        Some(match header.kind {
            FrameKind::Waiting => Self::Waiting {
                sequence,
                call: header.call?,
            },
            FrameKind::TimedOut => Self::TimedOut {
                sequence,
                call: header.call?,
                timeout: duration(*body.first_chunk()?),
            },
            FrameKind::Stalled => Self::Stalled {
                sequence,
                peer: rank(*body.first_chunk()?)?,
                last: *body.get(4)? == 1,
                timeout: duration(*body.get(5..)?.first_chunk()?),
                flow: {
                    let count = |place: usize| {
                        let bytes = body.get(13 + 8 * place..)?.first_chunk()?;
                        Some(u64::from_be_bytes(*bytes))
                    };
                    Flow {
                        next: (count(0)?, count(1)?),
                        prev: (count(2)?, count(3)?),
                    }
                },
            },
            FrameKind::Moving => Self::Moving {
                sequence,
                timeout: duration(*body.first_chunk()?),
            },
            FrameKind::WaitOn => Self::WaitOn,
            FrameKind::Broken => Self::Broken {
                sequence,
                peer: rank(*body.first_chunk()?)?,
                reason: text(&body[4..]),
            },
            FrameKind::Altered => Self::Altered {
                peer: rank(*body.first_chunk()?)?,
                reason: text(&body[4..]),
            },
            FrameKind::Goodbye => Self::Goodbye { sequence },
            FrameKind::Ping => Self::Ping,
            FrameKind::Pong => Self::Pong,
            FrameKind::Lost => Self::Lost(Lost::from_code(*body.first()?)),
            FrameKind::Interrupted => Self::Interrupted,
            FrameKind::Abort => Self::Abort {
                code: i32::from_be_bytes(*body.first_chunk()?),
            },
            FrameKind::GaveUp => Self::GaveUp(Cause::read(body)?),
            FrameKind::Cause => Self::Cause {
                cause: Cause::read(body)?,
                answered: sequence,
            },
            _ => return None,
        })
    }
}

/// The longest text that fits into a frame beside its numbers.
const ROOM: usize = 1008;

/// Returns the text of bytes that came from elsewhere: one line, printable, not too long.
pub(crate) fn text(bytes: &[u8]) -> String {
    printable(bytes, ROOM)
}

/// Shortens a text to what fits into a frame beside its numbers.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(ROOM)]
}

/// Packs a rank and a text into the body of a frame.
pub(crate) fn pack(rank: usize, text: &str) -> Vec<u8> {
    let mut body = number(rank).to_vec();
    body.extend_from_slice(cut(text).as_bytes());
    body
}

/// Reads what [`pack`] packed, out of any bytes.
pub(crate) fn unpack(body: &[u8]) -> (usize, String) {
    let (head, rest) = body.split_at(body.len().min(4));
    let rank = head.first_chunk().and_then(|bytes| rank(*bytes));
    (rank.unwrap_or(0), text(rest))
}

fn with_call(kind: FrameKind, sequence: u64, call: Call) -> Vec<u8> {
    Header::new(kind, sequence, call, 0).encode().to_vec()
}

pub(crate) fn frame(kind: FrameKind, sequence: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(&Header::plain(kind, sequence, body.len()).encode());
    bytes.extend_from_slice(body);
    bytes
}

fn micros(time: Duration) -> [u8; 8] {
    u64::try_from(time.as_micros())
        .unwrap_or(u64::MAX)
        .to_be_bytes()
}

fn duration(micros: [u8; 8]) -> Duration {
    Duration::from_micros(u64::from_be_bytes(micros))
}

fn number(rank: usize) -> [u8; 4] {
    u32::try_from(rank).unwrap_or(NO_RANK).to_be_bytes()
}

fn rank(bytes: [u8; 4]) -> Option<usize> {
    let rank = u32::from_be_bytes(bytes);
    (rank != NO_RANK).then(|| usize::try_from(rank).ok())?
}

const FAILURES: [FailureKind; 6] = [
    FailureKind::PeerLost,
    FailureKind::TimedOut,
    FailureKind::Mismatch,
    FailureKind::Refused,
    FailureKind::Aborted,
    FailureKind::Io,
];

fn failure_code(kind: FailureKind) -> u8 {
    let code = FAILURES.iter().position(|&known| known == kind);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(5)
}

fn failure_kind(code: u8) -> Option<FailureKind> {
    FAILURES.get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests;
