//! A rank that has less memory than the others.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::fs;
use std::time::Duration;

use comm_api::{CommError, Communicator, CommunicatorExt, ReduceOp, SharedMemoryProvider};
use comm_tcp::TcpBackend;
use common::ranks::{config, role, say, start_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const MIB: usize = 1 << 20;
/// The rank with too little memory.
const SHORT: usize = 1;

/// The main function of a rank; run by the test below as a separate program.
#[test]
fn one_rank() {
    if role(Duration::from_mins(1)).is_none() {
        return;
    }
    let comm = TcpBackend::connect(config()).unwrap();
    comm.barrier().unwrap();
    let before = getrlimit(Resource::As);
    if comm.rank() == SHORT {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let in_use = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
        let in_use: usize = (in_use.unwrap().trim().strip_suffix(" kB").unwrap())
            .parse()
            .unwrap();
        let current = Some((in_use * 1024 + 128 * MIB) as u64);
        setrlimit(Resource::As, Rlimit { current, ..before }).unwrap();
    }
    let region = comm.create_gathered_region::<u8>(128 * MIB).map(drop);
    setrlimit(Resource::As, before).unwrap();
    match region {
        Err(CommError::AllocationFailed {
            requested_bytes, ..
        }) => say("requested", requested_bytes),
        other => say("requested", format!("{other:?}")),
    }
    // The communicator stays usable, and the same region fits now.
    let sum = comm.allreduce_scalar(comm.rank(), ReduceOp::Sum).unwrap();
    comm.create_gathered_region::<u8>(MIB).unwrap();
    say("end", sum);
}

#[test]
fn a_gathered_region_that_one_rank_cannot_hold_fails_on_all() {
    let mut ranks = start_with("short", 3, "20");
    for rank in &mut ranks {
        let requested = (3 * 128 * MIB).to_string();
        assert_eq!(rank.wait_for("requested"), requested);
        assert_eq!(rank.wait_for("end"), "3");
    }
}
