//! The plan of one round: what is done to the ranks, and when; drawn from a seed, so that the driver and every rank
//! know the same one.

use std::fmt;
use std::time::Duration;

use super::theme::Theme;
use crate::noise::Noise;

/// Says what happens in one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) theme: Theme,
    /// How many steps the program has; without a number it goes on until a call fails.
    pub(crate) steps: Option<usize>,
    /// How long each rank waits before it opens its communicator.
    pub(crate) late: Vec<Duration>,
    pub(crate) acts: Vec<Act>,
}

/// Says what is done, and when: `delay` after rank `who` has come to `point`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Act {
    pub(crate) who: usize,
    pub(crate) point: Point,
    pub(crate) delay: Duration,
    pub(crate) what: What,
}

/// Names a place in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// Just before the communicator is opened.
    Opening,
    /// Just before this step.
    Step(usize),
}

/// Names what is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// From outside: these ranks are killed at once.
    Kill(Vec<usize>),
    /// From outside: this rank is stopped for a while.
    Stop(usize, Duration),
    /// From outside: this rank gets so many signals that it has a handler for.
    Flood(usize, usize),
    /// From outside: so many strangers come to each port that a rank listens on.
    Knock(usize),
    /// The rank that came to the point does it itself.
    Leave(Way),
}

/// Names how a rank leaves by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Exits with this code.
    Exit(i32),
    /// Panics.
    Panic,
    /// Drops all it has, and finishes.
    Drop,
    /// Calls `abort` with this code.
    Abort(i32),
}

impl Plan {
    /// Draws the plan of `theme` for a world of `world` ranks, at least two.
    pub(crate) fn draw(theme: Theme, seed: u64, world: usize) -> Self {
        let mut dice = Dice {
            noise: Noise::new(seed, &[world, 0xc4a0]),
            world,
        };
        let late = match theme {
            Theme::LateStart => dice.late(900),
            Theme::StopAtStart | Theme::KillAtStart if dice.noise.below(2) == 0 => dice.late(100),
            _ => vec![Duration::ZERO; world],
        };
        let acts = dice.acts(theme);
        let steps = match (theme, acts.first().map(|act| act.point)) {
            // The last step is the one that the kill comes with.
            (Theme::KillAtEnd, Some(Point::Step(last))) => Some(last + 1),
            _ if theme.is_deadly() => None,
            _ => Some(8 + dice.noise.below(40)),
        };
        Self {
            theme,
            steps,
            late,
            acts,
        }
    }

    /// Tells whether somebody is to be killed before all have started.
    pub(crate) fn kills_at_start(&self) -> bool {
        let early = |act: &Act| act.point == Point::Opening && matches!(act.what, What::Kill(_));
        self.acts.iter().any(early)
    }

    /// Tells whether `rank` is to be killed from outside.
    pub(crate) fn kills(&self, rank: usize) -> bool {
        let hits = |act: &Act| matches!(&act.what, What::Kill(ranks) if ranks.contains(&rank));
        self.acts.iter().any(hits)
    }

    /// Gives how `rank` leaves by itself, if it does.
    pub(crate) fn leaves(&self, rank: usize) -> Option<Way> {
        self.acts.iter().find_map(|act| match act.what {
            What::Leave(way) if act.who == rank => Some(way),
            _ => None,
        })
    }

    /// Gives what `rank` does at `step`: say that it has come there, and perhaps leave.
    pub(crate) fn at(&self, rank: usize, point: Point) -> impl Iterator<Item = &Act> {
        let here = move |act: &&Act| act.who == rank && act.point == point;
        self.acts.iter().filter(here)
    }
}

impl Act {
    /// Gives the notice by which the driver knows that it is time.
    pub(crate) fn notice(&self) -> String {
        match self.point {
            Point::Opening => "opening".to_owned(),
            Point::Step(step) => format!("step-{step}"),
        }
    }
}

/// Draws the parts of a plan.
struct Dice {
    noise: Noise,
    world: usize,
}

impl Dice {
    fn rank(&mut self) -> usize {
        self.noise.below(self.world)
    }

    /// Gives up to `most` milliseconds, small ones as often as large ones.
    fn time(&mut self, most: usize) -> Duration {
        let most = 1 + self.noise.below(most * 1000);
        Duration::from_micros(self.noise.below(most) as u64)
    }

    fn late(&mut self, most: usize) -> Vec<Duration> {
        (0..self.world).map(|_| self.time(most)).collect()
    }

