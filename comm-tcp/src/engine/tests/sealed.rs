//! The same over encrypted links, where bytes count once the last of their record has gone.

use std::net::{TcpListener, TcpStream};

use super::*;
use crate::link::{Channel, Traffic, Wire};

/// Creates both ends of an encrypted link between ranks 0 and 1.
fn link() -> (Link, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    let end = |stream: TcpStream, outward: u8, inward: u8, peer| {
        stream.set_nonblocking(true).unwrap();
        let traffic = Traffic {
            outward: [outward; 32],
            inward: [inward; 32],
            link: "data",
        };
        let channel = Channel {
            stream,
            traffic: Some(traffic),
        };
        Link::new(Wire::from(channel), peer)
    };
    (end(one, 1, 2, 1), end(other, 2, 1, 0))
}

/// Creates rank 0 of two, and the other end of its data link and its watch link.
fn rank_0() -> (Engine, Link, UnixStream) {
    let (mut engine, _, hub) = rank_of_two(0);
    let (mine, other) = link();
    engine.links.data = vec![mine];
    (engine, other, hub)
}

/// Reads a frame of any length.
fn take(peer: &mut Link) -> Header {
    let began = Instant::now();
    let header = loop {
        if let Some(header) = peer.header().unwrap() {
            break header;
        }
        assert!(began.elapsed() < WATCHDOG, "no header comes");
        thread::yield_now();
    };
    let mut left = header.length;
    while left > 0 {
        left -= peer.skip(left).unwrap();
        assert!(began.elapsed() < WATCHDOG, "{left} bytes do not come");
    }
    header
}

fn send(peer: &mut Link, bytes: &[u8]) {
    peer.keep(bytes);
    peer.write(&[]).unwrap();
    assert_eq!(peer.kept(), 0, "no room for a small frame");
}

/// A rank whose payloads nobody reads, because the other refused those calls far ahead, keeps no
/// more than what had to go out whole: the rest of one frame.
#[test]
fn payloads_of_refused_calls_do_not_pile_up() {
    const CALLS: u64 = 40;
    let (mut engine, mut peer, _hub) = rank_0();
    for sequence in 0..CALLS {
        let body = [&[0, 0, 0, 1][..], b"no"].concat();
        send(&mut peer, &frame(FrameKind::Refused, sequence, &body));
    }
    // Many times what the system takes for a reader that does not read.
    let bytes = vec![1; 1 << 20];
    let mut recv = bytes.clone();
    for _ in 0..CALLS {
        let result = engine.allreduce(&bytes, &mut recv, ScalarKind::U8, ReduceOp::Sum);
        assert!(matches!(result, Err(Failure::Refused { rank: 1, .. })));
        engine.pass();
    }
    let kept = engine.links.data[0].kept();
    assert!(kept > 0, "everything found room");
    assert!(kept <= HEADER + bytes.len(), "{kept} bytes are kept");

    // What was begun goes out whole, and the next call behind it.
    let reader = thread::spawn(move || {
        loop {
            let header = take(&mut peer);
            if header.sequence == CALLS {
                send(&mut peer, &header.encode());
                return header;
            }
        }
    });
    engine.barrier().unwrap();
    assert_eq!(reader.join().unwrap().call, Some(Call::barrier()));
}
