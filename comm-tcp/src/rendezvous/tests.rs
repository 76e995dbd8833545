//! Which clients are refused: they get an answer, appear in the log, and get nothing else; and the real job
//! starts.

mod burst;
mod flood;
mod lies;
mod seat;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::{self, JoinHandle};

use comm_api::Communicator;
use comm_conformance::events::{assert_heard, hears, lines, listen};
use comm_testing::not_run;
use rstest::rstest;

use super::accept::{Acceptor, Admission, Proven};
use super::seats::Seats;
use super::*;
use crate::TcpBackend;
use crate::config::TcpConfig;
use crate::encryption::Encryption;
use crate::handshake::{CHALLENGE, Client, HELLO, LAYOUT, REPLY, SESSION, job};
use crate::link::Channel;

const SECRET: &str = "what the ranks know";
const WATCHDOG: Duration = Duration::from_secs(20);

fn config(rank: usize, size: usize, port: u16) -> TcpConfig {
    comm_testing::watchdog();
    let mut config = TcpConfig::new("127.0.0.1", rank, size);
    (config.port, config.secret) = (port, Some(SECRET.into()));
    config.connect_timeout = WATCHDOG;
    config
}

/// Starts rank 0; returns its port, and its result once all ranks have joined.
fn rank_0(size: usize) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let rank = thread::spawn(move || {
        let comm = TcpBackend::connect_with_listener(config(0, size, port), listener).unwrap();
        comm.barrier().unwrap();
    });
    (port, rank)
}

/// The other ranks join, and all is well.
fn finish(size: usize, port: u16, rank_0: JoinHandle<()>) {
    let rank = |rank| {
        thread::spawn(move || {
            let comm = TcpBackend::connect(config(rank, size, port)).unwrap();
            comm.barrier().unwrap();
        })
    };
    let ranks: Vec<JoinHandle<()>> = (1..size).map(rank).chain([rank_0]).collect();
    for rank in ranks {
        rank.join().unwrap();
    }
}

fn identity(rank: usize, size: usize) -> Identity {
    comm_testing::watchdog();
    Identity {
        rank,
        size,
        keys: Keys::new(SECRET.as_bytes()),
        session: [0; SESSION],
        job: job(None),
        layout: LAYOUT,
        host: 0,
        encryption: Encryption::Auto,
        has_secret: true,
    }
}

fn knock(port: u16) -> (TcpStream, [u8; CHALLENGE]) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let mut challenge = [0; CHALLENGE];
    stream.read_exact(&mut challenge).unwrap();
    (stream, challenge)
}

/// Sends a hello and returns the reply.
fn answer(stream: &mut TcpStream, hello: &[u8; HELLO]) -> [u8; REPLY] {
    stream.write_all(hello).unwrap();
    let mut reply = [0; REPLY];
    stream.read_exact(&mut reply).unwrap();
    reply
}

type Spoil = fn(&mut Hello);

#[rstest]
#[case::endianness(|hello: &mut Hello| hello.layout ^= 1, Status::OtherLayout)]
#[case::pointer_width(|hello: &mut Hello| hello.layout ^= 0x18, Status::OtherLayout)]
#[case::rank_out_of_range(|hello: &mut Hello| hello.from = 3, Status::NoSuchRank)]
#[case::rank_far_out_of_range(|hello: &mut Hello| hello.from = u32::MAX, Status::NoSuchRank)]
#[case::rank_0_itself(|hello: &mut Hello| hello.from = 0, Status::Taken)]
#[case::other_size(|hello: &mut Hello| hello.size = 4, Status::OtherSize)]
#[case::other_job(|hello: &mut Hello| hello.job = job(Some("another")), Status::OtherJob)]
#[case::strange_job(|hello: &mut Hello| hello.job = job(Some("\u{0}\u{1b}[2J\u{10ffff}")), Status::OtherJob)]
#[case::meant_for_another(|hello: &mut Hello| hello.to = 2, Status::NotExpected)]
#[case::other_encryption(|hello: &mut Hello| hello.encryption = Encryption::On, Status::OtherEncryption)]
#[case::from_another_address(|hello: &mut Hello| hello.local.set_ip([127, 0, 0, 2].into()), Status::Relayed)]
#[case::from_another_port(|hello: &mut Hello| hello.local.set_port(1), Status::Relayed)]
#[case::a_session_not_given(|hello: &mut Hello| hello.session = [7; SESSION], Status::OtherSession)]
#[case::a_watch_link_first(|hello: &mut Hello| hello.link = LinkKind::Watch, Status::OtherSession)]
#[case::a_ring_link(|hello: &mut Hello| hello.link = LinkKind::Ring, Status::NotExpected)]
fn a_rank_that_does_not_fit_is_refused_and_logged(#[case] spoil: Spoil, #[case] expected: Status) {
    let _turn = listen();
    let (port, rank_0) = rank_0(3);
    let (mut stream, challenge) = knock(port);
    let address = stream.local_addr().unwrap();
    let mut hello = identity(1, 3).hello(LinkKind::Data, 0, NOWHERE);
    hello.local = address;
    spoil(&mut hello);
    let keys = Keys::new(SECRET.as_bytes());
    let client = Client::new(&challenge, &hello, &nonce().unwrap(), &keys).unwrap();
    let reply = answer(&mut stream, client.hello());
    assert_eq!(client.reply(&reply, &keys), Ok((expected, [0; SESSION])));
    assert!(hears(&["WARN", "refused a link", &address.to_string()]));
    assert_heard(1, &[&address.to_string(), &format!("{expected:?}")]);
    assert_heard(0, &[SECRET]);
    finish(3, port, rank_0);
}

