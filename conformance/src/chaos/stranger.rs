//! Strangers: they connect to every port that the ranks listen on, and send nothing, or nonsense.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::noise::Noise;

/// How often to look for new ports while ranks may still begin to listen.
const LOOKS: usize = 30;

/// Connects `count` times to each of the `ports`, which may become more. Connections that stay open stay
/// until the returned value is dropped.
pub(super) fn knock(
    ports: impl Fn() -> Vec<u16>,
    count: usize,
    seed: u64,
    over: &AtomicBool,
) -> Vec<TcpStream> {
    let mut noise = Noise::new(seed, &[0x5e1f]);
    let mut staying = Vec::new();
    let mut known = Vec::new();
    for _ in 0..LOOKS {
        if over.load(Ordering::Acquire) {
            break;
        }
        for port in ports() {
            if !known.contains(&port) {
                known.push(port);
                for _ in 0..count {
                    staying.extend(visit(port, &mut noise));
                }
            }
        }
        thread::sleep(Duration::from_millis(3));
    }
    staying
}

/// Connects to each port that one of `pids` listens on, thousands of times a second, until `time` has passed;
/// some hundreds of connections stay open.
pub(super) fn storm(pids: &[u32], time: Duration, seed: u64, over: &AtomicBool) {
    let start = Instant::now();
    let is_over = || over.load(Ordering::Acquire) || start.elapsed() > time;
    let ports = Mutex::new(Vec::new());
    let visit_all = |thread: usize| {
        let mut noise = Noise::new(seed, &[0x5708, thread]);
        let mut staying = VecDeque::new();
        while !is_over() {
            let known = ports.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for port in known {
                staying.extend(visit(port, &mut noise));
            }
            while staying.len() > STAYING {
                staying.pop_front();
            }
            thread::sleep(Duration::from_millis(1));
        }
    };
    thread::scope(|scope| {
        for thread in 0..VISITORS {
            scope.spawn(move || visit_all(thread));
        }
        while !is_over() {
            *ports.lock().unwrap_or_else(PoisonError::into_inner) = listening(pids);
            thread::sleep(Duration::from_millis(5));
        }
    });
}

/// How many threads connect in a storm, each up to a thousand times a second.
const VISITORS: usize = 4;

/// How many connections of each thread stay open: together more than the handshakes that a small job has in
/// progress.
const STAYING: usize = 60;

/// Connects once: leaves at once, stays silent, or sends nonsense and stays.
fn visit(port: u16, noise: &mut Noise) -> Option<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // A port that is closed by now refuses the connection.
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok()?;
    stream
        .set_write_timeout(Some(Duration::from_millis(50)))
        .ok()?;
    let bytes: Vec<u8> = match noise.below(4) {
        0 => return None,
        1 => Vec::new(),
        2 => b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(),
        _ => (0..noise.below(5000))
            .map(|_| noise.next().to_le_bytes()[0])
            .collect(),
    };
    // The rank may close the connection at any time.
    let _ = stream.write_all(&bytes);
    (noise.below(3) > 0).then_some(stream)
}

/// Lists the loopback and wildcard ports that one of `pids` listens on, where the system reports them.
pub(super) fn listening(pids: &[u32]) -> Vec<u16> {
    let sockets: Vec<String> = pids
        .iter()
        .flat_map(|pid| {
            fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten()
        })
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let ours = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let listens = *state == "0A" && sockets.iter().any(|socket| socket == inode);
        let port = u16::from_str_radix(local.split_once(':')?.1, 16).ok()?;
        listens.then_some(port)
    });
    ours.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_port_of_this_process_is_found() -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        assert!(listening(&[std::process::id()]).contains(&port));
        drop(listener);
        assert!(!listening(&[std::process::id()]).contains(&port));
        Ok(())
    }

    #[test]
    fn strangers_come_to_a_port_and_some_stay() -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        // Not to the ports of other tests in this process.
        let staying = knock(|| vec![port], 20, 1, &AtomicBool::new(false));
        listener.set_nonblocking(true)?;
        let came = std::iter::from_fn(|| listener.accept().ok()).count();
        assert_eq!(came, 20);
        assert!(!staying.is_empty(), "nobody stayed");
        Ok(())
    }
}
