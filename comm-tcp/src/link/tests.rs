//! Links over scripted streams: partial reads and writes, interruptions, ends and resets at every
//! byte.

use std::collections::VecDeque;

use comm_kit::Call;

use super::*;
use crate::collective::Outgoing;
use crate::frame::FrameKind;

/// What happens at the next call.
enum Act {
    Bytes(Vec<u8>),
    Nothing,
    Interrupted,
    Reset,
    Fails(ErrorKind),
}

/// Follows a script when read, and takes a few bytes at a time when written.
struct Script {
    acts: VecDeque<Act>,
    written: Vec<u8>,
    room: VecDeque<usize>,
}

impl Script {
    fn reading(acts: impl IntoIterator<Item = Act>) -> Self {
        Self {
            acts: acts.into_iter().collect(),
            written: Vec::new(),
            room: VecDeque::new(),
        }
    }
}

impl Stream for Script {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.acts.pop_front() {
            None => Ok(0),
            Some(Act::Nothing) => Err(ErrorKind::WouldBlock.into()),
            Some(Act::Interrupted) => Err(ErrorKind::Interrupted.into()),
            Some(Act::Reset) => Err(ErrorKind::ConnectionReset.into()),
            Some(Act::Fails(kind)) => Err(kind.into()),
            Some(Act::Bytes(mut bytes)) => {
                let count = bytes.len().min(into.len());
                into[..count].copy_from_slice(&bytes[..count]);
                if count < bytes.len() {
                    self.acts.push_front(Act::Bytes(bytes.split_off(count)));
                }
                Ok(count)
            }
        }
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let room = match self.room.pop_front() {
            Some(0) => return Err(ErrorKind::WouldBlock.into()),
            Some(room) => room,
            None => usize::MAX,
        };
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let count = bytes.len().min(room);
        self.written.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}

fn frame(payload: &[u8]) -> (Header, Vec<u8>) {
    let header = Header::new(FrameKind::Enter, 3, Call::barrier(), payload.len());
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(payload);
    (header, bytes)
}

#[test]
fn a_frame_cut_at_any_byte_is_put_together() {
    let payload: Vec<u8> = (0..40).collect();
    let (header, bytes) = frame(&payload);
    for cut in 0..=bytes.len() {
        let (first, second) = bytes.split_at(cut);
        let acts = [first, second].into_iter().filter(|part| !part.is_empty());
        let acts =
            acts.flat_map(|part| [Act::Interrupted, Act::Bytes(part.to_vec()), Act::Nothing]);
        let mut link = Link::new(Script::reading(acts), 1);
        let mut found = None;
        while found.is_none() {
            found = link.header().unwrap();
        }
        assert_eq!(found, Some(header), "cut at {cut}");
        let mut read = vec![0; payload.len()];
        let mut at = 0;
        while at < read.len() {
            at += link.read(&mut read[at..]).unwrap();
        }
        assert_eq!(read, payload, "cut at {cut}");
    }
}

#[test]
fn an_end_or_a_reset_at_any_byte_breaks_the_link_and_gives_no_frame() {
    let (_, bytes) = frame(&[]);
    for cut in 0..bytes.len() {
        for reset in [false, true] {
            let mut acts = vec![Act::Bytes(bytes[..cut].to_vec())];
            acts.retain(|act| !matches!(act, Act::Bytes(bytes) if bytes.is_empty()));
            acts.extend(reset.then_some(Act::Reset));
            let mut link = Link::new(Script::reading(acts), 7);
            let broken = loop {
                match link.header() {
                    Ok(None) => {}
                    Ok(Some(header)) => panic!("{header:?} of {cut} bytes"),
                    Err(broken) => break broken,
                }
            };
            assert_eq!(broken.peer, 7);
            assert_eq!(broken.reason.contains("closed the link"), !reset);
        }
    }
}

/// A reset comes from a system that knows the process; that nothing is acknowledged says nothing about it.
#[test]
fn only_a_link_that_leads_nowhere_is_unreachable() {
    use ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    let nowhere = [TimedOut, HostUnreachable, NetworkUnreachable, NetworkDown].map(Act::Fails);
    let acts = nowhere.map(|act| (act, true)).into_iter();
    let acts = acts.chain([(Act::Reset, false), (Act::Bytes(Vec::new()), false)]);
    for (act, unreachable) in acts {
        let mut link = Link::new(Script::reading([act]), 7);
        assert!(!link.is_unreachable());
        assert!(link.header().is_err());
        assert_eq!(link.is_unreachable(), unreachable);
    }
}

#[test]
fn bytes_before_an_end_are_read_before_the_end_is_told() {
    let (_, bytes) = frame(&[5; 10]);
    let mut link = Link::new(Script::reading([Act::Bytes(bytes)]), 1);
    assert!(link.header().unwrap().is_some());
    let mut read = [0; 20];
    assert_eq!(link.read(&mut read), Ok(10));
    assert!(link.read(&mut read).is_err());
}

