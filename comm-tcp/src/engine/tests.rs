//! One rank against a script: the test holds the other ends of its links.

mod sealed;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use comm_api::{FailureKind, ReduceOp, ScalarKind};

use comm_kit::processors::usable;

use super::*;
use crate::collective::Failure;
use crate::frame::{FrameKind, HEADER, Header};
use crate::link::Link;
use crate::notice::{Notice, frame};

/// What a rank is given before it is wrong.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Creates one of two ranks, and the other ends of its data link and its watch link.
fn rank_of_two(rank: usize) -> (Engine, UnixStream, UnixStream) {
    let (engine, mut peers, hub) = engine(rank, 2, &[1 - rank]);
    (engine, peers.remove(0), hub)
}

/// Creates a rank with data links to `peers`, and the other ends of those and of its watch link.
fn engine(rank: usize, size: usize, peers: &[usize]) -> (Engine, Vec<UnixStream>, UnixStream) {
    comm_testing::watchdog();
    let pair = || {
        let (mine, other) = UnixStream::pair().unwrap();
        mine.set_nonblocking(true).unwrap();
        other.set_read_timeout(Some(WATCHDOG)).unwrap();
        (mine, other)
    };
    let (watch, hub) = pair();
    let link = |&peer: &usize| {
        let (mine, other) = pair();
        (Link::new(mine.into(), peer), other)
    };
    let (data, others) = peers.iter().map(link).unzip();
    let engine = Engine {
        rank,
        size,
        hosts: Hosts::One,
        links: Links { data, ring: None },
        watcher: Watcher::new(Link::new(watch.into(), 0)),
        member: Member::new((rank, size), "rank 0".to_owned(), Some(WATCHDOG), uptime()),
        signals: Arc::new(Signals::default()),
        awake: Policy::new(size, usable()),
        sequence: 0,
        outlook: Outlook::Entering,
        failed: None,
        scratch: Vec::new(),
    };
    (engine, others, hub)
}

/// Reads the next frame that a rank has sent, and returns its header.
fn read_frame(peer: &mut UnixStream) -> std::io::Result<Header> {
    let mut head = [0; HEADER];
    peer.read_exact(&mut head)?;
    let header = Header::decode(&head).unwrap();
    let mut body = vec![0; usize::try_from(header.length).unwrap()];
    peer.read_exact(&mut body)?;
    Ok(header)
}

/// Waits for rank 2 without moving anything.
struct Idler(Outlook);

impl Task for Idler {
    fn advance(&mut self, _: &mut Links) -> Result<Progress, Broken> {
        Ok(Progress::Stuck)
    }

    fn interest<'l>(&self, _: &'l Links, _: &mut Vec<PollFd<'l>>) {}

    fn outlook(&self) -> Outlook {
        self.0
    }

    fn waits_for(&self) -> usize {
        2
    }
}

/// Sleeps until the cause was heard, and is done then.
struct Hearing<'a>(&'a UnixStream);

impl Task for Hearing<'_> {
    fn advance(&mut self, _: &mut Links) -> Result<Progress, Broken> {
        // The other end of the watch has nothing left that this rank has not read.
        let unread = rustix::io::ioctl_fionread(self.0).unwrap();
        Ok(if unread == 0 {
            Progress::Done
        } else {
            Progress::Stuck
        })
    }

    fn interest<'l>(&self, _: &'l Links, _: &mut Vec<PollFd<'l>>) {}

    fn outlook(&self) -> Outlook {
        Outlook::Entering
    }

    fn waits_for(&self) -> usize {
        0
    }
}

/// A cause that was heard in a call that could finish ends the next one, which cannot.
#[test]
fn a_cause_heard_in_a_call_that_succeeds_ends_the_next() {
    let (mut engine, _peer, mut hub) = rank_of_two(1);
    let cause = Cause::new(FailureKind::PeerLost, Some(2), "rank 2: gone");
    let answered = 1;
    let notice = Notice::Cause {
        cause: cause.clone(),
        answered,
    };
    hub.write_all(&notice.encode()).unwrap();
    let watch = engine.watcher.as_fd().try_clone_to_owned().unwrap();
    let mut hearing = Hearing(&UnixStream::from(watch));
    assert_eq!(engine.drive(Call::barrier(), &mut hearing), Ok(()));
    engine.pass();
    let began = Instant::now();
    let ended = engine.drive(Call::barrier(), &mut Idler(Outlook::Entering));
    assert_eq!(ended, Err(cause));
    let took = began.elapsed();
    assert!(took < WATCHDOG / 4, "failed after {took:?}");
}

