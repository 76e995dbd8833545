//! The thread on rank 0 that owns the watch links and decides the first cause.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::verdict::{Judge, Ruling};
use crate::frame::Header;
use crate::link::{Broken, Link};
use crate::notice::{Cause, Notice};
use crate::socket::{part, poll_for};

/// What the main thread of rank 0 and the hub tell each other without a message.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The first sequence that rank 0 has not answered.
    pub(crate) answered: AtomicU64,
    /// The first call that rank 0 is not through with.
    pub(crate) passed: AtomicU64,
    /// A cause was decided and has been sent to all.
    pub(crate) announced: AtomicBool,
}

/// Owns the watch links.
#[derive(Debug)]
pub(crate) struct Hub {
    ends: Vec<End>,
    judge: Judge,
    signals: Arc<Signals>,
}

/// The end of one watch link; the place in the list is the rank.
#[derive(Debug)]
struct End {
    link: Option<Link>,
    header: Option<Header>,
}

impl Hub {
    /// Takes one watch link per rank, in rank order, with the name of its host for messages.
    pub(crate) fn new(
        links: Vec<(OwnedFd, String)>,
        timeout: Option<Duration>,
        signals: Arc<Signals>,
    ) -> Self {
        let mut names = Vec::new();
        let mut ends = Vec::new();
        for (rank, (fd, name)) in links.into_iter().enumerate() {
            names.push(name);
            ends.push(End {
                link: Some(Link::new(fd, rank)),
                header: None,
            });
        }
        Self {
            ends,
            judge: Judge::new(names, timeout),
            signals,
        }
    }

    /// Starts the thread; it ends when rank 0 leaves.
    pub(crate) fn start(mut self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("comm-tcp watch".to_owned())
            .spawn(move || self.run())
    }

    fn run(&mut self) {
        while self.ends[0].link.is_some() {
            if let Err(error) = self.wait() {
                tracing::error!(%error, "the watch cannot poll its links");
                break;
            }
            let now = Instant::now();
            for rank in 0..self.ends.len() {
                self.read(rank, now);
            }
            let passed = self.signals.passed.load(Ordering::Relaxed);
            if let Some(ruling) = self.judge.due(now, passed) {
                self.announce(ruling);
            }
        }
        for end in &mut self.ends {
            if let Some(link) = end.link.take() {
                part(&link);
            }
        }
    }

    /// Sleeps until something comes or falls due.
    fn wait(&self) -> std::io::Result<()> {
        let links = self.ends.iter().filter_map(|end| end.link.as_ref());
        let interest = |link: &Link| match link.kept() {
            0 => PollFlags::IN,
            _ => PollFlags::IN | PollFlags::OUT,
        };
        let mut fds: Vec<PollFd<'_>> = links.map(|l| PollFd::new(l, interest(l))).collect();
        poll_for(&mut fds, self.judge.next_due(Instant::now()))
    }

    /// Reads all notices of one rank.
    fn read(&mut self, rank: usize, now: Instant) {
        loop {
            let ruling = match self.ends[rank].next() {
                Ok(None) => return,
                Ok(Some(Notice::Ping)) => {
                    self.ends[rank].tell(&Notice::Pong);
                    None
                }
                Ok(Some(notice)) => self.judge.hear(rank, notice, now),
                Err(broken) => {
                    self.ends[rank].link = None;
                    self.judge.lose(rank, &broken.reason)
                }
            };
            if let Some(ruling) = ruling {
                self.announce(ruling);
            }
        }
    }

    fn announce(&mut self, ruling: Ruling) {
        let answered = self.signals.answered.load(Ordering::Acquire);
        let notice = match ruling {
            Ruling::Cause(cause) => {
                let Cause {
                    kind,
                    rank,
                    message,
                } = &cause;
                tracing::error!(%kind, ?rank, %message, "the job has failed");
                Notice::Cause { cause, answered }
            }
            Ruling::Farewell(sequence) => Notice::Goodbye { sequence },
        };
        // Rank 0 last: once it knows, it may end this process.
        for end in self.ends.iter_mut().rev() {
            end.tell(&notice);
        }
        if matches!(notice, Notice::Cause { .. }) {
            self.signals.announced.store(true, Ordering::Release);
        }
    }
}

impl End {
    /// Sends; if the link is broken, that shows when it is read.
    fn tell(&mut self, notice: &Notice) {
        if let Some(link) = &mut self.link {
            link.keep(&notice.encode());
            let _ = link.write(&[]);
        }
    }

    fn next(&mut self) -> Result<Option<Notice>, Broken> {
        let Some(link) = &mut self.link else {
            return Ok(None);
        };
        if link.kept() > 0 {
            link.write(&[])?;
        }
        let header = match self.header.take() {
            Some(header) => header,
            None => match link.header()? {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        let Some(body) = link.take(length)? else {
            self.header = Some(header);
            return Ok(None);
        };
        Notice::decode(&header, &body).map(Some).ok_or(Broken {
            peer: link.peer(),
            reason: "it sent what does not belong on a watch link".to_owned(),
        })
    }
}
