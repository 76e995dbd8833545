//! The judge, what the judge has decided, and who has yet to be told: events in, actions out, without links, sleep or a
//! clock of its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::signals::CommitWord;
use super::verdict::{Judge, Ruling, Warning};
use crate::notice::{Cause, Notice};
use crate::socket::Patience;

/// How a watch link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End<'a> {
    /// The process at its other end is gone, or does not keep to the protocol.
    Closed(&'a str),
    /// No way leads to its other end.
    Unreachable(&'a str),
    /// What came over it is not what was sent.
    Altered(&'a str),
}

/// What the owner of the watch links has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send a notice to a rank, if its link lasts.
    Tell(usize, Notice),
    /// Drop the link of a rank.
    Drop(usize),
    /// Write the cause to the log: all ranks have been told.
    Publish(Cause),
}

/// The judge, and what is still to be done about the rulings so far.
#[derive(Debug)]
pub(crate) struct Bench<W> {
    judge: Judge,
    word: W,
    /// What is to be done first.
    replies: VecDeque<Action>,
    /// What all ranks are to be told, in this order.
    announcements: VecDeque<Announcement>,
    /// Rank 0 wants to know when all links have been read.
    asked: bool,
    patience: Patience,
    /// Of each rank, whether its system had not answered when it was last looked at.
    quiet: Vec<bool>,
}

/// What all ranks get, rank 0 last: once it knows, it may end this process.
#[derive(Debug)]
struct Announcement {
    notice: Notice,
    /// How many ranks, from rank 0 on, have not been told.
    left: usize,
}

impl<W: CommitWord> Bench<W> {
    /// Takes the place of each rank for messages, in rank order.
    pub(crate) fn new(places: Vec<String>, word: W, patience: Patience) -> Self {
        Self {
            quiet: vec![false; places.len()],
            judge: Judge::new(places),
            word,
            replies: VecDeque::new(),
            announcements: VecDeque::new(),
            asked: false,
            patience,
        }
    }

    /// Takes what `rank` said.
    pub(crate) fn heard(&mut self, rank: usize, notice: Notice, now: Instant) {
        match notice {
            // Answered when the other links have had their turn, too.
            Notice::Ping if rank == 0 => self.asked = true,
            Notice::Ping => self.reply(rank, Notice::Pong),
            notice if notice.names().is_some_and(|named| named >= self.size()) => {
                self.replies.push_back(Action::Drop(rank));
                self.ended(rank, End::Closed("it named a rank that there is not"));
            }
            notice => {
                let ruling = self.judge.hear(rank, notice, now);
                self.rule(ruling);
            }
        }
    }

    /// Notes that the watch link of `rank` ended.
    pub(crate) fn ended(&mut self, rank: usize, how: End<'_>) {
        let ruling = match how {
            End::Closed(reason) => self.judge.lose(rank, reason),
            End::Unreachable(reason) => self.judge.lose_sight(rank, reason),
            End::Altered(reason) => self.judge.alter(0, rank, reason),
        };
        self.rule(ruling);
    }

    /// Notes for how long nothing has come from the system of `rank`. That decides while the link still can carry the
    /// cause, for the case that its other end comes back.
    pub(crate) fn silent(&mut self, rank: usize, silence: Duration) {
        let was_quiet = std::mem::replace(&mut self.quiet[rank], self.patience.is_quiet(silence));
        if silence >= self.patience.of_the_judge() {
            let reason = format!("no sign of it for {:?}", self.patience.of_the_judge());
            self.ended(rank, End::Unreachable(&reason));
        } else if was_quiet && !self.quiet[rank] {
            // Its own end of the link has heard nothing for as long, and may be about to give up.
            self.reply(rank, Notice::Pong);
        }
    }

    /// Returns whether the system of `rank` had not answered when it was last looked at.
    pub(crate) fn is_quiet(&self, rank: usize) -> bool {
        self.quiet[rank]
    }

    /// Decides what has waited long enough. Rank 0 is through with all calls before `passed`.
    pub(crate) fn due(&mut self, now: Instant, passed: u64) {
        let ruling = self.judge.due(now, passed);
        self.rule(ruling);
    }

    /// Returns how long nothing falls due.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Duration> {
        self.judge.next_due(now)
    }

    /// Returns whether the age of something that was reported matters.
    pub(crate) fn remembers(&self, now: Instant) -> bool {
        self.judge.remembers(now)
    }

    /// Returns whether rank 0 wants to know when all links have been read.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Notes that all links have been read since rank 0 asked, a turn of each, which is more than a rank that keeps to
    /// the protocol leaves unread. A rank that floods its link delays nobody, and its own word counts late.
    pub(crate) fn all_read(&mut self) {
        if std::mem::take(&mut self.asked) {
            self.reply(0, Notice::Pong);
        }
    }

    /// Returns what is to be done next.
    pub(crate) fn next(&mut self) -> Option<Action> {
        if let Some(action) = self.replies.pop_front() {
            return Some(action);
        }
        let Announcement { notice, left } = self.announcements.front_mut()?;
        if *left > 0 {
            *left -= 1;
            return Some(Action::Tell(*left, notice.clone()));
        }
        match self.announcements.pop_front()?.notice {
            Notice::Cause { cause, .. } => Some(Action::Publish(cause)),
            _ => self.next(),
        }
    }

    /// Returns what the log is to say about who is waited for.
    pub(crate) fn warning(&mut self) -> Option<Warning> {
        self.judge.warning()
    }

    fn size(&self) -> usize {
        self.quiet.len()
    }

    fn reply(&mut self, rank: usize, notice: Notice) {
        self.replies.push_back(Action::Tell(rank, notice));
    }

    fn rule(&mut self, ruling: Option<Ruling>) {
        let notice = match ruling {
            None => return,
            Some(Ruling::Cause(cause)) => Notice::Cause {
                cause,
                answered: self.word.decide(),
            },
            Some(Ruling::Farewell(sequence)) => Notice::Goodbye { sequence },
            Some(Ruling::WaitOn(ranks)) => {
                for rank in ranks {
                    self.reply(rank, Notice::WaitOn);
                }
                return;
            }
        };
        let left = self.size();
        self.announcements.push_back(Announcement { notice, left });
    }
}

#[cfg(test)]
mod tests;