#[test]
fn frames_read_ahead_stay_in_order() {
    let (_, mut bytes) = frame(&[1; 3]);
    let (_, second) = frame(&[2; 4]);
    bytes.extend_from_slice(&second);
    let mut link = Link::new(Script::reading([Act::Bytes(bytes), Act::Nothing]), 1);
    assert_eq!(link.header().unwrap().unwrap().length, 3);
    assert_eq!(link.skip(3), Ok(3));
    assert_eq!(link.header().unwrap().unwrap().length, 4);
    assert_eq!(link.take(4).unwrap().unwrap(), [2; 4]);
    assert_eq!(link.header(), Ok(None));
}

#[test]
fn a_message_goes_out_in_pieces_and_what_was_kept_goes_first() {
    let payload: Vec<u8> = (0..50).collect();
    let (header, bytes) = frame(&payload);
    for piece in 1..bytes.len() {
        let mut script = Script::reading([]);
        script.room = std::iter::repeat_n([piece, 0], 200).flatten().collect();
        let mut link = Link::new(script, 1);
        link.keep(b"first");
        let mut message = Outgoing::new(&header, &payload);
        while !message.is_sent() {
            message.send(&mut link).unwrap();
        }
        assert_eq!(link.stream.written, [b"first", &bytes[..]].concat());
    }
}

#[test]
fn a_message_that_lies_behind_its_header_goes_out_in_pieces() {
    let (_, bytes) = frame(&[9; 30]);
    for piece in 1..bytes.len() {
        let mut script = Script::reading([]);
        script.room = std::iter::repeat_n([piece, 0], 200).flatten().collect();
        let mut link = Link::new(script, 1);
        let mut message = Outgoing::whole(&bytes);
        assert_eq!(message.len(), bytes.len());
        while !message.is_sent() {
            message.send(&mut link).unwrap();
        }
        assert_eq!(link.stream.written, bytes);
    }
}

#[test]
fn a_message_left_half_way_is_finished_by_the_next() {
    let (header, bytes) = frame(&[9; 30]);
    for sent in 1..bytes.len() {
        let mut script = Script::reading([]);
        script.room = [sent, 0].into();
        let mut link = Link::new(script, 1);
        let mut message = Outgoing::new(&header, &[9; 30]);
        assert_eq!(message.send(&mut link), Ok(sent));
        message.leave(&mut link);
        assert_eq!(link.kept(), bytes.len() - sent);
        let mut next = Outgoing::new(&header, &[9; 30]);
        while !next.is_sent() {
            next.send(&mut link).unwrap();
        }
        assert_eq!(link.stream.written, bytes.repeat(2));
    }
}

#[test]
fn what_is_held_has_come_as_a_whole_and_is_gone_before_the_next_frame() {
    let payload: Vec<u8> = (0..40).collect();
    let (header, bytes) = frame(&payload);
    let two = bytes.repeat(2);
    for cut in 1..two.len() {
        for lent in [true, false] {
            let (first, second) = two.split_at(cut);
            let acts = [first, second].into_iter();
            let acts = acts.flat_map(|part| [Act::Bytes(part.to_vec()), Act::Nothing]);
            let mut link = Link::new(Script::reading(acts), 1);
            for _ in 0..2 {
                while link.header().unwrap() != Some(header) {}
                while !link.hold(payload.len()).unwrap() {}
                if lent {
                    assert_eq!(link.release(), payload, "cut at {cut}");
                    assert_eq!(link.release(), [], "lent once");
                }
            }
            assert_eq!(link.is_coming(), !lent);
        }
    }
}

#[test]
fn as_much_can_be_held_as_the_inbox_takes() {
    let payload: Vec<u8> = (0..251).cycle().take(INBOX).collect();
    let (_, bytes) = frame(&payload);
    let mut link = Link::new(Script::reading([Act::Bytes(bytes), Act::Nothing]), 1);
    assert!(link.header().unwrap().is_some());
    assert_eq!(link.hold(INBOX), Ok(true));
    assert!(link.release() == payload);
    assert_eq!(link.header(), Ok(None));
}

#[test]
fn garbage_is_no_frame() {
    let mut link = Link::new(Script::reading([Act::Bytes(vec![0xff; HEADER])]), 1);
    assert!(link.header().unwrap_err().reason.contains("no frame"));
}

#[test]
fn a_short_frame_is_taken_whole_or_not_at_all() {
    let (header, bytes) = frame(&[3; 40]);
    for cut in 1..=bytes.len() {
        let (first, second) = bytes.split_at(cut);
        let acts = [first, second, &bytes].into_iter();
        let acts = acts.filter(|part| !part.is_empty());
        let acts = acts.flat_map(|part| [Act::Nothing, Act::Bytes(part.to_vec())]);
        let mut link = Link::new(Script::reading(acts), 1);
        for _ in 0..2 {
            let found = loop {
                if let Some(found) = link.frame().unwrap() {
                    break found;
                }
            };
            assert_eq!(found, (header, vec![3; 40]), "cut at {cut}");
        }
        assert!(link.frame().unwrap_err().reason.contains("closed"));
    }
}

#[test]
fn a_frame_too_long_for_its_place_breaks_the_link_before_it_is_read() {
    let (_, bytes) = frame(&vec![0; 1 + usize::try_from(MOST_TEXT).unwrap()]);
    let mut link = Link::new(Script::reading([Act::Bytes(bytes)]), 1);
    assert!(link.frame().unwrap_err().reason.contains("short frame"));
}
