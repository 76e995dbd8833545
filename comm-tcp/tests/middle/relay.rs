//! A relay between the ranks: forwards their bytes to rank 0 and back, and changes some of them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The lengths of the messages of a handshake.
const CHALLENGE: usize = 44;
const HELLO: usize = 184;
const REPLY: usize = 52;

/// Links, as named in a hello.
pub(crate) const DATA: u8 = 1;
pub(crate) const WATCH: u8 = 2;
pub(crate) const RING: u8 = 3;

/// What happens to the records of one direction of one kind of link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Flips one bit, at this offset in bytes.
    Flip(usize),
    /// Sends a record twice.
    Repeat,
    /// Holds a record back, and continues with the next.
    LeaveOut,
    /// Sends the second before the first.
    Swap,
    /// Replaces a record by one of the other direction of the link.
    Reflect,
    /// Replaces a record by one of the same direction of another link.
    Splice,
}

/// The target and the kind of tampering; it begins when `armed`.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) link: u8,
    /// From a worker to rank 0, or back.
    pub(crate) upward: bool,
    pub(crate) deed: Deed,
    pub(crate) armed: AtomicBool,
    /// How many authenticated connections passed through this relay.
    pub(crate) passed: AtomicUsize,
    /// The last record of each direction, by kind of link and whether it went upward.
    seen: Mutex<HashMap<(u8, bool), Vec<u8>>>,
}

impl Plan {
    pub(crate) fn new(link: u8, upward: bool, deed: Deed) -> Arc<Self> {
        Arc::new(Self {
            link,
            upward,
            deed,
            armed: AtomicBool::new(false),
            passed: AtomicUsize::new(0),
            seen: Mutex::default(),
        })
    }

    fn note(&self, key: (u8, bool), record: &[u8]) {
        self.seen.lock().unwrap().insert(key, record.to_vec());
    }

    fn find(&self, wanted: impl Fn(&(u8, bool)) -> bool) -> Option<Vec<u8>> {
        let seen = self.seen.lock().unwrap();
        let found = seen.iter().find(|&(key, _)| wanted(key));
        found.map(|(_, record)| record.clone())
    }
}

/// Forwards all connections to `listener`, for the whole life of this process.
pub(crate) fn relay(listener: TcpListener, to: u16, plan: &Arc<Plan>) {
    let plan = Arc::clone(plan);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else {
                continue;
            };
            pass_on(client, server, &plan);
        }
    });
}

/// Forwards one connection.
pub(crate) fn pass_on(mut client: TcpStream, mut server: TcpStream, plan: &Arc<Plan>) {
    let plan = Arc::clone(plan);
    std::thread::spawn(move || {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let _ = shake_hands(&mut client, &mut server, &plan);
    });
}

fn shake_hands(client: &mut TcpStream, server: &mut TcpStream, plan: &Arc<Plan>) -> Option<()> {
    copy::<CHALLENGE>(server, client)?;
    let hello = copy::<HELLO>(client, server)?;
    let reply = copy::<REPLY>(server, client)?;
    if reply[0] != 0 {
        return None;
    }
    plan.passed.fetch_add(1, Ordering::AcqRel);
    for upward in [true, false] {
        let (from, to) = if upward {
            (&*client, &*server)
        } else {
            (&*server, &*client)
        };
        let (mut from, mut to) = (from.try_clone().ok()?, to.try_clone().ok()?);
        let (plan, key) = (Arc::clone(plan), (hello[10], upward));
        std::thread::spawn(move || {
            let mut meddler = Meddler::new(plan, key);
            let mut bytes = vec![0; 256 << 10];
            loop {
                let count = from.read(&mut bytes).unwrap_or(0);
                if count == 0 {
                    break;
                }
                if to.write_all(&meddler.change(&bytes[..count])).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Some(())
}

fn copy<const N: usize>(from: &mut TcpStream, to: &mut TcpStream) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).ok()?;
    to.write_all(&bytes).ok()?;
    Some(bytes)
}

/// Changes one direction of one link.
struct Meddler {
    plan: Arc<Plan>,
    key: (u8, bool),
    /// The received part of an incomplete record.
    rest: Vec<u8>,
    held: Option<Vec<u8>>,
    done: bool,
}

impl Meddler {
    fn new(plan: Arc<Plan>, key: (u8, bool)) -> Self {
        let (rest, held) = (Vec::new(), None);
        Self {
            plan,
            key,
            rest,
            held,
            done: false,
        }
    }

    fn change(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mine = self.key == (self.plan.link, self.plan.upward);
        let active = mine && !self.done && self.plan.armed.load(Ordering::Acquire);
        if let (Deed::Flip(at), true) = (self.plan.deed, active) {
            self.done = true;
            let mut bytes = bytes.to_vec();
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 0x10;
            return bytes;
        }
        if matches!(self.plan.deed, Deed::Flip(_)) {
            return bytes.to_vec();
        }
        self.rest.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(record) = self.record() {
            self.plan.note(self.key, &record);
            if !(mine && self.plan.armed.load(Ordering::Acquire)) || self.done {
                out.extend(record);
            } else {
                self.meddle(record, &mut out);
            }
        }
        out
    }

    /// Takes the next record, once all of it has arrived.
    fn record(&mut self) -> Option<Vec<u8>> {
        let [high, low, ..] = *self.rest.first_chunk::<4>()?;
        let length = 4 + usize::from(u16::from_be_bytes([high, low])) + 1 + 16;
        let whole = self.rest.len() >= length;
        whole.then(|| self.rest.drain(..length).collect())
    }

    fn meddle(&mut self, record: Vec<u8>, out: &mut Vec<u8>) {
        let (link, upward) = self.key;
        match self.plan.deed {
            Deed::Flip(_) => unreachable!("flipped where the bytes pass"),
            Deed::Repeat => {
                out.extend_from_slice(&record);
                out.extend(record);
                self.done = true;
            }
            Deed::LeaveOut => self.done = true,
            Deed::Swap => match self.held.take() {
                None => self.held = Some(record),
                Some(first) => {
                    out.extend(record);
                    out.extend(first);
                    self.done = true;
                }
            },
            Deed::Reflect => {
                let other = self.plan.find(|&key| key == (link, !upward));
                self.done = other.is_some();
                out.extend(other.unwrap_or(record));
            }
            Deed::Splice => {
                let other = self.plan.find(|&key| key.0 != link && key.1 == upward);
                self.done = other.is_some();
                out.extend(other.unwrap_or(record));
            }
        }
    }
}
