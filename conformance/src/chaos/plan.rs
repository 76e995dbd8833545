//! The plan of one round: which faults are injected, and when. It is drawn from a seed, so that the driver
//! and every rank have the same plan.

mod dice;

use std::fmt;
use std::time::Duration;

use super::fault::Fault;
use crate::noise::Noise;
use dice::Dice;

/// Lists the faults of one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) fault: Fault,
    /// The number of steps of the program; without a number it continues until a call fails.
    pub(crate) steps: Option<usize>,
    /// How long each rank waits before it opens its communicator.
    pub(crate) late: Vec<Duration>,
    /// How long a call may wait for a living rank, if the fault is about that time.
    pub(crate) timeout: Option<Duration>,
    pub(crate) injections: Vec<Injection>,
}

/// A fault, and when it is injected: `delay` after rank `who` has reached `point`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injection {
    pub(crate) who: usize,
    pub(crate) point: Point,
    pub(crate) delay: Duration,
    pub(crate) what: Action,
}

/// A point in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// Just before the communicator is opened.
    Opening,
    /// Just before this step.
    Step(usize),
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// From outside: these ranks are killed at once.
    Kill(Vec<usize>),
    /// From outside: this rank is stopped for a while.
    Stop(usize, Duration),
    /// From outside: this rank gets this many signals, for which it has a handler.
    Flood(usize, usize),
    /// From outside: this many strangers connect to each port that a rank listens on.
    Knock(usize),
    /// From outside: all ranks are stopped for a while.
    Suspend(Duration),
    /// From outside: for this long, strangers connect to each port that a rank listens on, one after the
    /// other.
    Storm(Duration),
    /// From outside: the bytes between these ranks and the port of rank 0 pass at this rate per second.
    Slow(Vec<usize>, usize),
    /// These ranks use up their file descriptors when they reach the point.
    Starve(Vec<usize>),
    /// The log of every rank blocks, from the beginning.
    BlockLog,
    /// The rank that reached the point does it itself.
    Leave(LeaveBy),
}

/// How a rank leaves by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveBy {
    /// Exits with this code.
    Exit(i32),
    /// Panics.
    Panic,
    /// Drops everything it has, and finishes.
    Drop,
    /// Calls `abort` with this code.
    Abort(i32),
    /// Dumps core, with this many MiB of its own.
    Dump(usize),
}

impl Plan {
    /// Draws the plan of `fault` for a world of `world` ranks, at least two.
    pub(crate) fn draw(fault: Fault, seed: u64, world: usize) -> Self {
        let mut dice = Dice {
            noise: Noise::new(seed, &[world, 0xc4a0]),
            world,
        };
        let late = match fault {
            Fault::LateStart => dice.late(900),
            Fault::StormAtStart => dice.late(400),
            Fault::StopAtStart | Fault::KillAtStart if dice.noise.below(2) == 0 => dice.late(100),
            _ => vec![Duration::ZERO; world],
        };
        let timeout = match fault {
            // With more ranks than processors, a call may well take as long as each of them waits for its
            // turn.
            Fault::Suspend | Fault::SuspendAndKill => {
                Some(Duration::from_millis(1500 + 40 * world as u64))
            }
            Fault::SlowLink => Some(Duration::from_millis(800 + 40 * world as u64)),
            // If no rank gets an error, the round is over soon all the same.
            Fault::BlockLogAndKill => Some(Duration::from_secs(5)),
            _ => None,
        };
        let injections = dice.injections(fault, timeout.unwrap_or_default());
        let steps = match (fault, injections.first().map(|injection| injection.point)) {
            // The last step is the one at which the kill happens.
            (Fault::KillAtEnd, Some(Point::Step(last))) => Some(last + 1),
            _ if fault.is_deadly() => None,
            // Each step may take seconds.
            (Fault::SlowLink, _) => Some(4 + dice.noise.below(5)),
            _ => Some(8 + dice.noise.below(40)),
        };
        Self {
            fault,
            steps,
            late,
            timeout,
            injections,
        }
    }

    /// Returns whether `rank` reaches the port of rank 0 over a slow link.
    pub(crate) fn slows(&self, rank: usize) -> bool {
        let hits = |injection: &Injection| matches!(&injection.what, Action::Slow(ranks, _) if ranks.contains(&rank));
        self.injections.iter().any(hits)
    }

    /// Returns the step at which `rank` uses up its file descriptors, if it does.
    pub(crate) fn starves(&self, rank: usize) -> Option<usize> {
        self.injections
            .iter()
            .find_map(|injection| match (&injection.what, injection.point) {
                (Action::Starve(ranks), Point::Step(step)) if ranks.contains(&rank) => Some(step),
                _ => None,
            })
    }

    /// Returns whether the logs block.
    pub(crate) fn blocks_logs(&self) -> bool {
        let blocks = |injection: &Injection| injection.what == Action::BlockLog;
        self.injections.iter().any(blocks)
    }

