//! Which process gets a seat.

use std::io::IoSlice;

use super::*;
use crate::frame::HEADER;

/// Takes the seat of a rank with both links, and then sends nothing, like a host that has vanished.
pub(super) fn vanished(rank: usize, size: usize, port: u16) -> [TcpStream; 2] {
    let keys = Keys::new(SECRET.as_bytes());
    let mut who = identity(rank, size);
    [LinkKind::Data, LinkKind::Watch].map(|link| {
        let (mut stream, challenge) = knock(port);
        let mut hello = who.hello(link, 0, NOWHERE);
        hello.local = stream.local_addr().unwrap();
        let client = Client::new(&challenge, &hello, &nonce().unwrap(), &keys).unwrap();
        let reply = answer(&mut stream, client.hello());
        let (status, session) = client.reply(&reply, &keys).unwrap();
        assert_eq!(status, Status::Welcome);
        who.session = session;
        stream
    })
}

#[test]
fn a_worker_whose_host_vanished_gives_its_seat_to_the_next_that_comes() {
    let _turn = listen();
    let (port, rank_0) = rank_0(3);
    let gone = vanished(1, 3, port);
    let rank = |rank| {
        thread::spawn(move || {
            let comm = TcpBackend::connect(config(rank, 3, port)).unwrap();
            comm.barrier().unwrap();
        })
    };
    let began = Instant::now();
    let one = rank(1);
    assert!(hears(&["WARN", "rank=1", "does not answer"]));
    // Soon: a joined rank is asked four times a second.
    assert!(began.elapsed() < Duration::from_secs(4));
    for rank in [one, rank(2), rank_0] {
        rank.join().unwrap();
    }
    drop(gone);
}

#[test]
fn a_worker_whose_host_vanished_counts_as_missing() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut short = config(0, 3, port);
    short.connect_timeout = Duration::from_secs(8);
    let zero = thread::spawn(move || TcpBackend::connect_with_listener(short, listener).map(drop));
    let gone = vanished(1, 3, port);
    let error = zero.join().unwrap().unwrap_err();
    assert!(error.message.contains("rank 1 "), "{error}");
    assert!(error.message.contains("does not answer"), "{error}");
    drop(gone);
}

/// Hundreds of ranks, and strangers among them, find room until they are accepted.
#[test]
fn the_listener_of_the_ring_has_room_for_many() {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    if most.trim().parse::<u32>().unwrap_or(0) < 400 {
        not_run("the system allows no longer queue");
        return;
    }
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = join::ring_listener(&config(1, 3, 1), local, true).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(2)).unwrap();
    let waiting: Vec<TcpStream> = (0..300).map(connect).collect();
    assert_eq!(waiting.len(), 300);
}

/// An address that is valid on one link only can be used with this machine's number of the link.
#[test]
fn an_address_of_one_link_keeps_its_link() {
    let via: SocketAddr = "[fe80::1%7]:29500".parse().unwrap();
    let of = |address: &str| scoped(address.parse().unwrap(), via).to_string();
    assert_eq!(of("[fe80::2]:4000"), "[fe80::2%7]:4000");
    assert_eq!(of("[2001:db8::2]:4000"), "[2001:db8::2]:4000");
    assert_eq!(of("10.0.0.2:4000"), "10.0.0.2:4000");
}

/// A worker whose time ends while rank 0 announces that all are there has sent its reason.
#[test]
fn why_a_worker_gave_up_at_the_last_moment_is_told() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let zero = move || TcpBackend::connect_with_listener(config(0, 2, port), listener).map(drop);
    let zero = thread::spawn(zero);
    let [mut data, _watch] = vanished(1, 2, port);
    let mut head = [0; HEADER];
    data.read_exact(&mut head).unwrap();
    assert_eq!(Header::decode(&head).unwrap().kind, FrameKind::Seat);
    let reason = b"its connect timeout of 3s was over";
    data.write_all(&frame(FrameKind::Stop, 0, reason)).unwrap();
    let error = zero.join().unwrap().unwrap_err();
    assert!(error.message.contains("rank 1 "), "{error}");
    assert!(error.message.contains("timeout of 3s was over"), "{error}");
}

/// All ranks name a rank that leaves while the ring is built, at once: none waits for its connect timeout.
#[test]
fn a_rank_that_is_lost_while_the_job_starts_is_named_by_all() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let zero = move || TcpBackend::connect_with_listener(config(0, 4, port), listener).map(drop);
    let mut ranks = vec![thread::spawn(zero)];
    let worker = |rank| thread::spawn(move || TcpBackend::connect(config(rank, 4, port)).map(drop));
    ranks.extend([1, 3].map(worker));
    let [mut data, watch] = vanished(2, 4, port);
    await_frame(&mut data, FrameKind::Seat);
    let began = Instant::now();
    drop((data, watch));
    for rank in ranks {
        let error = rank.join().unwrap().unwrap_err();
        assert!(error.message.contains("rank 2 "), "{error}");
        assert!(
            error.message.contains("lost while the job started"),
            "{error}"
        );
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "took {took:?}");
}

