//! Which worlds are made, and what must be true of each of them.

use comm_api::FailureKind;

use super::*;

/// How many worlds a test makes.
const SEEDS: u64 = 2_000;

impl World {
    /// Returns what must not be, for messages.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (rank, it) in self.ranks.iter().enumerate() {
            if it.state != State::Over {
                wrong.push(format!("rank {rank} never leaves {:?}", it.state));
            }
        }
        let failed: Vec<(usize, &Cause)> = self
            .ranks
            .iter()
            .enumerate()
            .filter(|(_, it)| !it.killed)
            .filter_map(|(rank, it)| Some((rank, &it.failed.as_ref()?.0)))
            .collect();
        for &(rank, cause) in &failed {
            // Without a rank it names a link.
            let fair = cause
                .rank
                .map_or_else(|| self.cuts_links(), |named| self.is_at_fault(named));
            if !fair {
                wrong.push(format!("rank {rank} names an innocent: {cause:?}"));
            }
            // What one rank failed in, and another did not.
            let call = self.ranks[rank].sequence - 1;
            // It gave up by itself, lost the answer with rank 0, or was away for so long that the answer was too late.
            let own = cause.kind == FailureKind::TimedOut
                || cause.rank == Some(0)
                || self.cut.is_some_and(|(away, ..)| away == rank || away == 0);
            let mut others = self.ranks.iter().enumerate();
            let done = others.find(|(_, it)| it.sequence - u64::from(it.failed.is_some()) > call);
            if let Some((other, _)) = done.filter(|_| !own) {
                wrong.push(format!(
                    "call {call} succeeded on rank {other}, and on rank {rank} not: {cause:?}"
                ));
            }
        }
        // A judge that others have given up on may find another cause when it goes on.
        let away =
            |fault: &Fault| matches!(*fault, Fault::Stop(0, time) if time >= TIMEOUT * 7 / 8);
        let judge_lives = !self.ranks[0].killed && !self.faults.iter().any(away);
        if let Some((first, rest)) = failed.split_first().filter(|_| judge_lives) {
            let others = rest.iter().filter(|(_, cause)| *cause != first.1);
            wrong.extend(others.map(|other| format!("two causes: {first:?}, {other:?}")));
        }
        wrong
    }

    /// Returns whether a fault befell a rank that may be named for it.
    fn is_at_fault(&self, rank: usize) -> bool {
        self.faults.iter().any(|&fault| match fault {
            Fault::Nothing => false,
            Fault::Kill(it) | Fault::Leave(it) => it == rank,
            Fault::Stop(it, time) => it == rank && time >= TIMEOUT * 7 / 8,
            // If the judge itself is cut off, it may name any rank beyond the cut.
            Fault::Cut(it, _) => (it == rank || it == 0) && self.cuts_links(),
        })
    }

    fn cuts_links(&self) -> bool {
        let cuts = |fault: &Fault| matches!(*fault, Fault::Cut(_, time) if time > TIMEOUT * 4 / 8);
        self.faults.iter().any(cuts)
    }

    /// Returns what the ranks were told, and when.
    fn told(&self) -> Vec<Option<(Cause, Duration)>> {
        let told = |rank: &Rank| {
            let (cause, at) = rank.failed.as_ref()?;
            Some((cause.clone(), *at - self.start))
        };
        self.ranks.iter().map(told).collect()
    }
}

/// Makes the world of a seed, with faults that `draw` chooses among so many ranks, and runs it.
fn world(seed: u64, draw: impl Fn(&mut Dice, usize) -> Vec<Fault>) -> World {
    let mut dice = Dice(seed);
    let size = 3 + dice.rank(4);
    let faults = draw(&mut dice, size);
    let at = dice.micros(60_000);
    let near = |dice: &mut Dice| at + dice.micros(8_000);
    let faults: Vec<(Duration, Fault)> =
        faults.into_iter().map(|it| (near(&mut dice), it)).collect();
    let mut world = World::new(seed, size, &faults);
    if dice.below(4) == 0 && faults.iter().any(|(_, it)| *it == Fault::Kill(0)) {
        world.hub.dies_after = Some(dice.below(size as u64));
    }
    world.run();
    world
}

/// Runs the worlds of many seeds; the first in which something is wrong fails the test.
fn all_are_right(draw: impl Fn(&mut Dice, usize) -> Vec<Fault>) {
    let mut failed = 0;
    for seed in 0..SEEDS {
        let world = world(seed, &draw);
        let wrong = world.wrong();
        assert!(
            wrong.is_empty(),
            "seed {seed}, {} ranks, {:?}: {wrong:#?}",
            world.ranks.len(),
            world.faults
        );
        failed += u64::from(world.told().iter().any(Option::is_some));
    }
    println!("{failed} of {SEEDS} jobs failed");
}

#[test]
fn nothing_happens_where_nothing_befalls_anybody() {
    for seed in 0..SEEDS / 10 {
        let world = world(seed, |_, _| vec![Fault::Nothing]);
        assert!(world.told().iter().all(Option::is_none), "seed {seed}");
        assert_eq!(world.wrong(), [""; 0]);
        assert!(world.ranks.iter().all(|it| it.sequence == CALLS));
    }
}

#[test]
fn a_short_stop_or_a_short_outage_harms_nobody() {
    let draw = |dice: &mut Dice, size| {
        let (rank, time) = (dice.rank(size), dice.micros(4_000_000));
        vec![match dice.below(2) {
            0 => Fault::Stop(rank, time),
            _ => Fault::Cut(rank, time),
        }]
    };
    for seed in 0..SEEDS {
        let world = world(seed, draw);
        let told = world.told();
        assert!(
            told.iter().all(Option::is_none),
            "seed {seed}: {:?}, {told:#?}",
            world.faults
        );
    }
}

#[test]
fn all_survivors_of_a_death_have_one_cause() {
    all_are_right(|dice, size| vec![Fault::Kill(dice.rank(size))]);
}

#[test]
fn all_survivors_of_two_deaths_have_one_cause() {
    all_are_right(|dice, size| vec![Fault::Kill(dice.rank(size)), Fault::Kill(dice.rank(size))]);
}

/// Rank 0, too: its farewell is the last word.
#[test]
fn a_farewell_and_a_death_are_one_cause() {
    all_are_right(|dice, size| {
        vec![
            Fault::Leave(dice.rank(size)),
            Fault::Kill(1 + dice.rank(size - 1)),
        ]
    });
}

#[test]
fn a_rank_that_is_stopped_and_another_that_dies_are_one_cause() {
    all_are_right(|dice, size| {
        let time = dice.micros(16_000_000);
        vec![
            Fault::Stop(dice.rank(size), time),
            Fault::Kill(1 + dice.rank(size - 1)),
        ]
    });
}

/// Up to 6/8 of the timeout.
#[test]
fn an_outage_leaves_all_ranks_with_one_outcome() {
    all_are_right(|dice, size| {
        let time = dice.micros(6_000_000);
        vec![Fault::Cut(dice.rank(size), time)]
    });
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..SEEDS / 10 {
        let draw = |dice: &mut Dice, size| vec![Fault::Kill(dice.rank(size))];
        let (one, other) = (world(seed, draw), world(seed, draw));
        assert_eq!(one.told(), other.told(), "seed {seed}");
        assert_eq!(one.numbers, other.numbers, "seed {seed}");
    }
}
