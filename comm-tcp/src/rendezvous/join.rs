//! The part of a worker.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::accept::{Acceptor, HANDSHAKE};
use super::coordinate::link_ring;
use super::dial::{Dial, DialError};
use super::{Countdown, Identity, Joined, NOWHERE, hear, ring, say, unexpected};
use crate::config::TcpConfig;
use crate::engine::Links;
use crate::error::InitError;
use crate::frame::Kind;
use crate::handshake::{LinkKind, SESSION, Session, Status};
use crate::link::{Broken, Link};
use crate::listen;
use crate::notice::{cut, text};
use crate::secret::Secret;
use crate::socket::{tune, tune_watch};
use crate::variables;
use crate::watch::{Signals, Watcher};

/// The first and the longest pause between two attempts to reach rank 0.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(300));

/// Why an attempt failed.
enum Attempt {
    /// Another one may succeed.
    Again(String),
    /// Another one would fail alike.
    Final(InitError),
}

impl From<io::Error> for Attempt {
    fn from(error: io::Error) -> Self {
        Self::Again(error.to_string())
    }
}

impl From<Broken> for Attempt {
    fn from(broken: Broken) -> Self {
        Self::Again(broken.reason)
    }
}

/// Finds rank 0 and takes a seat. Rank 0 may come late.
pub(crate) fn join(
    config: &TcpConfig,
    identity: &mut Identity,
    secret: Option<&Secret>,
) -> Result<Joined, InitError> {
    let time = &mut Countdown::new(config.connect_timeout);
    let mut pause = PAUSE.0;
    let mut seed = u64::from(std::process::id()) ^ (identity.rank as u64) << 32;
    loop {
        let reason = match attempt(config, identity, secret, time) {
            Ok(joined) => return Ok(joined),
            Err(Attempt::Final(error)) => return Err(error),
            Err(Attempt::Again(reason)) => reason,
        };
        tracing::debug!(rank = identity.rank, %reason, "cannot join yet");
        // Jitter: ranks that failed together do not come again together.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let jitter = Duration::from_micros(seed >> 40 & 0x3fff);
        if pause + jitter >= time.left() {
            return Err(unreachable(config, &reason));
        }
        time.wait(&mut [], pause + jitter);
        pause = (pause * 2).min(PAUSE.1);
    }
}

fn attempt(
    config: &TcpConfig,
    identity: &mut Identity,
    secret: Option<&Secret>,
    time: &mut Countdown,
) -> Result<Joined, Attempt> {
    let (coordinator, data, session, listener) = reach(config, identity, secret, time)?;
    identity.session = session;
    let hello = |_| Ok(identity.hello(LinkKind::Watch, 0, NOWHERE));
    let watch = dial(coordinator, identity, hello, time);
    let (watch, _) = watch.map_err(|error| classify(config, error))?;
    tune(&data, config.timeout)?;
    tune_watch(&watch, config.timeout)?;

    let mut data_link = Link::new(OwnedFd::from(data), 0);
    let (successor, local_ranks, wanted) = seated(&mut data_link, coordinator, time)?;
    let ring = match listener {
        Some(listener) if let Some(limit) = wanted => {
            let mut acceptor = Acceptor::new(listener, identity.size)?;
            let streams = ring::build(identity, &mut acceptor, successor, limit, time);
            let reason = streams.as_ref().err().map_or("", |reason| cut(reason));
            say(&mut data_link, Kind::Ring, reason.as_bytes())?;
            streams.ok()
        }
        _ => None,
    };
    let (header, body) = hear(&mut data_link, time)?;
    match header.kind {
        Kind::Start => {}
        Kind::Stop => return Err(Attempt::Final(stopped(&body))),
        _ => return Err(unexpected(0).into()),
    }
    let ring = match ring {
        Some(streams) if body == [1] => Some(link_ring(streams, identity, config)?),
        _ => None,
    };
    let place = coordinator.ip().to_canonical().to_string();
    Ok(Joined {
        links: Links {
            data: vec![data_link],
            ring,
        },
        watcher: Watcher::new(Link::new(watch.into(), 0), identity.rank, place),
        hub: None,
        signals: std::sync::Arc::new(Signals::default()),
        local_ranks,
    })
}

type Reached = (SocketAddr, TcpStream, Session, Option<TcpListener>);

/// Opens the data link to whichever address of the coordinator answers.
fn reach(
    config: &TcpConfig,
    identity: &mut Identity,
    secret: Option<&Secret>,
    time: &mut Countdown,
) -> Result<Reached, Attempt> {
    identity.session = [0; SESSION];
    let coordinator = (config.coordinator.as_str(), config.port);
    let addresses = time.look_up(|| coordinator.to_socket_addrs())?;
    let mut reason = format!("{} has no address", config.coordinator);
    let mut refusal = None;
    for address in addresses {
        listen::permit(address.ip(), "the coordinator", secret, config).map_err(Attempt::Final)?;
        let mut listener = None;
        let hello = |local: SocketAddr| {
            let mut ring = NOWHERE;
            if identity.size > 2 {
                let opened = ring_listener(config, local, secret.is_some())?;
                ring = SocketAddr::new(local.ip().to_canonical(), opened.local_addr()?.port());
                listener = Some(opened);
            }
            Ok(identity.hello(LinkKind::Data, 0, ring))
        };
        match dial(address, identity, hello, time) {
            Ok((stream, session)) => return Ok((address, stream, session, listener)),
            Err(DialError::Failed(failure)) => reason = format!("{address}: {failure}"),
            // Another job may listen on one of the addresses; it is final if no other is better.
            Err(error) => drop(refusal.get_or_insert(error)),
        }
    }
    Err(refusal.map_or(Attempt::Again(reason), |error| classify(config, error)))
}

