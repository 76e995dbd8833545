//! The part of rank 0.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use comm_kit::processors::usable;
use comm_kit::{report, words};
use rustix::event::{PollFd, PollFlags};

use super::accept::Acceptor;
use super::messages::{Seated, Start};
use super::ring::{self, RingStreams};
use super::seats::{Seat, Seats};
use super::{Countdown, Identity, Joined, say, silent_until_the_end, unexpected};
use crate::config::TcpConfig;
use crate::descriptors;
use crate::engine::{Links, Ring, uptime};
use crate::error::InitError;
use crate::frame::FrameKind;
use crate::link::{Broken, Channel, Link, TURN, Wire};
use crate::member::Member;
use crate::notice::{cut, text};
use crate::socket::{Patience, tune, tune_watch};
use crate::variables;
use crate::watch::{Hub, Signals, Watcher};

/// Waits for all workers and starts the job.
pub(crate) fn coordinate(
    config: &TcpConfig,
    listener: TcpListener,
    identity: &Identity,
    time: &mut Countdown,
) -> Result<Joined, InitError> {
    let mut acceptor = Acceptor::new(listener, identity.size).map_err(|e| internal(&e))?;
    let mut seats = Seats::new(identity);
    seat_all(config, identity, &mut acceptor, &mut seats, time)?;

    let wanted = identity.size > 2 && config.ring;
    let limit = ring::limit(time);
    let seated = |rank| Seated {
        successor: seats.successor(rank),
        local_ranks: seats.neighbours(rank),
        ring: wanted.then_some(limit),
    };
    let bodies: Vec<Vec<u8>> = (1..identity.size)
        .map(|rank| seated(rank).encode())
        .collect();
    let (successor, local_ranks) = (seats.successor(0), seats.neighbours(0));
    let (mut data, watch, places) = split(seats.into_seats(), config)?;
    let stop = |data: &mut [Link], error: InitError| {
        for link in data {
            let _ = say(link, FrameKind::Stop, cut(&error.message).as_bytes());
            crate::socket::hang_up(link);
        }
        Err(error)
    };
    for (link, body) in data.iter_mut().zip(&bodies) {
        if let Err(broken) = say(link, FrameKind::Seat, body) {
            let error = gone(broken.peer, &places, &broken.reason);
            return stop(&mut data, error);
        }
    }
    let mut streams = if wanted {
        ring::build(identity, &mut acceptor, successor, &data, limit, time)
    } else {
        Err(String::new())
    };
    // Strangers no longer hold a descriptor that the watch may need.
    drop(acceptor);
    match hear_all(&mut data, time) {
        Ok(reasons) => {
            let reason = reasons.into_iter().find(|reason| !reason.is_empty());
            if let (Some(reason), true) = (reason, streams.is_ok()) {
                streams = Err(reason);
            }
        }
        Err(broken) => {
            let error = gone(broken.peer, &places, &broken.reason);
            return stop(&mut data, error);
        }
    }
    if let Err(reason) = &streams
        && !reason.is_empty()
    {
        tracing::warn!(%reason, "there is no ring: bulk goes through rank 0, which is slower");
        report::no_ring();
    }
    let crowded = local_ranks > usable();
    let ring = streams.is_ok();
    let body = Start { ring, crowded }.encode();
    for place in 0..data.len() {
        if let Err(broken) = say(&mut data[place], FrameKind::Start, &body) {
            let error = gone(place + 1, &places, &broken.reason);
            return stop(&mut data, error);
        }
    }
    let ring = streams
        .ok()
        .map(|streams| link_ring(streams, identity, config));
    let ring = ring.transpose().map_err(|error| internal(&error))?;
    let links = Links { data, ring };
    watched(links, watch, places, (local_ranks, crowded), config).map_err(|error| internal(&error))
}

/// Accepts links until every seat is taken.
pub(super) fn seat_all(
    config: &TcpConfig,
    identity: &Identity,
    acceptor: &mut Acceptor,
    seats: &mut Seats<'_>,
    time: &mut Countdown,
) -> Result<(), InitError> {
    loop {
        let now = time.now();
        acceptor.advance(identity, seats, now);
        seats.expire(now);
        if seats.are_taken() {
            // A worker that left while the last one joined has lost its seat.
            (1..identity.size).for_each(|rank| seats.recheck(rank - 1, now));
        }
        if seats.are_taken() {
            return Ok(());
        }
        let left = time.left();
        if left.is_zero() {
            let error = time.explain(0, absent(config, seats, acceptor));
            seats.stop(&error.message);
            return Err(error);
        }
        seats.tell(now);
        let mut limit = left;
        for due in [acceptor.next_due(), seats.next_due()]
            .into_iter()
            .flatten()
        {
            limit = limit.min(due.saturating_duration_since(now) + Duration::from_millis(1));
        }
        let places: Vec<usize> = seats.links().map(|(place, _)| place).collect();
        let mut fds: Vec<PollFd<'_>> = seats
            .links()
            .map(|(_, link)| PollFd::new(link, PollFlags::IN))
            .collect();
        acceptor.interest(&mut fds);
        time.wait(&mut fds, limit);
        let stirred = |place: &usize| fds[*place].revents() != PollFlags::empty();
        let stirred: Vec<usize> = (0..places.len()).filter(stirred).collect();
        drop(fds);
        let now = time.now();
        for place in stirred {
            seats.recheck(places[place], now);
        }
    }
}

