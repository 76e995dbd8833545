//! One rank's end of its watch link: reads it for the [`Member`], and tells rank 0 what the member says.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};

use crate::link::{Broken, Link, TURN, Voice};
use crate::member::{Loss, Member};
use crate::notice::Notice;
use crate::socket::silence;

/// The watch link of one rank.
#[derive(Debug)]
pub(crate) struct Watcher {
    link: Link,
    /// The other end can still say something.
    is_open: bool,
    /// How many notices more of rank 0 the last look would have read.
    left_of_turn: usize,
}

impl Watcher {
    pub(crate) fn new(link: Link) -> Self {
        Self {
            link,
            is_open: true,
            left_of_turn: TURN,
        }
    }

    /// Sends a notice to rank 0. If that fails rank 0 is gone, which the next look finds.
    pub(crate) fn tell(&mut self, notice: &Notice) {
        super::tell(&mut self.link, notice);
    }

    /// Returns a second way to send to rank 0, for another thread.
    pub(crate) fn voice(&self) -> std::io::Result<Voice> {
        self.link.voice()
    }

    /// Lists what to poll, as long as the other end can still say something.
    pub(crate) fn interest<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if self.is_open {
            fds.push(PollFd::new(&self.link, PollFlags::IN));
        }
    }

    /// Reads what has come: of rank 0 as much as it has to say in one turn.
    pub(crate) fn look(&mut self, member: &mut Member) {
        self.left_of_turn = TURN;
        while self.is_open && self.left_of_turn > 0 {
            self.left_of_turn -= 1;
            match super::next(&mut self.link) {
                Ok(Some(notice)) => member.heard(notice),
                Ok(None) => return,
                Err(Broken { peer, reason }) => {
                    self.is_open = false;
                    let loss = self.link.loss();
                    if loss == Loss::Altered {
                        let reason = reason.clone();
                        self.tell(&Notice::Altered { peer, reason });
                    }
                    member.watch_ended(loss, reason);
                }
            }
        }
    }

    /// Asks the system for how long nothing has come from that of rank 0, where it tells.
    #[cold]
    pub(crate) fn mind_silence(&self, member: &mut Member) {
        if let Some(silence) = silence(&self.link).filter(|_| self.is_open) {
            member.silent(silence.lasts);
        }
    }

    /// Returns whether there may be more to read that no poll tells of.
    pub(crate) fn is_behind(&self) -> bool {
        self.left_of_turn == 0 && self.is_open
    }
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
