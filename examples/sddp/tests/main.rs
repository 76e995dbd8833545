//! The solver on every backend: the same bits, the right bounds, and the same cause on every rank if something fails.
//!
//! One binary in two roles, as in the conformance suite: it starts itself again as the ranks of a job, through `comm-run` or
//! `mpiexec`, and compares their results.

#[path = "../src/main.rs"]
mod sddp;

mod bad_input;
mod certificate;
mod equivalent;
mod job;
mod matrix;
mod memory;
mod plot;
mod programs;
mod reversed;

use std::process::ExitCode;

use libtest_mimic::Arguments;

/// Turns this binary into a rank; the value is the kind of rank.
const ROLE: &str = "SDDP_TEST_ROLE";

fn main() -> ExitCode {
    match std::env::var(ROLE).as_deref() {
        Ok(job::RANK) => return sddp::main(),
        Ok(role) => return reversed::main(role),
        Err(_) => {}
    }
    let mut trials = programs::trials();
    trials.extend(equivalent::trials());
    trials.extend(matrix::trials());
    trials.extend(bad_input::trials());
    trials.extend(memory::trials());
    trials.extend(plot::trials());
    let mut arguments = Arguments::from_args();
    // Jobs start many processes; concurrent jobs would only wait for each other.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}
