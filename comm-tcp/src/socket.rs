//! Sockets: their options, connecting without waiting, and closing.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SocketType, sockopt};

/// The timeout that keepalive goes by where calls may wait longer, or for ever.
const LONGEST_KEEPALIVE: Duration = Duration::from_mins(1);

/// Begins to connect; the socket becomes writable when that has worked or failed.
pub(crate) fn begin_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let stream = TcpStream::from(rustix::net::socket(family, SocketType::STREAM, None)?);
    rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC)?;
    prepare(&stream)?;
    match rustix::net::connect(&stream, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(stream),
        Err(error) => Err(error.into()),
    }
}

/// Returns how connecting went, once the socket is writable.
pub(crate) fn finish_connect(stream: &TcpStream) -> io::Result<()> {
    sockopt::socket_error(stream)??;
    // Connecting to a free port of one's own machine may meet itself.
    if stream.peer_addr()? == stream.local_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok(())
}

/// Sets the options that every socket needs before the first byte.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    #[cfg(target_vendor = "apple")]
    sockopt::set_socket_nosigpipe(stream, true)?;
    Ok(())
}

/// Sets the options that a link of a running job needs.
///
/// Keepalive finds a host that vanished while nothing is sent. Deliberately absent on data and ring
/// links: `TCP_USER_TIMEOUT`, which ends links to living ranks that merely do not read for a while.
pub(crate) fn tune(stream: &impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    let (idle, interval) = keepalive(timeout);
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, interval)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    #[cfg(target_os = "linux")]
    if is_loopback(stream)? {
        // Nothing is lost on loopback, and pacing or probing for bandwidth only costs time there.
        let _ = sockopt::set_tcp_congestion(stream, "reno");
    }
    Ok(())
}

/// Sets the options that a watch link needs.
///
/// Keepalive does not probe while something that was sent is not acknowledged, and the system goes on
/// sending it for a quarter of an hour. A watch link may be ended earlier: its few bytes always find
/// room at the other end, so what is not acknowledged there has not arrived.
pub(crate) fn tune_watch(stream: &TcpStream, timeout: Option<Duration>) -> io::Result<()> {
    tune(stream, timeout)?;
    #[cfg(target_os = "linux")]
    {
        let (idle, interval) = keepalive(timeout);
        let limit = (idle + interval * PROBES).as_millis();
        sockopt::set_tcp_user_timeout(stream, u32::try_from(limit).unwrap_or(u32::MAX))?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_loopback(stream: &impl AsFd) -> io::Result<bool> {
    let peer = rustix::net::getpeername(stream)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    Ok(peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()))
}

/// How many probes of keepalive stay without an answer before the link ends.
const PROBES: u32 = 4;

/// Returns after how much silence keepalive begins to probe, and how often it does.
fn keepalive(timeout: Option<Duration>) -> (Duration, Duration) {
    let limit = timeout.map_or(LONGEST_KEEPALIVE, |limit| limit.min(LONGEST_KEEPALIVE));
    let second = Duration::from_secs(1);
    ((limit / 4).max(second), (limit / 8).max(second))
}

/// Closes the writing side, and reads what is there, so that closing resets nothing on its way.
pub(crate) fn hang_up(fd: &impl AsFd) {
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
    let mut scratch = [0; 4096];
    for _ in 0..256 {
        match rustix::net::recv(fd, &mut scratch, RecvFlags::DONTWAIT) {
            Ok((count, _)) if count > 0 => {}
            _ => break,
        }
    }
}

#[cfg(test)]
mod tests;