    /// Gives some ranks, at least one and not all.
    fn some(&mut self) -> Vec<usize> {
        let count = 1 + self.noise.below(self.world - 1);
        let first = self.rank();
        let mut ranks: Vec<usize> = (first..first + count).map(|r| r % self.world).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Gives a rank other than `rank`.
    fn other(&mut self, rank: usize) -> usize {
        (rank + 1 + self.noise.below(self.world - 1)) % self.world
    }

    fn step(&mut self) -> Point {
        Point::Step(self.noise.below(25))
    }

    fn act(&mut self, point: Point, what: What) -> Act {
        Act {
            who: self.rank(),
            point,
            delay: self.time(6),
            what,
        }
    }

    fn kill(&mut self, point: Point) -> Act {
        let victim = self.rank();
        self.act(point, What::Kill(vec![victim]))
    }

    fn stop(&mut self, point: Point) -> Act {
        let most = if self.noise.below(4) == 0 { 2500 } else { 600 };
        let what = What::Stop(self.rank(), Duration::from_millis(5) + self.time(most));
        self.act(point, what)
    }

    fn leave(&mut self) -> Act {
        let code = i32::try_from(self.noise.below(50)).unwrap_or(0);
        let way = self.noise.pick(&[
            Way::Exit(0),
            Way::Exit(code),
            Way::Panic,
            Way::Drop,
            Way::Abort(code),
        ]);
        let point = self.step();
        Act {
            delay: Duration::ZERO,
            ..self.act(point, What::Leave(way))
        }
    }

    fn acts(&mut self, theme: Theme) -> Vec<Act> {
        let point = self.step();
        let all: Vec<usize> = (0..self.world).collect();
        match theme {
            Theme::Peace | Theme::LateStart => Vec::new(),
            Theme::KillOne | Theme::KillAtEnd => vec![self.kill(point)],
            Theme::KillSeveral => {
                let ranks = self.some();
                vec![self.act(point, What::Kill(ranks))]
            }
            Theme::KillInTurn => {
                let first = self.kill(point);
                self.and_kill_another(first)
            }
            Theme::KillAll => vec![self.act(point, What::Kill(all))],
            Theme::Leave => vec![self.leave()],
            Theme::LeaveAndKill => {
                let first = self.leave();
                self.and_kill_another(first)
            }
            Theme::Stop => {
                let count = 1 + self.noise.below(3);
                (0..count)
                    .map(|_| Point::Step(self.noise.below(8)))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|point| self.stop(point))
                    .collect()
            }
            Theme::StopAndKill => {
                let stop = self.stop(point);
                let mut kill = self.kill(point);
                // The same trigger, so that the kill comes whoever is stopped.
                kill.who = stop.who;
                kill.delay += stop.delay;
                vec![stop, kill]
            }
            Theme::Flood => vec![self.flood(), self.flood()],
            Theme::FloodAndKill => vec![self.flood(), self.flood(), self.kill(point)],
            Theme::Knock => vec![self.knock(Point::Opening), self.knock(Point::Step(1))],
            Theme::KnockAndKill => vec![self.knock(Point::Opening), self.kill(point)],
            Theme::StopAtStart => vec![self.stop(Point::Opening)],
            Theme::KillAtStart => vec![self.kill(Point::Opening)],
            Theme::KillAllAtStart => vec![self.act(Point::Opening, What::Kill(all))],
        }
    }

    /// Adds the death of another rank, a little later and by the same trigger.
    fn and_kill_another(&mut self, first: Act) -> Vec<Act> {
        let gone = match &first.what {
            What::Kill(ranks) => ranks[0],
            _ => first.who,
        };
        let second = Act {
            delay: first.delay + self.time(20),
            what: What::Kill(vec![self.other(gone)]),
            ..first.clone()
        };
        vec![first, second]
    }

    fn flood(&mut self) -> Act {
        let what = What::Flood(self.rank(), 20 + self.noise.below(2000));
        self.act(Point::Step(1), what)
    }

    fn knock(&mut self, point: Point) -> Act {
        let most = self.noise.pick(&[3, 12, 60]);
        let what = What::Knock(1 + self.noise.below(most));
        self.act(point, what)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.theme.name())?;
        for act in &self.acts {
            write!(f, "; {act}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, delay) = (self.who, self.delay);
        match &self.what {
            What::Kill(ranks) => write!(f, "kill {ranks:?}")?,
            What::Stop(rank, time) => write!(f, "stop {rank} for {time:?}")?,
            What::Flood(rank, count) => write!(f, "{count} signals to {rank}")?,
            What::Knock(count) => write!(f, "{count} strangers")?,
            What::Leave(way) => write!(f, "{who} leaves by {way:?}")?,
        }
        match self.point {
            Point::Opening => write!(f, " {delay:?} after {who} began to open"),
            Point::Step(step) => write!(f, " {delay:?} after {who} came to step {step}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        for theme in Theme::ALL {
            let plan = Plan::draw(theme, 7, 4);
            assert_eq!(plan, Plan::draw(theme, 7, 4));
            let endless = theme.is_deadly() && theme != Theme::KillAtEnd;
            assert_eq!(endless, plan.steps.is_none(), "{plan}");
        }
        assert_ne!(
            Plan::draw(Theme::KillOne, 1, 4),
            Plan::draw(Theme::KillOne, 2, 4)
        );
    }

    #[test]
    fn a_deadly_plan_has_a_death_and_a_harmless_one_has_none() {
        for (theme, seed) in Theme::ALL
            .into_iter()
            .flat_map(|t| (0..50).map(move |s| (t, s)))
        {
            for world in [2, 3, 8] {
                let plan = Plan::draw(theme, seed, world);
                let dies = |rank: &usize| plan.kills(*rank) || plan.leaves(*rank).is_some();
                let dead = (0..world).filter(dies).count();
                assert_eq!(dead > 0, theme.is_deadly(), "{plan}");
                let all = matches!(theme, Theme::KillAll | Theme::KillAllAtStart);
                assert!(!all || dead == world, "{plan}");
            }
        }
    }
}
