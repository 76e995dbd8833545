//! Ports for backends whose ranks meet at one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

/// Ports that the system never assigns by itself, so that no connection of another process holds one when its
/// name is used again. Linux begins to assign at 32768, other systems at 49152.
const QUIET: std::ops::Range<u16> = 12_000..32_000;

/// How many ports are tried for a new name.
const TRIES: u32 = 100;

/// The ports of the names that this process has used. For other names, the name itself determines where to
/// look first, so that a job that starts again finds the same port.
static PORTS: Mutex<BTreeMap<String, u16>> = Mutex::new(BTreeMap::new());

/// Listens on loopback: on a free port for a new name, on the same port for a name used before.
///
/// # Errors
///
/// If the port of the name is taken, or no port for a new name is free.
pub(crate) fn listen(name: &str) -> io::Result<TcpListener> {
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&port) = ports.get(name) {
        return TcpListener::bind(("127.0.0.1", port));
    }
    let mut last = io::Error::other("no port was tried");
    for attempt in 0..TRIES {
        let span = u64::from(QUIET.end - QUIET.start);
        let mut hasher = DefaultHasher::new();
        (name, attempt).hash(&mut hasher);
        let offset = u16::try_from(hasher.finish() % span).unwrap_or(0);
        match TcpListener::bind(("127.0.0.1", QUIET.start + offset)) {
            Ok(listener) => {
                ports.insert(name.to_owned(), QUIET.start + offset);
                return Ok(listener);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_port() -> io::Result<()> {
        let first = listen("a name")?.local_addr()?;
        let other = listen("another name")?.local_addr()?;
        let again = listen("a name")?.local_addr()?;
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert!(QUIET.contains(&first.port()));
        Ok(())
    }

    #[test]
    fn a_port_that_is_still_taken_is_an_error() -> io::Result<()> {
        let _held = listen("held")?;
        assert!(listen("held").is_err());
        Ok(())
    }
}
