//! Ranks that die, leave or never enter a call: C12, C13, and the clean end, C14.

mod abort;
mod clean_end;
mod complete;
mod contributed;
mod departure;
mod fences;
mod first_stopped;
mod hook;
mod midway;
mod survivors;
mod suspended;

use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, ReduceOp};

use crate::case::{Case, Verdict};
use crate::clause::Clause::{C12, C13};
use crate::model::Need;
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    let mut cases = Vec::new();
    for way in Departure::ALL {
        for point in Point::ALL {
            for (who, victim) in VICTIMS {
                // Killing is tried on every kind of rank; the other ways on one rank each, in turn.
                let turn = (way as usize + point as usize) % VICTIMS.len();
                let chosen = way == Departure::Killed || VICTIMS[turn].0 == who;
                if point.suits(way) && chosen {
                    let name = format!("faults::{who}_{}_{}", way.name(), point.name());
                    let case = Case::new(name, &[C12, C13], move |run| {
                        departs::<S>(run, way, point, victim(run.size()))
                    });
                    let case = case.at_least(if who == "middle" { 3 } else { 2 }).deaths();
                    cases.push(if way.takes_a_process() {
                        case.needs(Need::Processes)
                    } else {
                        case
                    });
                }
            }
        }
    }
    cases.push(
        Case::new("faults::nobody_starts_alone", &[C12], |run| {
            nobody_starts_alone::<S>(run)
        })
        .at_least(2)
        .needs(Need::SeveralOpens),
    );
    cases.extend(complete::cases::<S>());
    cases.extend(contributed::cases::<S>());
    cases.extend(fences::cases::<S>());
    cases.extend(first_stopped::cases::<S>());
    cases.extend(midway::cases::<S>());
    cases.extend(hook::cases::<S>());
    cases.extend(suspended::cases::<S>());
    cases.extend(abort::cases::<S>());
    cases.extend(clean_end::cases::<S>());
    cases
}

/// Selects the rank that goes, by the size of the world.
type Pick = fn(usize) -> usize;

/// The ranks that go.
const VICTIMS: [(&str, Pick); 3] = [
    ("first", |_| 0),
    ("middle", |size| size / 2),
    ("last", |size| size - 1),
];

/// How a rank goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Departure {
    Killed,
    Exits,
    Panics,
    Drops,
    Stopped,
    Absent,
}

impl Departure {
    const ALL: [Self; 6] = [
        Self::Killed,
        Self::Exits,
        Self::Panics,
        Self::Drops,
        Self::Stopped,
        Self::Absent,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Killed => "is_killed",
            Self::Exits => "exits",
            Self::Panics => "panics",
            Self::Drops => "drops_its_communicator",
            Self::Stopped => "is_stopped",
            Self::Absent => "is_absent",
        }
    }

    /// Returns how messages describe the rank, if it is lost.
    fn lost(self) -> Option<&'static str> {
        match self {
            Self::Killed | Self::Exits => Some("its process ended"),
            Self::Panics => Some("it panicked"),
            Self::Drops => Some("it dropped its communicator or region"),
            Self::Stopped | Self::Absent => None,
        }
    }

    /// Returns whether only a process can go this way without taking others along.
    fn takes_a_process(self) -> bool {
        matches!(self, Self::Killed | Self::Exits | Self::Stopped)
    }

    /// Returns whether the rank stays alive, so that only a timeout can detect it.
    fn is_alive(self) -> bool {
        matches!(self, Self::Stopped | Self::Absent)
    }
}

/// When the rank goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// While the others wait for it in a collective.
    Awaited,
    /// After a collective; the others enter the next one later.
    Between,
    /// Inside a small collective that another rank has not entered.
    InsideSmall,
    /// Inside a collective of many pieces that another rank has not entered.
    InsideLarge,
}

impl Point {
    const ALL: [Self; 4] = [
        Self::Awaited,
        Self::Between,
        Self::InsideSmall,
        Self::InsideLarge,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Awaited => "while_awaited",
            Self::Between => "between_calls",
            Self::InsideSmall => "inside_a_small_call",
            Self::InsideLarge => "inside_a_large_call",
        }
    }

    fn is_inside(self) -> bool {
        matches!(self, Self::InsideSmall | Self::InsideLarge)
    }

    /// A rank that is inside a call cannot also panic, drop, or be merely absent.
    fn suits(self, way: Departure) -> bool {
        !self.is_inside()
            || matches!(
                way,
                Departure::Killed | Departure::Exits | Departure::Stopped
            )
    }

    /// Calls the collective in question.
    fn call<C: Communicator>(self, comm: &C) -> Result<(), CommError> {
        let len = if self == Self::InsideLarge {
            500_000
        } else {
            3
        };
        comm.allreduce(&vec![1_u64; len], &mut vec![0; len], ReduceOp::Sum)
    }
}

/// How long the others wait for a living rank.
const PATIENCE: Duration = Duration::from_millis(600);

fn departs<S: Subject>(run: &Run, way: Departure, point: Point, victim: usize) -> Verdict {
    let mut seat = run.seat("");
    if way.is_alive() {
        seat = seat.with_timeout(PATIENCE);
    }
    let comm = run.open_seat::<S>(&seat)?;
    point.call(&comm)?;
    comm.barrier()?;
    if run.rank == victim {
        departure::depart(run, comm, way, point)
    } else {
        survivors::survive(run, &comm, way, point, victim, S::MODEL.death_within())
    }
}

/// Ranks that wait for one that never joins the start time out, and can start elsewhere.
fn nobody_starts_alone<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open::<S>()?;
    let absent = run.size() / 2;
    if run.rank != absent {
        let seat = run.seat("incomplete");
        let seat = seat.with_timeout(PATIENCE).with_connect_timeout(PATIENCE);
        run.at(format_args!("starting without rank {absent}"));
        let start = Instant::now();
        let started = S::open(&seat);
        let took = start.elapsed();
        assert!(
            started.is_err(),
            "a communicator started without rank {absent}"
        );
        assert!(took < run.orders.limit / 4, "gave up after {took:?}");
    }
    super::still_works(run, &comm)?;
    let again = run.open_seat::<S>(&run.seat("complete"))?;
    super::still_works(run, &again)
}
