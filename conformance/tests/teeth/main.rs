//! Wrong communicators, each wrong in one way: the case meant for it must fail.
//!
//! Without this the suite might pass anything. Each tooth is the reference with one thing bent;
//! the reference itself passes every case, see `reference.rs`.

mod bent;
mod teeth;

use std::process::ExitCode;
use std::time::Duration;

use bent::Bent;
use comm_conformance::reference::Reference;
use comm_conformance::teeth::{ordered_subject, rank_role, run_case};
use comm_conformance::{Failure, Model, Seat, Subject};
use libtest_mimic::{Arguments, Failed, Trial};
use teeth::{BITES, Bite};

/// The world they are caught in: the smallest with a first, a middle and a last rank.
const WORLD: usize = 3;

/// Is the subject of all teeth; which one, the driver says by name.
struct Wrong;

impl Subject for Wrong {
    type Comm = Bent;
    const NAME: &'static str = "wrong";
    const MODEL: Model = Model::REFERENCE;
    // Some of them hang: the watchdog ends them soon.
    const LIMIT: Duration = Duration::from_secs(6);

    fn open(seat: &Seat) -> Result<Bent, Failure> {
        let wanted = ordered_subject().unwrap_or_default();
        let bite = BITES.iter().find(|bite| bite.name == wanted);
        let tooth = bite.ok_or("no such tooth")?.tooth;
        let (name, rank, size) = tooth.seat(seat);
        let comm = Reference::open(&name, rank, size, seat.timeout())?;
        Ok(Bent::new(comm, tooth))
    }
}

/// Gives the trial of a tooth: its case fails, and says what is expected.
fn trial(bite: &'static Bite) -> Trial {
    Trial::test(format!("teeth::{}", bite.name), || {
        let (case, says) = (bite.case, bite.says);
        match run_case::<Wrong>(bite.name, case, WORLD, bite.threads) {
            Ok(()) => Err(Failed::from(format!("passed {case}"))),
            Err(reason) if reason.contains(says) => Ok(()),
            Err(reason) => Err(Failed::from(format!(
                "{case} failed as it should, but does not say '{says}':\n{reason}"
            ))),
        }
    })
}

fn main() -> ExitCode {
    if ordered_subject().is_some() {
        return rank_role::<Wrong>();
    }
    let trials = BITES.iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