/// Waits for the report of every worker, which knows by then that all ranks are there: why there is no ring,
/// if there is none. The first worker that leaves instead is the error, whichever others are still awaited.
pub(super) fn hear_all(data: &mut [Link], time: &mut Countdown) -> Result<Vec<String>, Broken> {
    let mut reasons: Vec<Option<String>> = vec![None; data.len()];
    loop {
        for (link, reason) in data.iter_mut().zip(&mut reasons) {
            // The seat may not have fitted behind unread data. A broken link shows when it is read.
            let _ = link.write(&[]);
            // A worker may still leave after its report.
            *reason = hear_of_ring(link)?.or(reason.take());
        }
        let silent = reasons.iter().position(Option::is_none);
        let Some(silent) = silent else {
            return Ok(reasons.into_iter().flatten().collect());
        };
        let left = time.left();
        if left.is_zero() {
            return Err(silent_until_the_end(data[silent].peer()));
        }
        let fds = data
            .iter()
            .filter_map(|link| link.interest(true, link.kept() > 0));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        time.wait(&mut fds, left);
    }
}

/// Reads the report of a worker about the ring, if it has arrived. The worker may have given up before it
/// knew that all ranks are there.
fn hear_of_ring(link: &mut Link) -> Result<Option<String>, Broken> {
    for _ in 0..TURN {
        let Some((header, body)) = link.frame()? else {
            break;
        };
        match header.kind {
            FrameKind::Pong => {}
            FrameKind::Ring => return Ok(Some(text(&body))),
            FrameKind::Stop => {
                return Err(Broken {
                    peer: link.peer(),
                    reason: text(&body),
                });
            }
            _ => return Err(unexpected(link.peer())),
        }
    }
    Ok(None)
}

type Split = (Vec<Link>, Vec<Channel>, Vec<String>);

/// Turns the streams into links, and lists the machines of the ranks, for messages.
fn split(seats: Vec<Seat>, config: &TcpConfig) -> Result<Split, InitError> {
    let mut data = Vec::new();
    let mut watch = Vec::new();
    let mut places = Vec::new();
    for (place, seat) in seats.into_iter().enumerate() {
        let rank = place + 1;
        let (Some(its), Some(stream)) = (seat.data, seat.watch) else {
            return Err(InitError::failed(&[], format!("rank {rank} is not there")));
        };
        if places.is_empty() {
            // Where the first worker found rank 0.
            places.push(its.local.ip().to_canonical().to_string());
        }
        tune(&its.link, config.timeout)
            .and_then(|()| tune_watch(&stream, config.timeout, true))
            .map_err(|error| internal(&error))?;
        places.push(its.address.ip().to_canonical().to_string());
        data.push(its.link);
        watch.push(stream);
    }
    Ok((data, watch, places))
}

pub(super) fn link_ring(
    streams: RingStreams,
    identity: &Identity,
    config: &TcpConfig,
) -> std::io::Result<Ring> {
    let Identity { rank, size, .. } = *identity;
    tune(&streams.next, config.timeout)?;
    tune(&streams.prev, config.timeout)?;
    Ok(Ring {
        next: Link::new(Wire::from(streams.next), (rank + 1) % size),
        prev: Link::new(Wire::from(streams.prev), (rank + size - 1) % size),
    })
}

/// Starts the watch.
fn watched(
    links: Links,
    watch: Vec<Channel>,
    places: Vec<String>,
    (local_ranks, crowded): (usize, bool),
    config: &TcpConfig,
) -> std::io::Result<Joined> {
    let (mine, its) = UnixStream::pair()?;
    mine.set_nonblocking(true)?;
    its.set_nonblocking(true)?;
    let ends = [Wire::from(its)].into_iter();
    let ends = ends.chain(watch.into_iter().map(Wire::from));
    let signals = Arc::new(Signals::default());
    let place = places.first().cloned().unwrap_or_default();
    let patience = Patience::of(config.timeout);
    let hub = Hub::new(ends.zip(places).collect(), Arc::clone(&signals), patience);
    Ok(Joined {
        links,
        watcher: Watcher::new(Link::new(mine.into(), 0)),
        member: Member::new((0, config.size), place, config.timeout, uptime()),
        hub: Some(hub.start()?),
        signals,
        local_ranks,
        crowded,
    })
}

fn internal(error: &std::io::Error) -> InitError {
    InitError::failed(&[], format!("rank 0 cannot set up its links: {error}"))
}

fn gone(rank: usize, places: &[String], reason: &str) -> InitError {
    report::start_failed(Some(rank));
    let place = |rank: usize| places.get(rank).map(String::as_str);
    let rank = words::ranks_at(&[rank], place);
    let message = format!("{rank} was lost while the job started: {reason}; restart the job");
    InitError::failed(&[], message)
}

fn absent(config: &TcpConfig, seats: &Seats<'_>, acceptor: &Acceptor) -> InitError {
    let (missing, left) = seats.missing();
    let timeout = config.connect_timeout;
    let mut message = format!(
        "{} of {} ranks did not join within {timeout:?}: {}",
        missing.len(),
        config.size,
        words::ranks(&missing)
    );
    if missing.is_empty() {
        let (count, size) = (left.len(), config.size);
        message = format!("{count} of {size} ranks did not stay connected within {timeout:?}");
    }
    if !left.is_empty() {
        message = format!("{message}; {}", seats.left(&left));
    }
    if let Some(refused) = acceptor.refused() {
        message = format!("{message}; rank 0 refused {refused}");
    }
    let advice = match acceptor.trouble() {
        Some(trouble) => format!(
            "rank 0 could not accept connections ({trouble}): it needs {} descriptors beside those of its program, see \
             `ulimit -n`",
            descriptors::needed(config)
        ),
        None => format!("start them, or increase {}", variables::CONNECT_TIMEOUT),
    };
    InitError::failed(
        &[variables::CONNECT_TIMEOUT],
        format!("{message}; {advice}"),
    )
}
