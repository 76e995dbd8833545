//! Appointing the deputy, once the job starts.

use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use comm_kit::words;

use super::ring::DeputyStreams;
use crate::config::TcpConfig;
use crate::link::{Channel, Link, Wire};
use crate::socket::tune_watch;
use crate::watch::{DEPUTY, Deputy};

/// Makes the link of this rank to the deputy.
pub(super) fn link(stream: Option<Channel>, config: &TcpConfig) -> io::Result<Option<Link>> {
    let Some(stream) = stream else {
        return Ok(None);
    };
    tune_watch(&stream, config.timeout)?;
    Ok(Some(Link::new(Wire::from(stream), DEPUTY)))
}

/// Starts the deputy if this is its rank and rank 0 has come to it; returns the link of this rank to the
/// deputy, and its thread. `here` is where this rank runs.
pub(super) fn appoint(
    streams: DeputyStreams,
    config: &TcpConfig,
    here: IpAddr,
) -> io::Result<(Option<Link>, Option<JoinHandle<()>>)> {
    let DeputyStreams { mine, others } = streams;
    if others.is_empty() {
        return Ok((link(mine, config)?, None));
    }
    let absent = |rank: &usize| *rank != DEPUTY && others[*rank].is_none();
    let missing: Vec<usize> = (0..others.len()).filter(absent).collect();
    if !missing.is_empty() {
        let missing = words::ranks(&missing);
        tracing::warn!(%missing, "not all ranks reach rank 1: while rank 0 is stopped these hear of no other failure");
    }
    if others[0].is_none() {
        return Ok((None, None));
    }
    let (mine, its) = UnixStream::pair()?;
    mine.set_nonblocking(true)?;
    its.set_nonblocking(true)?;
    let mut ends = Vec::new();
    for other in others {
        ends.push(match other {
            Some((stream, ip)) => {
                tune_watch(&stream, config.timeout)?;
                (Some(Wire::from(stream)), ip.to_string())
            }
            None => (None, "at an unknown address".to_owned()),
        });
    }
    ends[DEPUTY] = (Some(Wire::from(its)), here.to_string());
    let deputy = Deputy::new(ends).start()?;
    let link = Link::new(Wire::from(mine), DEPUTY);
    Ok((Some(link), Some(deputy)))
}