/// Ways to connect without knowing the secret.
#[derive(Debug, Clone, Copy)]
enum Ruse {
    Guess,
    NoSecret,
    /// A hello that was valid on another connection.
    Replay,
    /// The proof of rank 0 itself, reflected.
    Reflect,
    /// The hello of another link of the same rank, with its kind replaced.
    OtherKind,
    OtherVersion,
}

#[rstest]
fn who_does_not_know_the_secret_is_refused_and_logged(
    #[values(
        Ruse::Guess,
        Ruse::NoSecret,
        Ruse::Replay,
        Ruse::Reflect,
        Ruse::OtherKind,
        Ruse::OtherVersion
    )]
    ruse: Ruse,
) {
    let _turn = listen();
    let (port, rank_0) = rank_0(2);
    let (mut stream, challenge) = knock(port);
    let address = stream.local_addr().unwrap().to_string();
    let right = Keys::new(SECRET.as_bytes());
    let hello = identity(1, 2).hello(LinkKind::Data, 0, NOWHERE);
    let made = |challenge: &[u8; CHALLENGE], keys: &Keys| {
        *Client::new(challenge, &hello, &nonce().unwrap(), keys)
            .unwrap()
            .hello()
    };
    let mut bytes = made(&challenge, &right);
    let mut expected = Status::WrongProof;
    match ruse {
        Ruse::Guess => bytes = made(&challenge, &Keys::new(b"what the ranks knew")),
        Ruse::NoSecret => bytes = made(&challenge, &Keys::new(b"")),
        Ruse::Replay => {
            let (_other, earlier) = knock(port);
            bytes = made(&earlier, &right);
        }
        Ruse::Reflect => {
            let (mut other, earlier) = knock(port);
            let refusal = answer(&mut other, &made(&earlier, &Keys::new(b"")));
            bytes[HELLO - 32..].copy_from_slice(&refusal[REPLY - 32..]);
        }
        Ruse::OtherKind => bytes[10] = LinkKind::Watch as u8,
        Ruse::OtherVersion => {
            bytes[9] = crate::frame::VERSION + 1;
            expected = Status::OtherVersion;
        }
    }
    let reply = answer(&mut stream, &bytes);
    assert_eq!(reply[0], expected as u8);
    assert_eq!(reply[4..4 + SESSION], [0; SESSION], "the session is there");
    // A guesser could check guesses of the secret here, offline, without limit.
    let (said, proof) = reply.split_at(REPLY - 32);
    let confirmed = right.server_proves(&[&challenge, &bytes, said], proof);
    assert!(!confirmed, "a refusal tells a right guess from a wrong one");
    assert!(hears(&[
        "WARN",
        "refused a link",
        &address,
        &format!("{expected:?}")
    ]));
    assert_heard(0, &[SECRET]);
    finish(2, port, rank_0);
}

#[rstest]
#[case::garbage(b"GET / HTTP/1.1\r\n\r\n", "does not speak")]
#[case::a_frame_of_2_to_the_63(
    b"\x01\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0",
    "does not speak"
)]
#[case::half_a_hello(b"cobrecom\0\x05\x01", "it closed the connection")]
fn who_speaks_otherwise_is_let_go_and_logged(#[case] bytes: &[u8], #[case] reason: &str) {
    let _turn = listen();
    let (port, rank_0) = rank_0(2);
    let (mut stream, _) = knock(port);
    let address = stream.local_addr().unwrap().to_string();
    stream.write_all(bytes).unwrap();
    drop(stream);
    assert!(hears(&["WARN", "dropped a connection", &address, reason]));
    finish(2, port, rank_0);
}

