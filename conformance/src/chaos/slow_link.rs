//! A slow link: forwards bytes to the port of rank 0 and back at a limited rate.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::board::Board;
use crate::subject::{PORT, SLOW_PORT};

/// How many bytes are in flight at most, so that a sender, too, notices that the link is slow.
const WINDOW: usize = 32 << 10;

/// How many bytes are forwarded at once.
const PORTION: usize = 8 << 10;

/// How often a link checks whether the job is over.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until rank 0 of the job `name` listens, then forwards `rate` bytes a second in each direction of
/// every link, until the job is over. A backend without a port has no link to slow down.
pub(super) fn serve(board: &Board, name: &str, rate: usize, over: &AtomicBool) {
    let is_over = || over.load(Ordering::Acquire);
    let port = loop {
        match board.read(&format!("seat-{name}-{PORT}")) {
            Some(port) => break port.parse().unwrap_or(0),
            None if is_over() => return,
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    let open = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        sockopt::set_socket_recv_buffer_size(&listener, WINDOW)?;
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?.port();
        board.post(&format!("seat-{name}-{SLOW_PORT}"), &own.to_string())?;
        Ok::<TcpListener, io::Error>(listener)
    };
    // Without it the ranks wait in vain for its port, and report that.
    let Ok(listener) = open() else {
        return;
    };
    thread::scope(|scope| {
        while !is_over() {
            let Ok((near, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
                // The port is closed: the connecting rank gets to see that.
                continue;
            };
            let Ok((near_too, far_too)) = prepare(&near, &far) else {
                continue;
            };
            scope.spawn(move || pass_on(near, far, rate, over));
            scope.spawn(move || pass_on(far_too, near_too, rate, over));
        }
    });
}

fn prepare(near: &TcpStream, far: &TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    for stream in [near, far] {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(LOOK))?;
        sockopt::set_socket_recv_buffer_size(stream, WINDOW)?;
        sockopt::set_socket_send_buffer_size(stream, WINDOW)?;
    }
    Ok((near.try_clone()?, far.try_clone()?))
}

/// Forwards one direction until it ends, and then ends it on the other side, too.
fn pass_on(mut from: TcpStream, mut to: TcpStream, rate: usize, over: &AtomicBool) {
    let mut bytes = vec![0; PORTION];
    let start = Instant::now();
    let mut due = Duration::ZERO;
    while !over.load(Ordering::Acquire) {
        let count = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if is_pause(&error) => continue,
            Err(_) => break,
        };
        // An idle link has not saved up bytes.
        due = due.max(start.elapsed());
        due += Duration::from_secs(1) * u32::try_from(count).unwrap_or(1)
            / u32::try_from(rate).unwrap_or(1);
        thread::sleep(due.saturating_sub(start.elapsed()));
        if !send(&mut to, &bytes[..count], over) {
            break;
        }
    }
    // A side that has closed its end already needs no notice.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// Sends all bytes to a peer that may never read them. Returns whether all were sent: the peer may have
/// closed its end, or the job may be over.
fn send(to: &mut TcpStream, mut bytes: &[u8], over: &AtomicBool) -> bool {
    while !bytes.is_empty() && !over.load(Ordering::Acquire) {
        match to.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_pause(&error) => {}
            Err(_) => return false,
        }
    }
    bytes.is_empty()
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Ends the slow link even if the test fails, because the test waits for it.
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Calls `test` with both ends of a slow link of 1 MiB/s.
    fn linked(test: impl FnOnce(TcpStream, TcpStream)) {
        comm_testing::watchdog();
        let dir = tempfile::tempdir().unwrap();
        let board = Board::new(dir.path().to_owned());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        board.post("seat-x-port", &port.to_string()).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _over = Over(&over);
            scope.spawn(|| serve(&board, "x", 1 << 20, &over));
            let slow = board.wait("seat-x-slow-port", Duration::from_secs(5));
            let slow: u16 = slow.unwrap().parse().unwrap();
            let near = TcpStream::connect((Ipv4Addr::LOCALHOST, slow)).unwrap();
            let (far, _) = listener.accept().unwrap();
            for stream in [&near, &far] {
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                stream.set_write_timeout(Some(LIMIT)).unwrap();
            }
            test(near, far);
        });
    }

    #[test]
    fn bytes_come_at_the_rate_both_ways_and_so_does_the_end() {
        linked(|mut near, mut far| {
            let start = Instant::now();
            near.write_all(&vec![7; 200 << 10]).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
            let mut all = Vec::new();
            far.read_to_end(&mut all).unwrap();
            assert_eq!(all, vec![7; 200 << 10]);
            assert!(start.elapsed() > Duration::from_millis(150));
            far.write_all(&[8; 10]).unwrap();
            drop(far);
            all.clear();
            near.read_to_end(&mut all).unwrap();
            assert_eq!(all, [8; 10]);
        });
    }

    /// A stopped rank reads nothing and closes nothing.
    #[test]
    fn the_end_of_a_job_is_seen_while_nobody_reads() {
        let began = Instant::now();
        let mut kept = None;
        linked(|mut near, far| {
            near.set_write_timeout(Some(LOOK * 5)).unwrap();
            // More than all buffers on the way can hold.
            let error = near.write_all(&vec![7; 64 << 20]).unwrap_err();
            assert!(is_pause(&error), "{error}");
            kept = Some((near, far));
        });
        assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    }
}