/// Rank 0 has left in good order and cannot say any more who is late: it is not the one.
#[test]
fn rank_0_that_has_left_is_not_blamed_for_a_stall() {
    let (mut engine, _peer, mut hub) = rank_of_two(1);
    engine.member.timeout = Some(Duration::from_millis(200));
    let goodbye = Notice::Goodbye { sequence: 1 };
    hub.write_all(&goodbye.encode()).unwrap();
    drop(hub);
    let cause = engine.drive(Call::barrier(), &mut Idler(Outlook::Moving));
    let cause = cause.unwrap_err();
    assert_eq!((cause.kind, cause.rank), (FailureKind::TimedOut, Some(2)));
}

/// A rank whose payloads nobody reads, because the other refused those calls far ahead, keeps no
/// more than a frame of them.
#[test]
fn payloads_of_refused_calls_do_not_pile_up() {
    const CALLS: u64 = 40;
    let (mut engine, mut peer, _hub) = rank_of_two(0);
    for sequence in 0..CALLS {
        let body = [&[0, 0, 0, 1][..], b"no"].concat();
        peer.write_all(&frame(FrameKind::Refused, sequence, &body))
            .unwrap();
    }
    let send = vec![1; 200 << 10];
    let mut recv = send.clone();
    for _ in 0..CALLS {
        let result = engine.allreduce(&send, &mut recv, ScalarKind::U8, ReduceOp::Sum);
        assert!(matches!(result, Err(Failure::Refused { rank: 1, .. })));
        engine.pass();
    }
    let kept = engine.links.data[0].kept();
    assert!(kept <= HEADER + send.len(), "{kept} bytes are kept");

    // What was begun goes out whole, and the next call behind it.
    let reader = thread::spawn(move || {
        loop {
            let header = read_frame(&mut peer).unwrap();
            if header.sequence == CALLS {
                peer.write_all(&header.encode()).unwrap();
                return header;
            }
        }
    });
    engine.barrier().unwrap();
    assert_eq!(reader.join().unwrap().call, Some(Call::barrier()));
}

/// Of two ranks that differ, each learns what the other called, also one that had to wait with it.
#[test]
fn the_other_rank_learns_of_a_mismatch_behind_a_backlog() {
    let (mut engine, mut peer, _hub) = rank_of_two(0);
    let body = [&[0, 0, 0, 1][..], b"no"].concat();
    peer.write_all(&frame(FrameKind::Refused, 0, &body))
        .unwrap();
    let other = Header::new(FrameKind::Enter, 1, Call::broadcast(0, 1, 1), 0);
    peer.write_all(&other.encode()).unwrap();

    let (done, is_done) = mpsc::channel();
    let rank = thread::spawn(move || {
        let send = vec![1; 256 << 10];
        let mut recv = send.clone();
        let refused = engine.allreduce(&send, &mut recv, ScalarKind::U8, ReduceOp::Sum);
        assert!(matches!(refused, Err(Failure::Refused { .. })));
        assert!(engine.links.data[0].kept() > 0, "no backlog");
        engine.pass();
        let differs = engine.barrier();
        done.send(()).unwrap();
        (differs, engine)
    });
    // It may wait for this end to read; if it does not, what it left must be there already.
    let _ = is_done.recv_timeout(Duration::from_millis(300));
    peer.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut sequences = Vec::new();
    while sequences.last() != Some(&1) {
        let header =
            read_frame(&mut peer).unwrap_or_else(|error| panic!("after {sequences:?}: {error}"));
        sequences.push(header.sequence);
    }
    let (differs, _engine) = rank.join().unwrap();
    let Err(Failure::Fatal(cause)) = differs else {
        panic!("{differs:?}");
    };
    assert_eq!((cause.kind, cause.rank), (FailureKind::Mismatch, Some(1)));
}