/// A rank that completes its handshake, and then sends something unexpected or disconnects, loses its seat to
/// the next process of that rank.
#[rstest]
fn a_proven_rank_that_goes_before_the_start_is_logged(#[values(false, true)] speaks: bool) {
    let _turn = listen();
    let (port, rank_0) = rank_0(3);
    let (mut stream, challenge) = knock(port);
    let address = stream.local_addr().unwrap().to_string();
    let mut hello = identity(1, 3).hello(LinkKind::Data, 0, NOWHERE);
    hello.local = stream.local_addr().unwrap();
    let keys = Keys::new(SECRET.as_bytes());
    let client = Client::new(&challenge, &hello, &nonce().unwrap(), &keys).unwrap();
    let reply = answer(&mut stream, client.hello());
    assert_eq!(client.reply(&reply, &keys).unwrap().0, Status::Welcome);
    if speaks {
        let mut header = Header::plain(FrameKind::Bulk, 0, 0);
        header.length = 1 << 63;
        stream.write_all(&header.encode()).unwrap();
    } else {
        drop(stream);
    }
    assert!(hears(&["WARN", "left before all had joined", &address]));
    finish(3, port, rank_0);
}

struct Nobody;

impl Admission for Nobody {
    fn decide(&mut self, _: &Hello, _: Instant, _: Instant) -> Option<Status> {
        Some(Status::NotExpected)
    }

    fn keep(&mut self, _: Proven, _: Instant) {}
}

/// The cost of strangers is bounded: the sockets held at once, and what is read from each.
#[test]
fn six_hundred_silent_links_hold_a_bounded_number_of_sockets() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut acceptor = Acceptor::new(listener, 2).unwrap();
    let identity = identity(0, 2);
    let strangers: Vec<TcpStream> = (0..600)
        .map(|_| {
            let stream = TcpStream::connect(address).unwrap();
            acceptor.advance(&identity, &mut Nobody, Instant::now());
            stream
        })
        .collect();
    acceptor.advance(&identity, &mut Nobody, Instant::now());
    let most = 256 + 2 * 2;
    let mut fds = Vec::new();
    acceptor.interest(&mut fds);
    assert_eq!(fds.len(), 1 + most);
    // Those that gave way notice it; the others are still awaited.
    let ended = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut all = Vec::new();
        match (&mut &**stream).read_to_end(&mut all) {
            Ok(_) => true,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    };
    assert_eq!(strangers.iter().filter(ended).count(), 600 - most);
    assert_heard(10, &["WARN", "dropped a connection", "too many others"]);
    drop(fds);
    drop(acceptor);
    let rest = format!("count={}", 600 - most - 10);
    assert_heard(1, &["WARN", "dropped more connections", &rest]);
}

/// A client that sends nothing, or too little, is disconnected after five seconds and not before; a slow one
/// is not.
#[test]
fn a_handshake_takes_five_seconds_at_most() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut acceptor = Acceptor::new(listener, 2).unwrap();
    let identity = identity(0, 2);
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(WATCHDOG)).unwrap();
    let now = Instant::now();
    let held = |acceptor: &Acceptor| {
        let mut fds = Vec::new();
        acceptor.interest(&mut fds);
        fds.len() - 1
    };
    while held(&acceptor) == 0 {
        assert!(now.elapsed() < WATCHDOG, "it is not accepted");
        acceptor.advance(&identity, &mut Nobody, now);
    }
    assert_eq!(acceptor.next_due(), Some(now + Duration::from_secs(5)));
    acceptor.advance(&identity, &mut Nobody, now + Duration::from_millis(4999));
    assert_eq!(held(&acceptor), 1);
    acceptor.advance(&identity, &mut Nobody, now + Duration::from_secs(5));
    assert_eq!(held(&acceptor), 0);
    // The client got its challenge, and then the end.
    let mut said = Vec::new();
    silent.read_to_end(&mut said).unwrap();
    assert_eq!(said.len(), CHALLENGE);
    assert_heard(
        1,
        &[
            "WARN",
            "dropped a connection",
            "sent too little for too long",
        ],
    );
}

