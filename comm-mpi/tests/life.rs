//! Real jobs from start to end: what goes wrong, and which ranks get an error.

mod mpiexec;

#[path = "life/checked.rs"]
mod checked;
#[path = "life/driver.rs"]
mod driver;
#[path = "life/foreign.rs"]
mod foreign;
#[path = "life/fork.rs"]
mod fork;
#[path = "life/ranks.rs"]
mod ranks;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::var(driver::CASE) {
        Ok(case) => ranks::run(&case),
        Err(_) => driver::main(),
    }
}
