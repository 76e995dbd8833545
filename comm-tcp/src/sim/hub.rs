//! What the watch does: it reads, decides and tells, when it gets to run.

use std::time::Duration;

use super::{Actor, Event, Fault, Message, World};
use crate::notice::Notice;
use crate::watch::{Action, End};

impl World {
    pub(super) fn end_watch(&mut self) {
        if !std::mem::replace(&mut self.hub.over, true) {
            for rank in 0..self.ranks.len() {
                self.send(Actor::Watch, Actor::Rank(rank), Message::WatchEnds);
            }
        }
    }

    /// Returns for how long nothing has come from the other machine of a rank's watch link.
    pub(super) fn silence(&self, rank: usize) -> Duration {
        let Some((away, since, until)) = self.cut else {
            return Duration::ZERO;
        };
        // Keepalive asks each second, and the last answer may be as old when the network goes away.
        let second = Duration::from_secs(1);
        if rank == 0
            || (away != 0 && away != rank)
            || self.now < since
            || self.now >= until + second
        {
            return Duration::ZERO;
        }
        let age = Duration::from_millis(rank as u64 * 397 % 1_000);
        (self.now - since) + age
    }

    /// Lets the watch read, decide and tell.
    pub(super) fn watch(&mut self) {
        if self.hub.over {
            return;
        }
        if let Some(until) = self.ranks[0].stopped.filter(|&until| self.now < until) {
            self.hub.ticket += 1;
            return self.at(until, Event::Wakes(Actor::Watch, self.hub.ticket));
        }
        let now = self.now;
        while let Some((rank, message)) = self.hub.inbox.pop_front() {
            if let Message::Watch(notice) = message {
                self.hub.bench.heard(rank, notice, now);
            } else {
                self.hub.open[rank] = false;
                self.hub
                    .bench
                    .ended(rank, End::Closed("it closed the link"));
            }
            self.act();
        }
        if now >= self.hub.look_at {
            self.hub.look_at = now + self.patience.pace();
            for rank in 1..self.ranks.len() {
                if self.hub.open[rank] {
                    let silence = self.silence(rank);
                    self.hub.bench.silent(rank, silence);
                }
            }
        }
        self.hub.bench.all_read();
        self.hub.bench.due(now, 0);
        self.act();
        if !self.hub.open[0] {
            self.end_watch();
        }
        if self.hub.over {
            return;
        }
        let due = self.hub.bench.next_due(now);
        let look = self.cut.map(|_| self.hub.look_at - now);
        if let Some(next) = due.into_iter().chain(look).min() {
            self.hub.ticket += 1;
            self.at(now + next, Event::Wakes(Actor::Watch, self.hub.ticket));
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.hub.bench.next() {
            let Action::Tell(rank, notice) = action else {
                continue;
            };
            if matches!(notice, Notice::Cause { .. }) {
                if self.hub.dies_after == Some(self.hub.told) {
                    return self.befalls(Fault::Kill(0));
                }
                self.hub.told += 1;
            }
            if self.hub.open[rank] && !self.hub.over {
                self.send(Actor::Watch, Actor::Rank(rank), Message::Watch(notice));
            }
        }
    }
}