/// The seat of a rank that has left is free again, even if the last rank joins at that moment.
#[test]
fn seats_are_looked_at_once_more_before_the_start() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let identity = identity(0, 2);
    let mut seats = Seats::new(&identity);
    for link in [LinkKind::Data, LinkKind::Watch] {
        let gone = TcpStream::connect(address).unwrap();
        let (stream, address) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        drop(gone);
        let hello = super::tests::identity(1, 2).hello(link, 0, NOWHERE);
        let proven = Proven {
            hello,
            stream: Channel {
                stream,
                traffic: None,
            },
            address,
        };
        seats.keep(proven, Instant::now());
    }
    let mut acceptor = Acceptor::new(listener, 2).unwrap();
    let mut config = config(0, 2, address.port());
    config.connect_timeout = Duration::from_millis(50);
    let mut time = Countdown::new(config.connect_timeout);
    let error = coordinate::seat_all(&config, &identity, &mut acceptor, &mut seats, &mut time);
    let error = error.unwrap_err();
    assert!(error.message.contains("did not stay"), "{error}");
    assert_heard(1, &["left before all had joined", "rank=1"]);
}

/// Without a secret nothing listens beyond loopback, the ring included.
#[rstest]
#[case::none(None, true)]
#[case::some(Some(SECRET), false)]
fn the_ring_of_a_job_without_a_secret_stays_on_loopback(
    #[case] secret: Option<&str>,
    #[case] inside: bool,
) {
    let mut config = TcpConfig::new("a-name-of-this-machine", 1, 3);
    config.secret = secret.map(Into::into);
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 4242));
    let listener = join::ring_listener(&config, local, config.secret.is_some()).unwrap();
    let ip = listener.local_addr().unwrap().ip();
    assert_eq!(ip.is_loopback(), inside, "{ip}");
}

/// A firewall permits some ports: workers listen there and nowhere else.
#[test]
fn workers_of_one_machine_share_the_ports_that_are_allowed() {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 4242));
    let listen = |rank, ports: std::ops::RangeInclusive<u16>| {
        let mut config = TcpConfig::new("127.0.0.1", rank, 4);
        config.worker_ports = Some(ports);
        join::ring_listener(&config, local, true)
    };
    // Two adjacent free ports, which no other process may take in between.
    let (low, first, second) = (20_000..30_000)
        .step_by(2)
        .skip(std::process::id() as usize % 4000)
        .find_map(|low| {
            let first = listen(1, low..=low + 1).ok()?;
            Some((low, first, listen(2, low..=low + 1).ok()?))
        })
        .unwrap();
    let mut found = [first, second].map(|it| it.local_addr().unwrap().port());
    found.sort_unstable();
    assert_eq!(found, [low, low + 1]);
}

#[test]
fn a_worker_without_a_port_that_is_allowed_and_free_says_which_variable_to_change() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut config = TcpConfig::new("127.0.0.1", 1, 3);
    config.worker_ports = Some(port..=port);
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 4242));
    let error = join::ring_listener(&config, local, true).unwrap_err();
    let said = format!("COBRE_TCP_WORKER_PORTS is {port}-{port}");
    assert!(error.to_string().contains(&said), "{error}");
}

/// The system permits only privileged processes to take a port below 1024; a privileged one runs this again
/// without privileges.
#[test]
fn a_worker_that_may_not_take_a_port_says_which_variable_to_change() {
    const AGAIN: &str = "COMM_TCP_TEST_UNPRIVILEGED";
    comm_testing::watchdog();
    let mut config = TcpConfig::new("127.0.0.1", 1, 3);
    config.worker_ports = Some(81..=82);
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 4242));
    match join::ring_listener(&config, local, true) {
        Ok(_) if std::env::var_os(AGAIN).is_some() => not_run("any user may take any port here"),
        Ok(_) => {
            let mut again = Command::new("setpriv");
            again.args([
                "--bounding-set=-net_bind_service",
                "--inh-caps=-net_bind_service",
            ]);
            again.arg(std::env::current_exe().unwrap()).env(AGAIN, "1");
            let name = "rendezvous::tests::a_worker_that_may_not_take_a_port_says_which_variable_to_change";
            let Ok(output) = again.args(["--exact", name, "--nocapture"]).output() else {
                return not_run("setpriv is missing");
            };
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
        }
        Err(error) => {
            let said = "COBRE_TCP_WORKER_PORTS is 81-82";
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
