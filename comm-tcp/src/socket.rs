//! Sockets: their options, connecting without waiting, and closing.

mod silence;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SocketType, sockopt};

pub(crate) use silence::silence;

/// How long the ends of a link bear that nothing comes from the other host: its system answers, whatever its process does.
///
/// All times are shares of one span, the timeout within bounds:
///
/// | silence | it |
/// |---|---|
/// | 1/8, then each 1/16 | lets the system ask |
/// | 6/8 | decides, at the judge's end of a watch link, which can still carry what was decided |
/// | 9/8 | ends a watch link at its worker's end: the word of a judge that decided has come by then |
/// | 10/8 | ends an idle data or ring link |
/// | 13/8 | ends a watch link for the system |
///
/// A host that is away for less than 6/8 so leaves all ranks with one outcome: either the judge decides, and its word
/// comes to that host as well before a rank there gives up by itself, or nobody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    span: Duration,
}

/// The longest span, also where calls may wait longer, or have no timeout: 9/8 of it are a minute.
const LONGEST_SPAN: Duration = Duration::from_secs(53);

/// The shortest span: keepalive counts whole seconds, and several of its probes must be lost in a row.
const SHORTEST_SPAN: Duration = Duration::from_secs(7);

impl Patience {
    pub(crate) fn of(timeout: Option<Duration>) -> Self {
        let span = timeout.map_or(LONGEST_SPAN, |it| it.clamp(SHORTEST_SPAN, LONGEST_SPAN));
        Self { span }
    }

    /// Returns after how much silence the judge decides.
    pub(crate) fn of_the_judge(self) -> Duration {
        self.span * 6 / 8
    }

    /// Returns after how much silence a worker gives up on rank 0.
    pub(crate) fn of_a_worker(self) -> Duration {
        self.span * 9 / 8
    }

    /// Returns how long rank 0 keeps its links for a rank that cannot be reached and has not confirmed the cause: until
    /// that rank gives up by itself.
    pub(crate) fn of_last_words(self) -> Duration {
        self.span * 3 / 8
    }

    /// Returns how often the judge looks at all links.
    pub(crate) fn pace(self) -> Duration {
        self.span / 16
    }

    /// Returns whether a link has been silent for longer than one on which nothing happens: questions were not answered.
    pub(crate) fn is_quiet(self, silence: Duration) -> bool {
        let (idle, interval) = self.keepalive();
        silence > idle + interval * 2
    }

    /// Returns after how much silence keepalive begins to ask, and how often it does: whole seconds.
    fn keepalive(self) -> (Duration, Duration) {
        let whole = |time: Duration| {
            Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
        };
        (whole(self.span / 8), whole(self.span / 16))
    }

    /// Returns how many questions stay without an answer before the system ends a link after this much silence.
    fn probes(self, silence: Duration) -> u32 {
        let (idle, interval) = self.keepalive();
        let asking = silence.saturating_sub(idle);
        u32::try_from(asking.as_millis().div_ceil(interval.as_millis())).unwrap_or(u32::MAX)
    }
}

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
    let patience = Patience::of(timeout);
    ask(stream, patience, patience.span * 10 / 8)?;
    #[cfg(target_os = "linux")]
    if is_loopback(stream)? {
        // Nothing is lost on loopback, and pacing or probing for bandwidth only costs time there.
        let _ = sockopt::set_tcp_congestion(stream, "reno");
    }
    Ok(())
}

/// Lets the system ask whether the other end is there while nothing is sent, and end the link after this much silence.
fn ask(stream: &impl AsFd, patience: Patience, silence: Duration) -> io::Result<()> {
    let (idle, interval) = patience.keepalive();
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, interval)?;
    sockopt::set_tcp_keepcnt(stream, patience.probes(silence))?;
    Ok(())
}

/// Sets the options that a watch link needs, at the end of rank 0 or of a worker.
///
/// Where the system tells for how long a link has been silent, the rank itself ends it, and the system long after that: what
/// the judge decides must still reach a host that comes back. Elsewhere keepalive ends it when the rank would.
///
/// Keepalive does not probe while something that was sent is not acknowledged, and the system goes on
/// sending it for a quarter of an hour. A watch link may be ended earlier: its few bytes always find
/// room at the other end, so what is not acknowledged there has not arrived.
pub(crate) fn tune_watch(
    stream: &TcpStream,
    timeout: Option<Duration>,
    is_judge: bool,
) -> io::Result<()> {
    tune(stream, timeout)?;
    let patience = Patience::of(timeout);
    let limit = match (silence::IS_KNOWN, is_judge) {
        (true, _) => patience.span * 13 / 8,
        (false, true) => patience.of_the_judge(),
        (false, false) => patience.of_a_worker(),
    };
    ask(stream, patience, limit)?;
    #[cfg(target_os = "linux")]
    {
        let limit = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, limit)?;
        // What was lost while the other host was away is sent again soon after it is back.
        let _ = sockopt::set_tcp_thin_linear_timeouts(stream, true);
    }
    Ok(())
}

/// Returns whether a socket leads to another machine, for all that its address says.
pub(crate) fn leaves_machine(socket: &impl AsFd) -> bool {
    let peer = rustix::net::getpeername(socket).ok().flatten();
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    peer.is_some_and(|peer| !peer.ip().to_canonical().is_loopback())
}

#[cfg(target_os = "linux")]
fn is_loopback(stream: &impl AsFd) -> io::Result<bool> {
    let peer = rustix::net::getpeername(stream)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    Ok(peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()))
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
