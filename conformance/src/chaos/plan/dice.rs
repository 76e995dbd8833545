//! The random choices of a plan: which ranks, when, and for how long.

use std::time::Duration;

use super::{Action, Injection, LeaveBy, Point};
use crate::chaos::fault::Fault;
use crate::noise::Noise;

/// Draws the parts of a plan.
pub(super) struct Dice {
    pub(super) noise: Noise,
    pub(super) world: usize,
}

impl Dice {
    fn rank(&mut self) -> usize {
        self.noise.below(self.world)
    }

    /// Returns up to `most` milliseconds, small ones as often as large ones.
    fn time(&mut self, most: usize) -> Duration {
        let most = 1 + self.noise.below(most * 1000);
        Duration::from_micros(self.noise.below(most) as u64)
    }

    pub(super) fn late(&mut self, most: usize) -> Vec<Duration> {
        (0..self.world).map(|_| self.time(most)).collect()
    }

    /// Returns some ranks, at least one and not all.
    fn some(&mut self) -> Vec<usize> {
        let count = 1 + self.noise.below(self.world - 1);
        let first = self.rank();
        let mut ranks: Vec<usize> = (first..first + count).map(|r| r % self.world).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Returns a rank other than `rank`.
    fn other(&mut self, rank: usize) -> usize {
        (rank + 1 + self.noise.below(self.world - 1)) % self.world
    }

    fn step(&mut self) -> Point {
        Point::Step(self.noise.below(25))
    }

    fn inject(&mut self, point: Point, what: Action) -> Injection {
        Injection {
            who: self.rank(),
            point,
            delay: self.time(6),
            what,
        }
    }

    fn kill(&mut self, point: Point) -> Injection {
        let victim = self.rank();
        self.inject(point, Action::Kill(vec![victim]))
    }

    fn stop(&mut self, point: Point) -> Injection {
        let most = if self.noise.below(4) == 0 { 2500 } else { 600 };
        let what = Action::Stop(self.rank(), Duration::from_millis(5) + self.time(most));
        self.inject(point, what)
    }

    fn leave(&mut self) -> Injection {
        let code = i32::try_from(self.noise.below(50)).unwrap_or(0);
        let way = self.noise.pick(&[
            LeaveBy::Exit(0),
            LeaveBy::Exit(code),
            LeaveBy::Panic,
            LeaveBy::Drop,
            LeaveBy::Abort(code),
        ]);
        let point = self.step();
        Injection {
            delay: Duration::ZERO,
            ..self.inject(point, Action::Leave(way))
        }
    }

    /// Dumps core with little memory, or with so much that the dump outlasts the bound for reporting a death.
    fn dump(&mut self) -> Injection {
        let way = LeaveBy::Dump(self.noise.pick(&[0, 60, 240]));
        let point = self.step();
        Injection {
            delay: Duration::ZERO,
            ..self.inject(point, Action::Leave(way))
        }
    }

    /// Suspends all ranks for some time beyond `timeout`.
    fn suspend(&mut self, point: Point, timeout: Duration) -> Injection {
        let time = timeout + Duration::from_millis(100) + self.time(400);
        self.inject(point, Action::Suspend(time))
    }

    fn starve(&mut self, point: Point, ranks: Vec<usize>) -> Injection {
        self.inject(point, Action::Starve(ranks))
    }

    pub(super) fn injections(&mut self, fault: Fault, timeout: Duration) -> Vec<Injection> {
        let point = self.step();
        let all: Vec<usize> = (0..self.world).collect();
        match fault {
            Fault::Nothing | Fault::LateStart => Vec::new(),
            Fault::KillOne | Fault::KillAtEnd => vec![self.kill(point)],
            Fault::KillSeveral => {
                let ranks = self.some();
                vec![self.inject(point, Action::Kill(ranks))]
            }
            Fault::KillInTurn => {
                let first = self.kill(point);
                self.and_kill_another(first)
            }
            Fault::KillAll => vec![self.inject(point, Action::Kill(all))],
            Fault::Leave => vec![self.leave()],
            Fault::LeaveAndKill => {
                let first = self.leave();
                self.and_kill_another(first)
            }
            Fault::Stop => {
                let count = 1 + self.noise.below(3);
                (0..count)
                    .map(|_| Point::Step(self.noise.below(8)))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|point| self.stop(point))
                    .collect()
            }
            Fault::StopAndKill => {
                let stop = self.stop(point);
                let mut kill = self.kill(point);
                // The same trigger, so that the kill happens whichever rank is stopped.
                kill.who = stop.who;
                kill.delay += stop.delay;
                vec![stop, kill]
            }
            Fault::Flood => vec![self.flood(), self.flood()],
            Fault::FloodAndKill => vec![self.flood(), self.flood(), self.kill(point)],
            Fault::Knock => vec![self.knock(Point::Opening), self.knock(Point::Step(1))],
            Fault::KnockAndKill => vec![self.knock(Point::Opening), self.kill(point)],
            Fault::Suspend => {
                let point = Point::Step(self.noise.below(8));
                vec![self.suspend(point, timeout)]
            }
            Fault::SuspendAndKill => {
                let suspension = self.suspend(point, timeout);
                let victim = self.rank();
                // The same trigger, so that the rank is killed while all are stopped, or just before or
                // after.
                let kill = Injection {
                    delay: suspension.delay + self.time(2000),
                    what: Action::Kill(vec![victim]),
                    ..suspension.clone()
                };
                vec![suspension, kill]
            }
            Fault::NoDescriptors => {
                let point = Point::Step(self.noise.below(4));
                let ranks = if self.noise.below(2) == 0 {
                    all
                } else {
                    self.some()
                };
                // A rank that waits long for the stopped one checks whether it lives.
                let stop = self.stop(point);
                vec![self.starve(point, ranks), stop]
            }
            Fault::NoDescriptorsAndKill => {
                let mut kill = self.kill(point);
                kill.delay += self.time(100);
                let victim = match &kill.what {
                    Action::Kill(ranks) => ranks[0],
                    _ => kill.who,
                };
                // One of the others keeps its descriptors: without any, no rank needs to notice a death.
                // After this point only the victim posts a notice, which takes a descriptor.
                let saved = self.other(victim);
                let ranks = all.into_iter().filter(|&rank| rank != saved).collect();
                vec![kill, self.starve(point, ranks)]
            }
            Fault::DumpCore => vec![self.dump()],
            Fault::BlockLogAndKill => {
                let block = self.inject(Point::Opening, Action::BlockLog);
                vec![block, self.kill(point)]
            }
            Fault::SlowLink => {
                // Some of the ranks that connect to rank 0.
                let first = 1 + self.noise.below(self.world - 1);
                let ranks = (first..self.world).collect();
                let rate = (1 + self.noise.below(3)) << 20;
                vec![self.inject(Point::Opening, Action::Slow(ranks, rate))]
            }
            Fault::StormAtStart => {
                let time = Duration::from_millis(300) + self.time(600);
                vec![self.inject(Point::Opening, Action::Storm(time))]
            }
            Fault::StopAtStart => vec![self.stop(Point::Opening)],
            Fault::KillAtStart => vec![self.kill(Point::Opening)],
            Fault::KillAllAtStart => vec![self.inject(Point::Opening, Action::Kill(all))],
        }
    }

    /// Adds the death of another rank, a little later and with the same trigger.
    fn and_kill_another(&mut self, first: Injection) -> Vec<Injection> {
        let gone = match &first.what {
            Action::Kill(ranks) => ranks[0],
            _ => first.who,
        };
        let second = Injection {
            delay: first.delay + self.time(20),
            what: Action::Kill(vec![self.other(gone)]),
            ..first.clone()
        };
        vec![first, second]
    }

    fn flood(&mut self) -> Injection {
        let what = Action::Flood(self.rank(), 20 + self.noise.below(2000));
        self.inject(Point::Step(1), what)
    }

    fn knock(&mut self, point: Point) -> Injection {
        let most = self.noise.pick(&[3, 12, 60]);
        let what = Action::Knock(1 + self.noise.below(most));
        self.inject(point, what)
    }
}
