//! `comm-run -n 4 -- program`: starts the ranks of a job on this machine.

mod cli;
mod report;

use std::process::ExitCode;

use comm_run::Job;

fn main() -> ExitCode {
    let options = cli::parse();
    let mut job = Job::new(options.program, options.ranks)
        .args(options.args)
        .forward_signals();
    if let Some(timeout) = options.timeout {
        job = job.timeout(timeout);
    }
    let code = match job.run() {
        Ok(outcome) => {
            report::ending(&outcome, options.timeout);
            outcome.exit_code()
        }
        Err(error) => {
            report::error(&error);
            error.exit_code()
        }
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
