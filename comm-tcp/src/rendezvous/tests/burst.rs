//! A worker that does not read for a moment while many others join.

use std::os::unix::net::UnixStream;

use super::*;
use crate::frame::HEADER;
use crate::rendezvous::coordinate::hear_all;

/// Reads the next frame, and returns its kind.
fn next_kind(stream: &mut UnixStream) -> std::io::Result<FrameKind> {
    let mut head = [0; HEADER];
    stream.read_exact(&mut head)?;
    let header = Header::decode(&head).unwrap();
    let mut body = vec![0; usize::try_from(header.length).unwrap()];
    stream.read_exact(&mut body)?;
    Ok(header.kind)
}

/// A worker that has not read for a moment learns where its successor is, however many lists of missing ranks
/// it was sent.
#[test]
fn what_is_said_once_is_not_dropped_behind_what_is_repeated() {
    comm_testing::watchdog();
    let (mut link, mut worker) = Link::pair(1);
    for _ in 0..1000 {
        say(&mut link, FrameKind::Missing, &[b'x'; 1000]).unwrap();
    }
    say(&mut link, FrameKind::Seat, &[0; 27]).unwrap();
    worker.set_nonblocking(false).unwrap();
    worker.set_read_timeout(Some(WATCHDOG)).unwrap();
    loop {
        let kind = next_kind(&mut worker).unwrap();
        link.write(&[]).unwrap();
        if kind == FrameKind::Seat {
            break;
        }
        worker
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
    }
}

/// What did not fit into the socket is sent while rank 0 waits for the answer to it.
#[test]
fn what_did_not_fit_goes_out_while_rank_0_waits_for_the_answer() {
    comm_testing::watchdog();
    let (mut link, mut worker) = Link::pair(1);
    link.keep(&frame(FrameKind::Missing, 0, &[b'x'; 1000]).repeat(1000));
    link.keep(&frame(FrameKind::Seat, 0, &[0; 27]));
    link.write(&[]).unwrap();
    assert!(link.kept() > 0, "all of it fits");
    worker.set_nonblocking(false).unwrap();
    worker.set_read_timeout(Some(WATCHDOG)).unwrap();
    let worker = thread::spawn(move || {
        while next_kind(&mut worker).is_ok_and(|kind| kind != FrameKind::Seat) {}
        let _ = worker.write_all(&frame(FrameKind::Ring, 0, &[]));
        worker
    });
    let mut time = Countdown::new(Duration::from_secs(2));
    let heard = hear_all(&mut [link], &mut time);
    drop(worker.join().unwrap());
    assert_eq!(heard, Ok(vec![String::new()]));
}
