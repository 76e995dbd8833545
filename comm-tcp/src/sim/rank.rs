//! What a rank does: its calls, its waits and its end.

use std::time::Instant;

use comm_kit::Call;
use comm_kit::clock::sleep_limit;

use super::{Actor, CALLS, Event, Message, Rank, State, World};
use crate::link::Broken;
use crate::member::{Loss, Outlook, Step, View};
use crate::notice::{Flow, Notice};
use crate::watch::CommitWord;

impl World {
    pub(super) fn enters(&mut self, rank: usize) {
        if let Some(until) = self.ranks[rank].stopped.filter(|&until| self.now < until) {
            return self.at(until, Event::Enters(rank));
        }
        let it = &mut self.ranks[rank];
        if it.state != State::Computing {
            return;
        }
        if it.leaves || it.sequence == CALLS {
            return self.leave(rank);
        }
        it.state = State::Inside(self.now);
        if rank > 0 {
            let sequence = it.sequence;
            self.send(Actor::Rank(rank), Actor::Rank(0), Message::Data(sequence));
        }
        self.go(rank);
    }

    /// Lets a rank do what it can.
    pub(super) fn go(&mut self, rank: usize) {
        if let Some(until) = self.ranks[rank].stopped.filter(|&until| self.now < until) {
            return self.wake(rank, until);
        }
        loop {
            match self.ranks[rank].state {
                State::Computing | State::Over => return,
                State::Inside(_) if self.is_complete(rank) => self.complete(rank),
                State::Inside(began) => {
                    let it = &mut self.ranks[rank];
                    let others = if rank == 0 { 1..it.came.len() } else { 0..1 };
                    let lacks = |&peer: &usize| it.came[peer].0 <= it.sequence;
                    let waits_for = others.clone().find(lacks).unwrap_or(0);
                    if let Some(peer) = others.clone().find(|peer| lacks(peer) && it.came[*peer].1)
                    {
                        let reason = "it closed the link".to_owned();
                        it.member
                            .broke(it.sequence, Broken { peer, reason }, Loss::Closed);
                        it.state = State::Settling;
                        continue;
                    }
                    let view = View {
                        sequence: it.sequence,
                        call: Call::barrier(),
                        outlook: Outlook::Entering,
                        underway: rank > 0,
                        waits_for,
                        flow: Flow::default(),
                        since: began,
                        began,
                    };
                    if !self.step(rank, Some(&view)) {
                        return;
                    }
                }
                State::Asking | State::Settling => {
                    if !self.step(rank, None) {
                        return;
                    }
                }
            }
        }
    }

    /// Lets a rank that is stuck do one thing; returns whether it can go on.
    fn step(&mut self, rank: usize, view: Option<&View>) -> bool {
        let silence = self.silence(rank);
        let it = &mut self.ranks[rank];
        while let Some(message) = it.watch.pop_front() {
            match message {
                Message::Watch(notice) => it.member.heard(notice),
                _ => it
                    .member
                    .watch_ended(Loss::Closed, "it closed the link".to_owned()),
            }
        }
        it.member.silent(silence);
        match it.member.stuck(view, self.now) {
            Step::Tell(notice) => {
                self.send(Actor::Rank(rank), Actor::Watch, Message::Watch(notice));
            }
            Step::Sleep(limit) => {
                self.wake(rank, self.now + sleep_limit(limit));
                return false;
            }
            Step::Settle => match it.state {
                State::Inside(_) => it.state = State::Settling,
                State::Asking => {
                    it.member.rest();
                    self.answer(rank);
                }
                _ => {
                    let cause = it.member.take_cause();
                    it.failed = Some((cause, self.now));
                    it.sequence += 1;
                    // The program ends, soon or at once.
                    it.leaves = true;
                    it.state = State::Computing;
                    let ends = self.dice.micros(3_000);
                    self.at(self.now + ends, Event::Enters(rank));
                }
            },
        }
        true
    }

    fn wake(&mut self, rank: usize, time: Instant) {
        self.ranks[rank].ticket += 1;
        let ticket = self.ranks[rank].ticket;
        self.at(time, Event::Wakes(Actor::Rank(rank), ticket));
    }

    /// Returns whether all has come that a rank waits for.
    fn is_complete(&self, rank: usize) -> bool {
        let Rank { came, sequence, .. } = &self.ranks[rank];
        let others = if rank == 0 { &came[1..] } else { &came[..1] };
        others.iter().all(|&(next, _)| next > *sequence)
    }

    /// Ends a call that is complete; rank 0 commits itself first.
    fn complete(&mut self, rank: usize) {
        let it = &mut self.ranks[rank];
        it.member.rest();
        if rank > 0 {
            return self.pass(rank);
        }
        if it.member.is_late(self.now - self.start) {
            it.member.ask();
            it.state = State::Asking;
            return;
        }
        self.answer(rank);
    }

    fn answer(&mut self, rank: usize) {
        let it = &mut self.ranks[rank];
        let sequence = it.sequence;
        if !self.word.answer(sequence) {
            it.member.await_decision();
            it.state = State::Settling;
            return;
        }
        for worker in 1..self.ranks.len() {
            self.send(Actor::Rank(0), Actor::Rank(worker), Message::Data(sequence));
        }
        self.pass(rank);
    }

    fn pass(&mut self, rank: usize) {
        self.ranks[rank].sequence += 1;
        self.ranks[rank].state = State::Computing;
        // Most compute for a moment, one now and then for longer than it takes to be missed.
        let longest = if self.dice.below(20) == 0 {
            200_000
        } else {
            3_000
        };
        let computes = self.dice.micros(longest);
        self.at(self.now + computes, Event::Enters(rank));
    }

    /// Drops the communicator of a rank.
    fn leave(&mut self, rank: usize) {
        self.ranks[rank].state = State::Over;
        let sequence = self.ranks[rank].sequence;
        let goodbye = Message::Watch(Notice::Goodbye { sequence });
        self.send(Actor::Rank(rank), Actor::Watch, goodbye);
        self.hang_up(rank);
    }

    pub(super) fn hang_up(&mut self, rank: usize) {
        self.send(Actor::Rank(rank), Actor::Watch, Message::WatchEnds);
        let others = if rank == 0 { 1..self.ranks.len() } else { 0..1 };
        for other in others {
            self.send(Actor::Rank(rank), Actor::Rank(other), Message::DataEnds);
        }
    }
}
