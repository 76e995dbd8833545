//! The part of a worker.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use comm_kit::report;

use super::accept::{Acceptor, HANDSHAKE};
use super::coordinate::link_ring;
use super::dial::{Dial, DialError};
use super::lookup::Lookup;
use super::messages::{Seated, Start};
use super::ring;
use super::{Countdown, Identity, Joined, NOWHERE, hear, say, scoped, unexpected};
use crate::config::TcpConfig;
use crate::engine::{Links, uptime};
use crate::error::InitError;
use crate::frame::FrameKind;
use crate::handshake::{LinkKind, SESSION, Session, Status};
use crate::link::{Broken, Channel, Link, Wire};
use crate::listen;
use crate::member::Member;
use crate::notice::{cut, text};
use crate::secret::Secret;
use crate::socket::{tune, tune_watch};
use crate::variables;
use crate::watch::{Signals, Watcher};

/// The first and the longest pause between two attempts to reach rank 0.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(300));

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Attempt {
    /// Another attempt may succeed.
    Again(String),
    /// Refused, without proof that rank 0 did it: another attempt may succeed, and if none does, this is the
    /// reason.
    Doubtful(InitError),
    /// Another attempt would fail alike.
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

/// Finds rank 0 and takes a seat. Rank 0 may start late.
pub(crate) fn join(
    config: &TcpConfig,
    identity: &mut Identity,
    secret: Option<&Secret>,
    time: &mut Countdown,
) -> Result<Joined, InitError> {
    let mut lookup = Lookup::default();
    let mut doubtful: Option<InitError> = None;
    let mut pause = PAUSE.0;
    let mut seed = u64::from(std::process::id()) ^ (identity.rank as u64) << 32;
    loop {
        let reason = match attempt(config, identity, secret, &mut lookup, time) {
            Ok(joined) => return Ok(joined),
            Err(Attempt::Final(error)) => return Err(error),
            Err(Attempt::Again(reason)) => reason,
            Err(Attempt::Doubtful(error)) => {
                let reason = error.message.clone();
                if doubtful.is_none() {
                    // Logged now, because it is the likely reason and the connect timeout may be long.
                    tracing::warn!(rank = identity.rank, %reason, "refused without proof; trying again");
                }
                doubtful = Some(error);
                reason
            }
        };
        tracing::debug!(rank = identity.rank, %reason, "cannot join yet");
        // Jitter: ranks that failed together do not retry together.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let jitter = Duration::from_micros(seed >> 40 & 0x3fff);
        if pause + jitter >= time.left() {
            return Err(doubtful.unwrap_or_else(|| unreachable(config, &reason)));
        }
        time.wait(&mut [], pause + jitter);
        pause = (pause * 2).min(PAUSE.1);
    }
}

fn attempt(
    config: &TcpConfig,
    identity: &mut Identity,
    secret: Option<&Secret>,
    lookup: &mut Lookup,
    time: &mut Countdown,
) -> Result<Joined, Attempt> {
    let (coordinator, data, session, listener) = reach(config, identity, secret, lookup, time)?;
    identity.session = session;
    let hello = |_| Ok(identity.hello(LinkKind::Watch, 0, NOWHERE));
    let watch = dial(coordinator, identity, hello, time);
    let (watch, _) = watch.map_err(|error| classify(config, error))?;
    tune(&data, config.timeout)?;
    tune_watch(&watch, config.timeout, false)?;

    let mut data_link = Link::new(Wire::from(data), 0);
    let (successor, local_ranks, wanted) = seated(&mut data_link, coordinator, config, time)?;
    let streams = match listener {
        Some(listener) if let Some(limit) = wanted => {
            let mut acceptor = Acceptor::new(listener, identity.size)?;
            let data = std::slice::from_ref(&data_link);
            ring::build(identity, &mut acceptor, successor, data, limit, time)
        }
        _ => Err(String::new()),
    };
    let reason = streams.as_ref().err();
    let reason = reason.map_or("", |reason| cut(reason));
    tell(&mut data_link, FrameKind::Ring, reason.as_bytes());
    let (header, body) = match hear(&mut data_link, time) {
        Err(_) if time.left().is_zero() => {
            leave(&mut data_link, config);
            return Err(Attempt::Final(not_started(config)));
        }
        heard => heard?,
    };
    let start = match header.kind {
        FrameKind::Start => Start::decode(&body),
        FrameKind::Stop => return Err(Attempt::Final(stopped(&body))),
        _ => None,
    };
    let Start { ring, crowded } = start.ok_or_else(|| unexpected(0))?;
    let ring = match streams {
        Ok(streams) if ring => Some(link_ring(streams, identity, config)?),
        _ => None,
    };
    let place = coordinator.ip().to_canonical().to_string();
    let member = (identity.rank, identity.size);
    let member = Member::new(member, place, config.timeout, uptime());
    Ok(Joined {
        links: Links {
            data: vec![data_link],
            ring,
        },
        watcher: Watcher::new(Link::new(Wire::from(watch), 0)),
        member,
        hub: None,
        signals: std::sync::Arc::new(Signals::default()),
        local_ranks,
        crowded,
    })
}

type Reached = (SocketAddr, Channel, Session, Option<TcpListener>);

/// Opens the data link to the first address of the coordinator that answers.
fn reach(
    config: &TcpConfig,
    identity: &mut Identity,
    secret: Option<&Secret>,
    lookup: &mut Lookup,
    time: &mut Countdown,
) -> Result<Reached, Attempt> {
    identity.session = [0; SESSION];
    let addresses = if listen::is_localhost(&config.coordinator) {
        vec![SocketAddr::new(listen::localhost(), config.port)]
    } else {
        lookup.addresses(&config.coordinator, config.port, time)?
    };
    let mut reason = format!("{} has no address", config.coordinator);
    let mut refusal: Option<Status> = None;
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
            // Another job may listen on one of the addresses; the refusal is final if no other address is
            // better. A proved refusal comes from this job.
            Err(DialError::Refused(status)) => {
                if refusal.is_none_or(|known| status.is_proven() && !known.is_proven()) {
                    refusal = Some(status);
                }
            }
        }
    }
    Err(refusal.map_or(Attempt::Again(reason), |status| {
        classify(config, DialError::Refused(status))
    }))
}

