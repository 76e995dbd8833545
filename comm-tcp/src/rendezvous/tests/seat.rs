//! Whose seat it is.

use super::*;

/// Takes the seat of a rank, both links, and then says nothing, as from a host that has vanished.
fn vanished(rank: usize, size: usize, port: u16) -> [TcpStream; 2] {
    let keys = Keys::new(SECRET.as_bytes());
    let mut who = identity(rank, size);
    [LinkKind::Data, LinkKind::Watch].map(|link| {
        let (mut stream, challenge) = knock(port);
        let hello = who.hello(link, 0, NOWHERE);
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
    // Soon: a rank that lives is asked four times a second.
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