/// Listens for the predecessor where it can come from: on the address that leads to rank 0, or on all
/// if that is loopback although the coordinator is not, because others may come from elsewhere.
pub(super) fn ring_listener(
    config: &TcpConfig,
    local: SocketAddr,
    secret: bool,
) -> io::Result<TcpListener> {
    let literal = config.coordinator.parse::<IpAddr>();
    // Without a secret nothing leaves loopback.
    let inside = !(secret || config.insecure)
        || literal.is_ok_and(|ip| ip.to_canonical().is_loopback())
        || listen::is_localhost(&config.coordinator);
    let ip = match local.ip() {
        ip if inside || !ip.to_canonical().is_loopback() => ip,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut address = local;
    address.set_ip(ip);
    address.set_port(0);
    TcpListener::bind(address)
}

fn dial<'a>(
    address: SocketAddr,
    identity: &'a Identity,
    hello: impl FnMut(SocketAddr) -> io::Result<crate::handshake::Hello> + 'a,
    time: &mut Countdown,
) -> Result<(TcpStream, Session), DialError> {
    let deadline = time.part(HANDSHAKE);
    let mut dial = Dial::new(address, identity, hello)?;
    loop {
        if let Some(session) = dial.advance()? {
            return Ok((dial.into_stream(), session));
        }
        let left = deadline.saturating_duration_since(time.now());
        if left.is_zero() {
            return Err(DialError::Failed("no answer in time".to_owned()));
        }
        time.wait(&mut [dial.interest()], left);
    }
}

/// Waits until all ranks have come; returns the successor, how many ranks share the processors, and if
/// there is to be a ring, how long building it may take.
fn seated(
    data_link: &mut Link,
    coordinator: SocketAddr,
    time: &mut Countdown,
) -> Result<(SocketAddr, usize, Option<Duration>), Attempt> {
    let (header, body) = hear(data_link, time)?;
    match header.kind {
        Kind::Seat if body.len() == 27 => {}
        Kind::Stop => return Err(Attempt::Final(stopped(&body))),
        _ => return Err(unexpected(0).into()),
    }
    let mut octets = [0; 16];
    octets.copy_from_slice(&body[..16]);
    let ip = Ipv6Addr::from(octets).to_canonical();
    let port = u16::from_be_bytes([body[16], body[17]]);
    let local = u32::from_be_bytes([body[18], body[19], body[20], body[21]]);
    let successor = match SocketAddr::new(ip, port) {
        NOWHERE => coordinator,
        address => address,
    };
    let limit = u32::from_be_bytes([body[23], body[24], body[25], body[26]]);
    let limit = Duration::from_millis(limit.into());
    Ok((
        successor,
        usize::try_from(local).unwrap_or(1),
        (body[22] == 1).then_some(limit),
    ))
}

fn stopped(body: &[u8]) -> InitError {
    let message = format!("rank 0 gave up: {}", text(body));
    InitError::failed(&[variables::CONNECT_TIMEOUT], message)
}

fn unreachable(config: &TcpConfig, reason: &str) -> InitError {
    let TcpConfig {
        coordinator, port, ..
    } = config;
    let names = [
        variables::COORDINATOR,
        variables::PORT,
        variables::CONNECT_TIMEOUT,
    ];
    let message = format!(
        "rank {} could not join rank 0 at {coordinator} port {port} within {:?}: {reason}; is rank \
         0 started, and are {}, {} right? {} gives it more time",
        config.rank, config.connect_timeout, names[0], names[1], names[2]
    );
    InitError::failed(&names, message)
}

fn classify(config: &TcpConfig, error: DialError) -> Attempt {
    let status = match error {
        DialError::Failed(reason) => return Attempt::Again(reason),
        DialError::Refused(status) => status,
    };
    let TcpConfig { rank, size, .. } = config;
    let invalid = |names: &[&str], why: String| {
        Attempt::Final(InitError::invalid(
            names,
            format!("rank 0 refused rank {rank}: {why}"),
        ))
    };
    match status {
        Status::WrongProof => invalid(
            &[variables::SECRET, variables::SECRET_FILE],
            format!(
                "the secrets differ; give all ranks the same {} or {}",
                variables::SECRET,
                variables::SECRET_FILE
            ),
        ),
        Status::OtherSize => invalid(
            &[variables::SIZE],
            format!(
                "its {} is not {size}; give all ranks the same",
                variables::SIZE
            ),
        ),
        Status::OtherJob => invalid(
            &[variables::JOB_ID],
            format!(
                "its {} is not {:?}; another job may hold the port",
                variables::JOB_ID,
                config.job_id.as_deref().unwrap_or("")
            ),
        ),
        Status::Taken => invalid(
            &[variables::RANK],
            format!("another process holds {}={rank}", variables::RANK),
        ),
        Status::NoSuchRank => invalid(
            &[variables::RANK, variables::SIZE],
            format!("there is no such rank in a job of {size}"),
        ),
        Status::OtherVersion => invalid(&[], "it runs another version of this library".to_owned()),
        Status::OtherLayout => invalid(
            &[],
            "its byte order or pointer width differs; run all ranks on one kind of machine"
                .to_owned(),
        ),
        Status::OtherSession | Status::NotExpected | Status::Welcome => {
            Attempt::Again(format!("{status:?}"))
        }
    }
}