/// Listens for the predecessor on the address that leads to rank 0, or on all addresses if that is loopback
/// although the coordinator is not, because others may connect from elsewhere.
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
    let listener = bind(address, config)?;
    listen::make_room(&listener);
    Ok(listener)
}

/// Takes a port that the configuration permits.
fn bind(mut address: SocketAddr, config: &TcpConfig) -> io::Result<TcpListener> {
    let Some(ports) = &config.worker_ports else {
        address.set_port(0);
        return TcpListener::bind(address);
    };
    let (name, low, high) = (variables::WORKER_PORTS, ports.start(), ports.end());
    // Ranks of one machine, which start at the same time, begin at different ports.
    let some = ports.clone().cycle().skip(config.rank % ports.len());
    for port in some.take(ports.len()) {
        address.set_port(port);
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => {
                let message = format!(
                    "{name} is {low}-{high}, and this rank cannot listen on {address}: {error}; give other ports"
                );
                return Err(io::Error::new(error.kind(), message));
            }
            listener => return listener,
        }
    }
    let message =
        format!("{name} is {low}-{high}, and other programs hold all of them; give more ports");
    Err(io::Error::new(ErrorKind::AddrInUse, message))
}

fn dial<'a>(
    address: SocketAddr,
    identity: &'a Identity,
    hello: impl FnMut(SocketAddr) -> io::Result<crate::handshake::Hello> + 'a,
    time: &mut Countdown,
) -> Result<(Channel, Session), DialError> {
    let deadline = time.part(HANDSHAKE);
    let mut dial = Dial::new(address, identity, hello)?;
    loop {
        if let Some(session) = dial.advance()? {
            return Ok((dial.into_channel(), session));
        }
        let left = deadline.saturating_duration_since(time.now());
        let left = left.min(time.left());
        if left.is_zero() {
            return Err(DialError::Failed("no answer in time".to_owned()));
        }
        time.wait(&mut [dial.interest()], left);
    }
}