    /// Returns whether a rank is to be killed before all have started.
    pub(crate) fn kills_at_start(&self) -> bool {
        let early = |injection: &Injection| {
            injection.point == Point::Opening && matches!(injection.what, Action::Kill(_))
        };
        self.injections.iter().any(early)
    }

    /// Returns whether `rank` is to be killed from outside.
    pub(crate) fn kills(&self, rank: usize) -> bool {
        let hits = |injection: &Injection| matches!(&injection.what, Action::Kill(ranks) if ranks.contains(&rank));
        self.injections.iter().any(hits)
    }

    /// Returns how `rank` leaves by itself, if it does.
    pub(crate) fn leaves(&self, rank: usize) -> Option<LeaveBy> {
        self.injections
            .iter()
            .find_map(|injection| match injection.what {
                Action::Leave(way) if injection.who == rank => Some(way),
                _ => None,
            })
    }

    /// Returns the injections that wait for `rank` to come to `point`.
    pub(crate) fn at(&self, rank: usize, point: Point) -> impl Iterator<Item = &Injection> {
        let here = move |injection: &&Injection| injection.who == rank && injection.point == point;
        self.injections.iter().filter(here)
    }
}

impl Injection {
    /// Returns whether the driver does it; otherwise the ranks do it themselves.
    pub(crate) fn is_from_outside(&self) -> bool {
        !matches!(
            self.what,
            Action::Leave(_) | Action::Starve(_) | Action::BlockLog
        )
    }

    /// Returns the notice by which the driver knows when to act.
    pub(crate) fn notice(&self) -> String {
        match self.point {
            Point::Opening => "opening".to_owned(),
            Point::Step(step) => format!("step-{step}"),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault.name())?;
        for injection in &self.injections {
            write!(f, "; {injection}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, delay) = (self.who, self.delay);
        match &self.what {
            Action::Kill(ranks) => write!(f, "kill {ranks:?}")?,
            Action::Stop(rank, time) => write!(f, "stop {rank} for {time:?}")?,
            Action::Flood(rank, count) => write!(f, "{count} signals to {rank}")?,
            Action::Knock(count) => write!(f, "{count} strangers")?,
            Action::Suspend(time) => write!(f, "stop all for {time:?}")?,
            Action::Storm(time) => write!(f, "strangers for {time:?}")?,
            Action::Slow(ranks, rate) => write!(f, "{rate} bytes a second for {ranks:?}")?,
            Action::Starve(ranks) => write!(f, "no descriptors for {ranks:?}")?,
            Action::BlockLog => write!(f, "all logs block")?,
            Action::Leave(way) => write!(f, "{who} leaves by {way:?}")?,
        }
        match self.point {
            Point::Opening => write!(f, " {delay:?} after {who} began to open"),
            Point::Step(step) => write!(f, " {delay:?} after {who} came to step {step}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        for &fault in Fault::value_variants() {
            let plan = Plan::draw(fault, 7, 4);
            assert_eq!(plan, Plan::draw(fault, 7, 4));
            let endless = fault.is_deadly() && fault != Fault::KillAtEnd;
            assert_eq!(endless, plan.steps.is_none(), "{plan}");
        }
        assert_ne!(
            Plan::draw(Fault::KillOne, 1, 4),
            Plan::draw(Fault::KillOne, 2, 4)
        );
    }

    #[test]
    fn somebody_who_survives_keeps_its_descriptors_and_nobody_posts_without() {
        for (seed, world) in (0..50).flat_map(|seed| [2, 3, 8].map(|world| (seed, world))) {
            let plan = Plan::draw(Fault::NoDescriptorsAndKill, seed, world);
            let keeps = |rank: &usize| !plan.kills(*rank) && plan.starves(*rank).is_none();
            assert!((0..world).any(|rank| keeps(&rank)), "{plan}");
            let points = plan.injections.iter().map(|injection| injection.point);
            assert!(
                points
                    .clone()
                    .all(|point| Some(point) == points.clone().next()),
                "{plan}"
            );
        }
    }

    #[test]
    fn a_suspension_outlasts_the_timeout() {
        for (seed, world) in (0..50).flat_map(|seed| [2, 8, 64].map(|world| (seed, world))) {
            let plan = Plan::draw(Fault::Suspend, seed, world);
            let Action::Suspend(time) = plan.injections[0].what else {
                panic!("{plan}");
            };
            assert!(Some(time) > plan.timeout, "{plan}");
        }
    }

    #[test]
    fn a_deadly_plan_has_a_death_and_a_harmless_one_has_none() {
        for (&fault, seed) in Fault::value_variants()
            .iter()
            .flat_map(|t| (0..50).map(move |s| (t, s)))
        {
            for world in [2, 3, 8] {
                let plan = Plan::draw(fault, seed, world);
                let dies = |rank: &usize| plan.kills(*rank) || plan.leaves(*rank).is_some();
                let dead = (0..world).filter(dies).count();
                assert_eq!(dead > 0, fault.is_deadly(), "{plan}");
                let all = matches!(fault, Fault::KillAll | Fault::KillAllAtStart);
                assert!(!all || dead == world, "{plan}");
            }
        }
    }
}