/// Nothing to combine is combined: rank 0 collects the entries and answers, as with any reduction.
#[test]
fn a_reduction_of_no_elements_ends_on_rank_0() {
    let (mut engine, mut peers, _hub) = engine(0, 3, &[1, 2]);
    let call = Call::allreduce(0, ScalarKind::F64, ReduceOp::Sum);
    for peer in &mut peers {
        let entry = Header::new(FrameKind::Enter, 0, call, 0);
        peer.write_all(&entry.encode()).unwrap();
    }
    let result = engine.allreduce(&[], &mut [], ScalarKind::F64, ReduceOp::Sum);
    assert!(result.is_ok(), "{result:?}");
    for peer in &mut peers {
        let mut head = [0; HEADER];
        peer.read_exact(&mut head).unwrap();
        let answer = Header::new(FrameKind::Answer, 0, call, 0);
        assert_eq!(Header::decode(&head), Ok(answer));
    }
}

/// Rank 1 has gone through the calls that rank 0 refuses far ahead, and waits in the next: what it has sent for that one is
/// kept although rank 0 reads while it gets rid of its refusals.
#[test]
fn what_the_other_sent_for_the_next_call_outlives_a_mebibyte_of_refusals() {
    let (mut engine, mut peer, _hub) = rank_of_two(0);
    let reason = "x".repeat(1000);
    let length = HEADER + 4 + reason.len();
    let mut refused = 0;
    // The other end reads nothing, so that refusals are kept, as many as may be.
    while engine.links.data[0].kept() + length <= 1 << 20 {
        engine.refuse(&reason);
        refused += 1;
        assert!(refused < 10_000, "they go somewhere");
    }
    let last = refused + 1;
    // What the other sent: its part in the last call that is refused, and in the one after it.
    for sequence in [last - 1, last] {
        let entry = Header::new(FrameKind::Enter, sequence, Call::barrier(), 0);
        peer.write_all(&entry.encode()).unwrap();
    }
    let reader = thread::spawn(move || {
        let mut sequences = Vec::new();
        loop {
            let header = read_frame(&mut peer).unwrap();
            sequences.push(header.sequence);
            if header.kind == FrameKind::Enter {
                return sequences;
            }
        }
    });
    // One more, and this rank waits until all of them are on their way.
    engine.refuse(&reason);
    assert!(engine.failed.is_none(), "{:?}", engine.failed);
    assert_eq!(engine.sequence, last);
    engine.member.timeout = Some(Duration::from_secs(2));
    engine.barrier().unwrap();
    let sequences = reader.join().unwrap();
    assert_eq!(sequences, (0..=last).collect::<Vec<u64>>());
}

/// Lets workers 1, 2 and 3 send rank 0 what they do in the first call, the last of them first.
fn rank_0_hears(said: [Said; 3]) -> Result<(), Failure> {
    let (mut engine, mut peers, _hub) = engine(0, 4, &[1, 2, 3]);
    for (place, said) in said.into_iter().enumerate().rev() {
        let bytes = match said {
            Said::Refuses => {
                let rank = u8::try_from(place + 1).unwrap();
                frame(
                    FrameKind::Refused,
                    0,
                    &[&[0, 0, 0, rank][..], b"no"].concat(),
                )
            }
            Said::Calls(call) => Header::new(FrameKind::Enter, 0, call, 0).encode().to_vec(),
        };
        peers[place].write_all(&bytes).unwrap();
    }
    engine.barrier()
}

enum Said {
    Refuses,
    Calls(Call),
}

/// All ranks must name the same one, and rank 0 tells them which.
#[test]
fn of_several_that_refuse_or_differ_the_lowest_rank_is_named_and_a_refusal_wins() {
    use Said::{Calls, Refuses};
    let same = || Calls(Call::barrier());
    let differs = || Calls(Call::broadcast(0, 1, 1));
    let refused = |result: Result<(), Failure>| match result {
        Err(Failure::Refused { rank, .. }) => Some(rank),
        _ => None,
    };
    let mismatched = |result: Result<(), Failure>| match result {
        Err(Failure::Fatal(cause)) if cause.kind == FailureKind::Mismatch => cause.rank,
        _ => None,
    };
    assert_eq!(refused(rank_0_hears([Refuses, same(), Refuses])), Some(1));
    assert_eq!(refused(rank_0_hears([same(), Refuses, Refuses])), Some(2));
    assert_eq!(refused(rank_0_hears([differs(), same(), Refuses])), Some(3));
    let result = rank_0_hears([same(), differs(), differs()]);
    assert_eq!(mismatched(result), Some(2));
}
