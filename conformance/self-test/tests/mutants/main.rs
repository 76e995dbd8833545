//! Mutants of the reference, each with one defect: the case meant for it must fail.
//!
//! Without this, the suite might pass anything. The reference itself passes every case, see `reference.rs`.

mod mutants;

use std::process::ExitCode;
use std::time::Duration;

use comm_conformance::mutant::{Mutant, Mutation, ordered_subject, rank_role, run_case};
use comm_conformance::reference::Reference;
use comm_conformance::{Failure, Model, Seat, Subject};
use libtest_mimic::{Arguments, Failed, Trial};
use mutants::{KNOWN, Known};

/// The world of the mutants: the smallest one with a first, a middle and a last rank.
const WORLD: usize = 3;

/// The subject of all mutants, so that the suite is compiled once for them; the driver selects one by name.
struct Wrong;

impl Subject for Wrong {
    type Comm = Mutant<Reference, dyn Mutation<Reference>>;
    const NAME: &'static str = "wrong";
    const MODEL: Model = Model::REFERENCE;
    // Some of them hang, and the watchdog ends them soon.
    const LIMIT: Duration = Duration::from_secs(6);

    fn open(seat: &Seat) -> Result<Self::Comm, Failure> {
        let wanted = ordered_subject().unwrap_or_default();
        let known = KNOWN.iter().find(|known| known.name == wanted);
        let mutation = (known.ok_or("no such mutant")?.mutation)();
        let seat = mutation.seat(seat.clone());
        let comm = Reference::open(seat.name(), seat.rank(), seat.size(), seat.timeout())?;
        Ok(Mutant::new(comm, mutation))
    }
}

/// Returns the trial of a mutant: its case fails with the expected message.
fn trial(known: &'static Known) -> Trial {
    Trial::test(format!("mutants::{}", known.name), || {
        let (case, says) = (known.case, known.says);
        match run_case::<Wrong>(known.name, case, WORLD, known.threads) {
            Ok(()) => Err(Failed::from(format!("passed {case}"))),
            Err(reason) if reason.contains(says) => Ok(()),
            Err(reason) => Err(Failed::from(format!(
                "{case} failed as it should, but does not say '{says}':\n{reason}"
            ))),
        }
    })
}

/// Checks that the book's table has exactly one row for every mutant, with the case that notices it.
fn the_book_lists_every_mutant() -> Result<(), Failed> {
    let book = include_str!("../../../../docs/tests.md");
    let rows = book.lines().filter(|line| line.starts_with("| C"));
    let listed: Vec<_> = rows.filter_map(|row| row.split_once("| `")).collect();
    let found: Vec<&str> = listed.iter().map(|(_, row)| row.trim_end()).collect();
    let known: Vec<String> = KNOWN
        .iter()
        .map(|known| format!("{}` | `{}` |", known.name, known.case))
        .collect();
    if found == known {
        Ok(())
    } else {
        Err(format!("docs/tests.md lists {found:#?}, the mutants are {known:#?}").into())
    }
}

fn main() -> ExitCode {
    if ordered_subject().is_some() {
        return rank_role::<Wrong>();
    }
    let book = Trial::test("the_book_lists_every_mutant", the_book_lists_every_mutant);
    let trials = KNOWN.iter().map(trial).chain([book]).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
