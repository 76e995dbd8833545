//! Writers that block, fail and panic.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::{ROOM, Text};

const MOMENT: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_mins(1);

/// A writer that reports when it begins a line, and then waits for permission to write it.
fn guarded() -> (Text, std::sync::mpsc::Sender<()>, Receiver<Vec<u8>>) {
    let ((permit, permission), (tell, begun)) = (channel(), channel());
    let text = Text::new("test", move |line| {
        let _ = tell.send(line.to_vec());
        permission.recv().map_err(io::Error::other)
    });
    (text, permit, begun)
}

#[test]
fn what_is_read_arrives_in_order_and_nothing_is_lost() {
    let (text, permit, begun) = guarded();
    for number in 0..100_u8 {
        text.write(vec![number]);
        permit.send(()).unwrap();
    }
    assert_eq!(text.finish(PATIENCE).lines, 0);
    assert!(begun.iter().eq((0..100).map(|number| vec![number])));
}

#[test]
fn a_blocked_writer_delays_no_caller_and_lost_lines_are_counted() {
    let (text, _permit, begun) = guarded();
    text.write(b"in hand".to_vec());
    begun.recv_timeout(PATIENCE).unwrap();
    // A line that is longer than all the room may wait alone.
    text.write(vec![b'x'; ROOM + 1]);
    let since = Instant::now();
    for _ in 0..1000 {
        text.write(b"no room".to_vec());
    }
    let lost = text.finish(MOMENT);
    assert_eq!((lost.lines, lost.error.is_none()), (1002, true), "{lost:?}");
    assert!(since.elapsed() < PATIENCE);
}

#[test]
fn room_is_counted_in_bytes() {
    let (text, permit, begun) = guarded();
    text.write(b"in hand".to_vec());
    begun.recv_timeout(PATIENCE).unwrap();
    for _ in 0..5 {
        text.write(vec![b'x'; ROOM / 4]);
    }
    for _ in 0..5 {
        permit.send(()).unwrap();
    }
    assert_eq!(text.finish(PATIENCE).lines, 1);
}

#[test]
fn after_an_error_or_a_panic_nothing_is_written_and_all_is_counted() {
    for panics in [false, true] {
        let (tell, calls) = channel();
        let text = Text::new("test", move |_| {
            tell.send(()).unwrap();
            assert!(!panics, "this panic is part of the test");
            Err(io::Error::other("full"))
        });
        for _ in 0..3 {
            text.write(b"line".to_vec());
        }
        let lost = text.finish(PATIENCE);
        assert_eq!(calls.iter().count(), 1);
        assert_eq!(lost.lines, 3);
        let why = if panics { "the sink panicked" } else { "full" };
        assert_eq!(lost.error.unwrap().to_string(), why);
    }
}
