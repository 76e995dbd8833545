//! Many clients that prove nothing, and an honest one.

use rustix::process::{Resource, Rlimit};

use super::*;

/// Accepts on both families, so that there are two sources on one machine.
fn both_loopbacks() -> Option<(TcpListener, u16)> {
    let Ok(listener) = TcpListener::bind("[::]:0") else {
        not_run("this machine has no IPv6");
        return None;
    };
    let port = listener.local_addr().unwrap().port();
    Some((listener, port))
}

/// Connections that are kept open on the other side: the flood lasts as long as rank 0 permits.
#[derive(Default)]
struct Flood(Vec<TcpStream>);

impl Flood {
    fn new() -> Self {
        // Some systems limit a process to a thousand descriptors by default.
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        rustix::process::setrlimit(Resource::Nofile, raised).unwrap();
        Self::default()
    }

    /// Lets `count` clients connect and send nothing; they are accepted as they arrive.
    fn rise(&mut self, count: usize, port: u16, acceptor: &mut Acceptor, seats: &mut Seats<'_>) {
        let zero = identity(0, 2);
        for _ in 0..count {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            acceptor.advance(&zero, seats, Instant::now());
            self.0.push(stream);
        }
    }
}

/// Connects, lets `count` strangers connect during the round trip, then sends the hello; returns whether rank
/// 0 still waited for it.
fn attempt(
    host: &str,
    port: u16,
    (flood, count): (&mut Flood, usize),
    acceptor: &mut Acceptor,
    seats: &mut Seats<'_>,
) -> bool {
    let zero = identity(0, 2);
    let mut stream = TcpStream::connect((host, port)).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    acceptor.advance(&zero, seats, Instant::now());
    let mut challenge = [0; CHALLENGE];
    if stream.read_exact(&mut challenge).is_err() {
        return false;
    }
    flood.rise(count, port, acceptor, seats);
    let mut hello = identity(1, 2).hello(LinkKind::Data, 0, NOWHERE);
    hello.local = stream.local_addr().unwrap();
    let keys = Keys::new(SECRET.as_bytes());
    let client = Client::new(&challenge, &hello, &nonce().unwrap(), &keys).unwrap();
    if stream.write_all(client.hello()).is_err() {
        return false;
    }
    // Bounded by the read: an acceptor that dropped the connection has closed it.
    stream.set_nonblocking(true).unwrap();
    let (mut reply, mut received) = ([0; REPLY], 0);
    let began = Instant::now();
    while began.elapsed() < WATCHDOG {
        acceptor.advance(&zero, seats, Instant::now());
        match stream.read(&mut reply[received..]) {
            Ok(0) => return false,
            Ok(count) => received += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
            Err(_) => return false,
        }
        if received == REPLY {
            return client.reply(&reply, &keys).unwrap().0 == Status::Welcome;
        }
    }
    panic!("neither let in nor let go");
}

/// 4000 a second during a round trip of 20 ms are 80; here they are five times as many.
#[test]
fn a_flood_from_elsewhere_keeps_no_rank_out() {
    let _turn = listen();
    let Some((listener, port)) = both_loopbacks() else {
        return;
    };
    let zero = identity(0, 2);
    let mut acceptor = Acceptor::new(listener, 2).unwrap();
    let mut seats = Seats::new(&zero);
    let mut flood = Flood::new();
    flood.rise(400, port, &mut acceptor, &mut seats);
    for try_ in 0..20 {
        assert!(
            attempt("::1", port, (&mut flood, 20), &mut acceptor, &mut seats),
            "attempt {try_} was crowded out"
        );
        // The next attempt finds the seat free.
        seats = Seats::new(&zero);
    }
    assert!(attempt(
        "::1",
        port,
        (&mut flood, 400),
        &mut acceptor,
        &mut seats
    ));
}

/// Connections from the same address are indistinguishable. But some of the attempts succeed, and a rank has
/// a hundred before the connect timeout.
#[test]
fn a_flood_from_the_same_address_keeps_no_rank_out_for_long() {
    let _turn = listen();
    let (listener, port) = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    };
    let zero = identity(0, 2);
    let mut acceptor = Acceptor::new(listener, 2).unwrap();
    let mut seats = Seats::new(&zero);
    let mut flood = Flood::new();
    flood.rise(400, port, &mut acceptor, &mut seats);
    let mut attempt = |_| {
        attempt(
            "127.0.0.1",
            port,
            (&mut flood, 80),
            &mut acceptor,
            &mut seats,
        )
    };
    let came = (0..30).any(&mut attempt);
    assert!(came, "30 attempts were crowded out");
}

/// The log of a flood is readable, and contains the number of connections.
#[test]
fn a_flood_does_not_fill_the_log() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let zero = identity(0, 2);
    let mut acceptor = Acceptor::new(listener, 2).unwrap();
    let mut flood = Flood::new();
    flood.rise(1000, port, &mut acceptor, &mut Seats::new(&zero));
    drop(acceptor);
    let all = lines();
    assert!(all.len() <= 12, "{} lines", all.len());
    let counted = |line: &String| {
        let (_, count) = line.split_once("count=")?;
        count.split(' ').next()?.parse::<usize>().ok()
    };
    let told: usize = all.iter().map(|line| counted(line).unwrap_or(1)).sum();
    assert!(told > 400 && told < 1000, "{told} were told: {all:#?}");
}
