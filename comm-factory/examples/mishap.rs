//! A job in which one rank makes a mistake, to show the errors of the others and the report of a launcher.
//!
//! ```text
//! comm-run -n 4 -- mishap panic 2
//! ```
//!
//! The others exit with code 4, because they got an error and cannot continue.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use comm_factory::api::{CommError, Communicator, ReduceOp};

/// The actions of the rank, and its exit codes.
const WAYS: &str = "\
  none    nothing, code 0
  refuse  it passes invalid arguments and ends with that error, code 1
  recover it passes invalid arguments, all ranks continue, and then rank 0 fails and tells the others, code 1
  tell    it fails and tells the others in a collective, code 1
  exit    it exits without telling the others, code 7
  leave   it is done before the others, code 0
  panic   it panics, code 101
  unwrap  it panics, and the others panic because of it, code 101
  kill    it ends by SIGABRT
  abort   it calls abort(9), code 9
  hang    it hangs";

/// The exit code of a rank that got an error from another rank.
const TOLD: u8 = 4;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (way, culprit) = (arguments.next(), arguments.next());
    let culprit = culprit.and_then(|rank| rank.parse().ok());
    let (Some(way), Some(culprit)) = (way, culprit) else {
        eprintln!("usage: mishap WAY RANK, where WAY is one of\n{WAYS}");
        return ExitCode::from(2);
    };
    let comm = match comm_factory::create_communicator() {
        Ok(comm) => comm,
        Err(error) => {
            eprintln!("mishap: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = work(&comm, &way, comm.rank() == culprit);
    if way == "unwrap" {
        #[expect(
            clippy::unwrap_used,
            reason = "as a program without error handling does"
        )]
        result.as_ref().unwrap();
    }
    match result {
        Ok(code) => code,
        Err(error @ CommError::InvalidRoot { .. }) => {
            eprintln!("mishap: {error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("mishap: {error}");
            ExitCode::from(TOLD)
        }
    }
}

fn work(comm: &impl Communicator, way: &str, is_culprit: bool) -> Result<ExitCode, CommError> {
    // All ranks are running when it happens.
    for _ in 0..10 {
        comm.barrier()?;
    }
    match way {
        "none" => return Ok(ExitCode::SUCCESS),
        "refuse" => broadcast(comm, is_culprit)?,
        "recover" => {
            // Many times: a launcher gets some of these reports, and must forget all of them.
            for _ in 0..20 {
                if broadcast(comm, is_culprit).is_ok() {
                    return Ok(ExitCode::from(2));
                }
            }
            return tell(comm, comm.rank() == 0);
        }
        "tell" => return tell(comm, is_culprit),
        _ if !is_culprit => {}
        "exit" => std::process::exit(7),
        "leave" => return Ok(ExitCode::SUCCESS),
        "panic" | "unwrap" => panic!("this panic is what was asked for"),
        "kill" => std::process::abort(),
        "abort" => comm.abort(9),
        _ => loop {
            sleep(Duration::from_secs(1));
        },
    }
    loop {
        comm.barrier()?;
    }
}

/// Receives the value of rank 0, or passes a root that is no rank.
fn broadcast(comm: &impl Communicator, is_wrong: bool) -> Result<(), CommError> {
    let root = if is_wrong { comm.size() } else { 0 };
    comm.broadcast(&mut [comm.rank()], root)
}

/// Tells the others in a collective which rank cannot continue, so that all end.
fn tell(comm: &impl Communicator, is_culprit: bool) -> Result<ExitCode, CommError> {
    let mut failed = [0_u8];
    comm.allreduce(&[u8::from(is_culprit)], &mut failed, ReduceOp::Max)?;
    if is_culprit {
        eprintln!("mishap: the case cannot be read");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::from(TOLD))
}
