//! One frame of a call, from streams that hold more than that.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use super::*;
use crate::frame::{HEADER, MOST_EAGER};
use crate::notice::pack;

/// A stream that yields its bytes one at a time, then nothing more for now.
struct Trickle(VecDeque<u8>);

impl Stream for Trickle {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.pop_front() {
            Some(byte) => {
                into[0] = byte;
                Ok(1)
            }
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn send(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(ErrorKind::BrokenPipe.into())
    }
}

fn frame(kind: FrameKind, sequence: u64, call: Call, body: &[u8]) -> Vec<u8> {
    let mut bytes = Header::new(kind, sequence, call, body.len())
        .encode()
        .to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads with sequence 5, a broadcast of 4 bytes from rank 0.
fn read(bytes: Vec<u8>) -> (Result<Option<Entry>, Broken>, [u8; 4]) {
    let mut sink = [0xaa; 4];
    let looks = 2 * bytes.len() + 2;
    let mut link = Link::new(Trickle(bytes.into()), 1);
    let mut incoming = Incoming::new();
    let call = Call::broadcast(4, 1, 0);
    for _ in 0..looks {
        let advanced = incoming.advance(&mut link, FrameKind::Enter, (5, call), &mut sink[..]);
        if let Err(broken) = advanced {
            return (Err(broken), sink);
        }
    }
    (Ok(incoming.entry().cloned()), sink)
}

#[test]
fn what_agrees_lands() {
    let call = Call::broadcast(4, 1, 0);
    let (entry, sink) = read(frame(FrameKind::Enter, 5, call, &[1, 2, 3, 4]));
    assert_eq!((entry, sink), (Ok(Some(Entry::Agreed)), [1, 2, 3, 4]));
}

#[test]
fn what_is_held_stays_in_the_inbox_once_all_of_it_has_come() {
    let call = Call::broadcast(4, 1, 0);
    let mut bytes = frame(FrameKind::Enter, 4, Call::barrier(), &[9; 100]);
    bytes.extend(frame(FrameKind::Enter, 5, call, &[1, 2, 3, 4]));
    let whole = bytes.len();
    for cut in 0..=whole {
        let mut link = Link::new(Trickle(bytes[..cut].to_vec().into()), 1);
        let mut incoming = Incoming::new();
        for _ in 0..=2 * whole {
            incoming
                .advance(&mut link, FrameKind::Enter, (5, call), &mut InInbox(4))
                .unwrap();
        }
        let agreed = (cut == whole).then_some(&Entry::Agreed);
        assert_eq!(incoming.entry(), agreed, "cut at {cut}");
        assert!(agreed.is_none() || link.release() == [1, 2, 3, 4]);
    }
}

#[test]
fn frames_of_earlier_calls_are_skipped() {
    let call = Call::broadcast(4, 1, 0);
    let mut bytes = frame(FrameKind::Enter, 3, Call::barrier(), &[9; 100]);
    bytes.extend(frame(FrameKind::Refused, 4, call, &pack(2, "no")));
    bytes.extend(frame(FrameKind::Enter, 5, call, &[1, 2, 3, 4]));
    let (entry, sink) = read(bytes);
    assert_eq!((entry, sink), (Ok(Some(Entry::Agreed)), [1, 2, 3, 4]));
}

#[test]
fn what_differs_does_not_land() {
    let other = Call::broadcast(4, 2, 0);
    let (entry, sink) = read(frame(FrameKind::Enter, 5, other, &[1, 2, 3, 4]));
    assert_eq!((entry, sink), (Ok(Some(Entry::Differs(other))), [0xaa; 4]));
}

/// A rank refuses for itself, whatever number it writes.
#[test]
fn a_refusal_comes_with_its_rank_and_reason() {
    for written in [1, 3, 4_294_967_294] {
        let body = pack(written, "too\nlong");
        let (entry, _) = read(frame(FrameKind::Refused, 5, Call::barrier(), &body));
        let refused = Entry::Refused {
            rank: 1,
            reason: "too long".into(),
        };
        assert_eq!(entry, Ok(Some(refused)));
    }
}

#[test]
fn a_later_call_a_wrong_length_or_a_wrong_kind_breaks_the_link() {
    let call = Call::broadcast(4, 1, 0);
    for bytes in [
        frame(FrameKind::Enter, 6, call, &[1, 2, 3, 4]),
        frame(FrameKind::Enter, 5, call, &[1, 2, 3]),
        frame(FrameKind::Answer, 5, call, &[1, 2, 3, 4]),
        frame(FrameKind::Cause, 5, call, &[]),
        frame(FrameKind::Mismatch, 5, call, &pack(1, "ranks differ")),
    ] {
        let (entry, sink) = read(bytes);
        assert!(entry.is_err());
        assert_eq!(sink, [0xaa; 4]);
    }
}

#[test]
fn a_length_beyond_all_bounds_is_refused_before_anything_is_read() {
    let mut header = Header::new(FrameKind::Enter, 2, Call::barrier(), 0);
    header.length = 1 << 63;
    assert!(header.length > MOST_EAGER);
    let (entry, _) = read(header.encode().to_vec());
    assert!(entry.unwrap_err().reason.contains("announced"));
}

#[test]
fn any_prefix_is_waited_for() {
    let call = Call::broadcast(4, 1, 0);
    let bytes = frame(FrameKind::Enter, 5, call, &[1, 2, 3, 4]);
    for cut in 0..bytes.len() {
        let (entry, sink) = read(bytes[..cut].to_vec());
        assert_eq!(entry, Ok(None), "cut at {cut}");
        assert_eq!(
            sink[cut.saturating_sub(HEADER)..],
            [0xaa; 4][cut.saturating_sub(HEADER)..]
        );
    }
}