/// Rank 0 has sent the reason why there is no job, and has closed the link with an unread answer of this
/// rank, which resets the connection.
#[test]
fn a_worker_that_can_answer_no_more_still_reads_why_rank_0_gave_up() {
    comm_testing::watchdog();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    let channel = Channel {
        stream,
        traffic: None,
    };
    let mut link = Link::new(channel.into(), 0);
    let (mut rank_0, _) = listener.accept().unwrap();
    for (kind, text) in [
        (FrameKind::Missing, "rank 2"),
        (FrameKind::Stop, "rank 2 was lost"),
    ] {
        rank_0.write_all(&frame(kind, 0, text.as_bytes())).unwrap();
    }
    link.write(&[IoSlice::new(b"unread")]).unwrap();
    drop(rank_0);
    while link.write(&[IoSlice::new(b"more")]).is_ok() {
        thread::yield_now();
    }
    let config = config(1, 3, address.port());
    let mut time = Countdown::new(config.connect_timeout);
    match join::seated(&mut link, address, &config, &mut time) {
        Err(join::Attempt::Final(error)) => {
            assert!(error.message.contains("rank 2 was lost"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// All have joined, and one takes long to build the ring: a worker whose time ends meanwhile reports that,
/// and all name it.
#[test]
fn a_worker_whose_time_ends_while_the_ring_is_built_is_named_by_all() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let zero = move || TcpBackend::connect_with_listener(config(0, 3, port), listener).map(drop);
    let zero = thread::spawn(zero);
    let mut short = config(1, 3, port);
    short.connect_timeout = Duration::from_secs(1);
    let began = Instant::now();
    let one = thread::spawn(move || TcpBackend::connect(short).map(drop));
    let [mut data, _watch] = vanished(2, 3, port);
    await_frame(&mut data, FrameKind::Seat);
    one.join().unwrap().unwrap_err();
    await_frame(&mut data, FrameKind::Stop);
    let error = zero.join().unwrap().unwrap_err();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "took {took:?}");
    assert!(error.message.contains("rank 1 "), "{error}");
    assert!(error.message.contains("timeout of 1s was over"), "{error}");
}

/// Reads until this frame arrives.
pub(super) fn await_frame(stream: &mut TcpStream, kind: FrameKind) {
    loop {
        let mut head = [0; HEADER];
        stream.read_exact(&mut head).unwrap();
        let header = Header::decode(&head).unwrap();
        let mut body = vec![0; usize::try_from(header.length).unwrap()];
        stream.read_exact(&mut body).unwrap();
        if header.kind == kind {
            return;
        }
    }
}

/// A rank with the secret that requests plain bytes does not get them where all links are encrypted.
#[test]
fn a_plain_link_where_all_are_encrypted_is_refused() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut zero = config(0, 2, port);
    (zero.encryption, zero.connect_timeout) = (Encryption::On, Duration::from_secs(2));
    let zero = thread::spawn(move || TcpBackend::connect_with_listener(zero, listener).map(drop));
    let (mut stream, challenge) = knock(port);
    let mut hello = identity(1, 2).hello(LinkKind::Data, 0, NOWHERE);
    hello.encryption = Encryption::On;
    hello.local = stream.local_addr().unwrap();
    let keys = Keys::new(SECRET.as_bytes());
    let client = Client::new(&challenge, &hello, &nonce().unwrap(), &keys).unwrap();
    let reply = answer(&mut stream, client.hello());
    let (status, _) = client.reply(&reply, &keys).unwrap();
    assert_eq!(status, Status::OtherEncryption);
    zero.join().unwrap().unwrap_err();
}

/// A link that leaves loopback only at the other end, as through a tunnel, is encrypted, because the server
/// announces it.
#[rstest]
fn a_link_that_leaves_loopback_at_one_end_is_encrypted(#[values(false, true)] beyond: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let who = identity(1, 2);
    let hello = |_| Ok(who.hello(LinkKind::Data, 0, NOWHERE));
    let mut dial = dial::Dial::new(address, &who, hello).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let server = crate::handshake::Server::new(nonce().unwrap(), beyond);
    stream.write_all(server.challenge()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let (began, mut bytes) = (Instant::now(), [0; HELLO]);
    let mut received = 0;
    while received < HELLO {
        assert!(began.elapsed() < WATCHDOG, "the client says nothing");
        assert!(dial.advance().unwrap().is_none());
        received += stream.read(&mut bytes[received..]).unwrap_or(0);
    }
    let hello = server.hello(&bytes, &who.keys).unwrap();
    assert_eq!(hello.sealed, beyond);
}
