//! Records over scripted streams: whole, in pieces, and tampered with.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

const SECRET: TrafficSecret = [7; 32];

/// Accepts a few bytes per write, and yields what was put in on reads.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    at: usize,
    /// How many bytes pass at a time, with a pause after each; 0 means all of them.
    piece: usize,
    pause: bool,
}

impl Pipe {
    fn of(bytes: Vec<u8>, piece: usize) -> Self {
        Self {
            bytes,
            piece,
            ..Self::default()
        }
    }

    fn passes(&mut self, wanted: usize) -> io::Result<usize> {
        self.pause = !self.pause;
        if self.piece == 0 {
            return Ok(wanted);
        }
        if self.pause {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(wanted.min(self.piece))
    }
}

impl Stream for Pipe {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.passes(into.len().min(self.bytes.len() - self.at))?;
        into[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let count = self.passes(bytes.len())?;
        self.bytes.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}

/// Seals messages, each sent on its own.
fn sealed(messages: &[&[u8]]) -> Vec<u8> {
    let (mut sealer, mut pipe) = (Sealer::new(SECRET), Pipe::default());
    for message in messages {
        let sent = sealer.send(&mut pipe, &[IoSlice::new(message)]);
        assert_eq!(sent.unwrap(), message.len());
    }
    pipe.bytes
}

/// Opens everything there is, `room` bytes at a time; also returns why that ended.
fn opened(bytes: Vec<u8>, piece: usize, room: usize) -> (Vec<u8>, Option<io::Error>) {
    let mut opener = Opener::new(SECRET, "data");
    let mut pipe = Pipe::of(bytes, piece);
    let (mut all, mut into) = (Vec::new(), vec![0; room]);
    loop {
        match opener.receive(&mut pipe, &mut into) {
            Ok(0) => return (all, None),
            Ok(count) => all.extend_from_slice(&into[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                let again = opener.receive(&mut pipe, &mut into);
                assert!(again.is_err(), "a link that was changed is of no use again");
                return (all, Some(error));
            }
        }
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

#[rstest]
fn any_length_comes_out_as_it_went_in(
    #[values(1, 40, RECORD - 1, RECORD, RECORD + 1, 3 * RECORD + 7)] length: usize,
    #[values(0, 1, 1000)] piece: usize,
    #[values(24, 16 << 10, 1 << 20)] room: usize,
) {
    // One byte at a time takes many steps.
    let length = if piece == 1 { length.min(500) } else { length };
    let message = pattern(length);
    let (all, error) = opened(sealed(&[&message, b"and more"]), piece, room);
    assert!(error.is_none(), "{error:?}");
    assert!(all == [&message[..], b"and more"].concat());
}

#[rstest]
fn parts_that_go_out_in_pieces_are_counted_record_by_record(
    #[values(1, 33, 70_000)] piece: usize,
    #[values(10, 200_000)] length: usize,
) {
    let length = if piece == 1 { 10 } else { length };
    let (head, body) = ([9; 40], pattern(length));
    let (mut sealer, mut pipe) = (Sealer::new(SECRET), Pipe::of(Vec::new(), piece));
    let mut sent = 0;
    while sent < 40 + length {
        let parts = [&head[sent.min(40)..], &body[sent.saturating_sub(40)..]];
        match sealer.send(&mut pipe, &parts.map(IoSlice::new)) {
            Ok(count) => sent += count,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        // A sealed record has its number, and must be sent.
        assert_eq!(sealer.is_begun(), sent < 40 + length);
    }
    let (all, error) = opened(pipe.bytes, 0, 1 << 20);
    assert!(error.is_none(), "{error:?}");
    assert!(all == [&head[..], &body].concat());
}

/// From this count, a rank distinguishes a slow link from one on which nothing moves, and a link that
/// swallows bytes from one that has none.
#[test]
fn bytes_of_a_record_that_is_not_whole_count_as_moved() {
    let (mut sealer, mut pipe) = (Sealer::new(SECRET), Pipe::of(Vec::new(), 7));
    let message = [IoSlice::new(&[1; 50])];
    while sealer.send(&mut pipe, &message).is_err() {
        assert_eq!(sealer.moved(), pipe.bytes.len() as u64);
    }
    let whole = pipe.bytes.len();
    assert_eq!(sealer.moved(), whole as u64);
    for cut in 0..whole {
        let mut opener = Opener::new(SECRET, "data");
        let mut pipe = Pipe::of(pipe.bytes[..cut].to_vec(), 0);
        assert_eq!(opener.receive(&mut pipe, &mut [0; 50]).unwrap(), 0);
        assert_eq!((opener.moved(), opener.is_coming()), (cut as u64, cut > 0));
    }
}

#[test]
fn what_another_thread_says_does_not_tear_a_record_in_two() {
    for gone in 0..60 {
        let (mut sealer, mut pipe) = (Sealer::new(SECRET), Pipe::default());
        (pipe.piece, pipe.pause) = (gone.max(1), gone > 0);
        let parts = [IoSlice::new(&[1; 40])];
        let begun = sealer.send(&mut pipe, &parts);
        assert_eq!(begun.unwrap_err().kind(), ErrorKind::WouldBlock);
        pipe.piece = 0;
        sealer.interject(&mut pipe, b"abort").unwrap();
        // The other thread presents its bytes again, which have been sent.
        assert_eq!(sealer.send(&mut pipe, &parts).unwrap(), 40);
        let (all, error) = opened(pipe.bytes, 0, 100);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(all, [&[1; 40][..], b"abort"].concat(), "after {gone} bytes");
    }
}

#[test]
fn keys_change_without_a_sign_of_it() {
    let (mut sealer, mut opener) = (Sealer::new(SECRET), Opener::new(SECRET, "data"));
    sealer.cipher.change_keys_after(3);
    opener.cipher.change_keys_after(3);
    let mut pipe = Pipe::default();
    for _ in 0..20 {
        let sent = sealer.send(&mut pipe, &[IoSlice::new(&[7; 5])]);
        assert_eq!(sent.unwrap(), 5);
        let mut into = [0; 5];
        assert_eq!(opener.receive(&mut pipe, &mut into).unwrap(), 5);
        assert_eq!(into, [7; 5]);
    }
    // The same bytes look different each time: the numbers begin anew, with another key.
    let different: BTreeSet<Vec<u8>> = records(&pipe.bytes).into_iter().collect();
    assert_eq!(different.len(), 20);
}

#[test]
fn nothing_of_what_is_sent_shows() {
    let message = b"the same again and again and again and again";
    let bytes = sealed(&[message, message]);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    assert_ne!(first[HEAD..], second[HEAD..]);
    for word in message.windows(6) {
        assert!(!bytes.windows(6).any(|seen| seen == word));
    }
}

/// Cuts sealed bytes into their records.
fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut records = Vec::new();
    while let Some(&head) = rest.first_chunk() {
        let (record, later) = rest.split_at(OVERHEAD + decode(head).unwrap());
        records.push(record.to_vec());
        rest = later;
    }
    records
}

#[rstest]
#[case::swapped(&[1, 0, 2], 0)]
#[case::left_out(&[0, 2], 1)]
#[case::repeated(&[0, 0, 1, 2], 1)]
#[case::repeated_later(&[0, 1, 0, 2], 2)]
#[case::none_at_first(&[2], 0)]
fn records_in_another_order_do_not_open(#[case] order: &[usize], #[case] sound: usize) {
    let records = records(&sealed(&[b"one", b"two", b"six"]));
    let bytes = order.iter().flat_map(|&place| records[place].clone());
    let (all, error) = opened(bytes.collect(), 0, 100);
    assert_eq!(error.unwrap().kind(), ErrorKind::InvalidData);
    assert_eq!(all, b"onetwosix"[..3 * sound]);
}

#[test]
fn a_record_of_another_link_or_direction_does_not_open() {
    let (mut sealer, mut pipe) = (Sealer::new([8; 32]), Pipe::default());
    sealer
        .send(&mut pipe, &[IoSlice::new(b"elsewhere")])
        .unwrap();
    let (all, error) = opened(pipe.bytes, 0, 100);
    assert!(all.is_empty());
    let error = error.unwrap();
    assert!(error.to_string().contains("the data link"), "{error}");
}

#[test]
fn a_record_that_is_cut_short_never_opens() {
    let bytes = sealed(&[b"one", b"two"]);
    for cut in 0..bytes.len() {
        let (all, error) = opened(bytes[..cut].to_vec(), 0, 100);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(all, b"one"[..if cut < bytes.len() / 2 { 0 } else { 3 }]);
    }
}

/// The end of one record, moved into the next one, without a valid seal.
#[test]
fn records_cannot_be_cut_at_other_places() {
    let bytes = sealed(&[&[3; 50], &[4; 50]]);
    for length in (1..100).filter(|&length| length != 50) {
        let mut forged = bytes.clone();
        forged[..HEAD].copy_from_slice(&encode(length));
        let (all, _) = opened(forged, 0, 200);
        assert!(all.is_empty(), "{length}");
    }
}

proptest! {
    #[test]
    fn a_changed_bit_is_noticed_before_anything_of_its_record_is_used(
        at in 0..8 * (2 * OVERHEAD + 13),
        piece in 0_usize..20,
        room in 1_usize..20,
    ) {
        let mut bytes = sealed(&[b"first", b"the next"]);
        bytes[at / 8] ^= 1 << (at % 8);
        let (all, error) = opened(bytes, piece, room);
        prop_assert_eq!(error.unwrap().kind(), ErrorKind::InvalidData);
        let sound = if at / 8 < OVERHEAD + 5 { 0 } else { 5 };
        prop_assert_eq!(&all[..], &b"first"[..sound]);
    }
}