/// Waits until all ranks have joined. Returns where this rank finds its successor, how many ranks share the
/// processors, and how long building the ring may take, if there is to be one.
pub(super) fn seated(
    data_link: &mut Link,
    coordinator: SocketAddr,
    config: &TcpConfig,
    time: &mut Countdown,
) -> Result<(SocketAddr, usize, Option<Duration>), Attempt> {
    let mut missing: Option<String> = None;
    let seated = loop {
        let (header, body) = match hear(data_link, time) {
            Ok(frame) => frame,
            Err(broken) => {
                let Some(missing) = missing.filter(|_| time.left().is_zero()) else {
                    return Err(broken.into());
                };
                leave(data_link, config);
                return Err(Attempt::Final(incomplete(config, &missing)));
            }
        };
        match header.kind {
            FrameKind::Seat => match Seated::decode(&body, config.size) {
                Some(seated) => break seated,
                None => return Err(unexpected(0).into()),
            },
            FrameKind::Missing => {
                missing = Some(text(&body));
                tell(data_link, FrameKind::Pong, &[]);
            }
            FrameKind::Stop => return Err(Attempt::Final(stopped(&body))),
            _ => return Err(unexpected(0).into()),
        }
    };
    let Seated {
        successor,
        local_ranks,
        ring,
    } = seated;
    let successor = match successor {
        NOWHERE => coordinator,
        address => scoped(address, coordinator),
    };
    // Rank 0 may have more time than this rank.
    let limit = ring.map(|limit| limit.min(ring::limit(time)));
    Ok((successor, local_ranks, limit))
}

/// Sends rank 0 a small frame. If that fails, the link is still read: rank 0 may have sent a reason before it
/// closed the link.
fn tell(data_link: &mut Link, kind: FrameKind, body: &[u8]) {
    let _ = say(data_link, kind, body);
}

/// Notifies rank 0 that the time of this rank is over.
fn leave(data_link: &mut Link, config: &TcpConfig) {
    let timeout = config.connect_timeout;
    let reason = format!("its connect timeout of {timeout:?} was over");
    tell(data_link, FrameKind::Stop, reason.as_bytes());
    crate::socket::hang_up(data_link);
}

fn stopped(body: &[u8]) -> InitError {
    report::start_failed(None);
    let message = format!("rank 0 gave up: {}", text(body));
    InitError::failed(&[variables::CONNECT_TIMEOUT], message)
}

fn incomplete(config: &TcpConfig, missing: &str) -> InitError {
    let TcpConfig {
        coordinator, port, ..
    } = config;
    let name = variables::CONNECT_TIMEOUT;
    let message = format!(
        "rank {} joined rank 0 at {coordinator} port {port}, but not all ranks joined within {:?}: {missing}; \
         start them, or increase {name}",
        config.rank, config.connect_timeout
    );
    InitError::failed(&[name], message)
}

fn not_started(config: &TcpConfig) -> InitError {
    let TcpConfig {
        rank,
        coordinator,
        port,
        ..
    } = config;
    let name = variables::CONNECT_TIMEOUT;
    let message = format!(
        "rank {rank} joined rank 0 at {coordinator} port {port} and all ranks joined, but rank 0 did not start \
         the job; check whether rank 0 is stopped, or increase {name}"
    );
    InitError::failed(&[name], message)
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
        "rank {} could not join rank 0 at {coordinator} port {port} within {:?}: {reason}; check that \
         rank 0 is started and that {} and {} are right, or increase {}",
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
        let message = format!("rank 0 refused rank {rank}: {why}");
        if status.is_proven() {
            return Attempt::Final(InitError::invalid(names, message));
        }
        let timeout = config.connect_timeout;
        let doubt = "this is likely but not proven: any program on that port can send this answer";
        let message = format!("{message} (tried for {timeout:?}; {doubt})");
        Attempt::Doubtful(InitError::invalid(names, message))
    };
    match status {
        Status::WrongProof => invalid(
            &[variables::SECRET, variables::SECRET_FILE],
            format!(
                "the secrets differ; set the same {} or {} on all ranks",
                variables::SECRET,
                variables::SECRET_FILE
            ),
        ),
        Status::OtherSize => invalid(
            &[variables::SIZE],
            format!(
                "its {} is not {size}; set the same value on all ranks",
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
            format!("a job of {size} has no such rank"),
        ),
        Status::OtherVersion => invalid(&[], "it runs another version of this library".to_owned()),
        Status::OtherEncryption => invalid(
            &[variables::ENCRYPT],
            format!(
                "its {} differs; set the same value on all ranks",
                variables::ENCRYPT
            ),
        ),
        // The proxy may be gone at the next attempt.
        Status::Relayed => Attempt::Again(format!(
            "a proxy forwards the bytes between the two ranks; set {}=1 on all ranks to encrypt them, \
             which makes that harmless",
            variables::ENCRYPT
        )),
        Status::OtherLayout => invalid(
            &[],
            "its byte order or pointer width differs; run all ranks on the same kind of machine"
                .to_owned(),
        ),
        Status::OtherSession | Status::NotExpected | Status::Welcome => {
            Attempt::Again(format!("{status:?}"))
        }
    }
}
