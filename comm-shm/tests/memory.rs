//! The memory that ranks share, where the system limits it, dumps it or interrupts its reservation.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "limits and timers have no safe interface")]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::fs;
use std::path::PathBuf;

use comm_api::{
    CommError, Communicator, CommunicatorExt, ReduceOp, SharedMemoryProvider, SharedRegion,
};
use comm_shm::ShmBackend;
use comm_testing::not_run;
use common::{finish, fresh_name, job, role, say, start};

const MIB: usize = 1 << 20;

/// Limits this process.
fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: reads the limit it is given.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// A folder that is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(fresh_name());
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks that all bytes are `value`, as fast as memory is compared.
fn holds(bytes: &[u8], value: u8) -> bool {
    bytes == vec![value; bytes.len()]
}

/// The kernel lists a mapping that is left out of dumps with the flag `dd`.
fn dumped() -> Vec<String> {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut dumped = Vec::new();
    let mut mapping = "";
    for line in smaps.lines() {
        if line.contains("/dev/shm") || line.contains("(deleted)") {
            mapping = line;
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            if !mapping.is_empty() && !flags.split_whitespace().any(|flag| flag == "dd") {
                dumped.push(mapping.to_owned());
            }
            mapping = "";
        }
    }
    dumped
}

/// A rank that dumps core writes its own memory, not what all ranks share.
#[test]
fn a_core_dump_holds_no_region() {
    #[repr(C, align(16384))]
    #[derive(Debug, Clone, Copy)]
    struct Aligned([u8; 16384]);
    // SAFETY: bytes, and as many as the alignment asks for.
    unsafe impl comm_api::bytemuck::Zeroable for Aligned {}
    // SAFETY: bytes, no padding.
    unsafe impl comm_api::bytemuck::Pod for Aligned {}

    const FOLDER: &str = "COMM_SHM_TEST_FOLDER";
    let test = "a_core_dump_holds_no_region";
    if let Some(config) = role(test) {
        let comm = ShmBackend::attach(config).unwrap();
        let mut table = comm.create_shared_region::<u8>(64 * MIB).unwrap();
        table.as_mut_slice().fill(7);
        let mut aligned = comm.create_shared_region::<Aligned>(4096).unwrap();
        aligned.as_mut_slice().fill(Aligned([7; 16384]));
        let dumped = dumped();
        assert!(dumped.is_empty(), "{dumped:#?}");
        std::env::set_current_dir(std::env::var_os(FOLDER).unwrap()).unwrap();
        limit(libc::RLIMIT_CORE, libc::RLIM_INFINITY);
        say("dumping");
        std::process::abort();
    }
    let folder = Folder::new();
    let variables = [(FOLDER, folder.0.to_str().unwrap())];
    let outcome = finish(0, start(test, &fresh_name(), 0, 1, &variables));
    assert_eq!(outcome.said, ["dumping"], "{}", outcome.output);
    let core = fs::read_dir(&folder.0).unwrap().next();
    let Some(core) = core.map(|core| core.unwrap().metadata().unwrap().len()) else {
        return not_run("this system keeps cores elsewhere");
    };
    assert!(core < 32 * MIB as u64, "a core of {core} bytes");
}

/// A limit on the size of files is an error on all ranks, not a signal, and released memory does not count.
#[test]
fn a_file_size_limit_is_an_error() {
    let test = "a_file_size_limit_is_an_error";
    if let Some(config) = role(test) {
        limit(libc::RLIMIT_FSIZE, MIB as u64);
        if config.rank == 0 {
            let error = ShmBackend::attach(config.clone()).unwrap_err();
            assert!(error.message.contains("ulimit -f"), "{error}");
        }
        limit(libc::RLIMIT_FSIZE, 100 * MIB as u64);
        let comm = ShmBackend::attach(config).unwrap();
        for round in 0..40 {
            let mut table = comm.create_shared_region::<u8>(5 * MIB).unwrap();
            table.fence().unwrap();
            assert!(holds(table.as_slice(), 0), "{round}");
            table.fence().unwrap();
            table.as_mut_slice().fill(0xff);
        }
        let error = comm.create_shared_region::<u8>(100 * MIB).unwrap_err();
        assert!(
            matches!(error, CommError::AllocationFailed { requested_bytes, .. } if requested_bytes == 100 * MIB)
        );
        assert!(error.to_string().contains("ulimit -f"), "{error}");
        // What fits still works, and the communicator stays usable.
        comm.create_shared_region::<u8>(5 * MIB).unwrap();
        assert_eq!(comm.allreduce_scalar(1, ReduceOp::Sum).unwrap(), 2);
        say("done");
        return;
    }
    let name = fresh_name();
    let ranks = [0, 1].map(|rank| start(test, &name, rank, 2, &[]));
    for (rank, child) in ranks.into_iter().enumerate() {
        let outcome = finish(rank, child);
        let done = outcome.status.success() && outcome.said == ["done"];
        assert!(done, "{}: {}", outcome.status, outcome.output);
    }
}

/// Regions that come and go, some of them long-lived. Each is zeroed and separate from all others, and the
/// file does not grow beyond what is in use at one time.
#[test]
fn memory_is_used_again_and_zeroed() {
    job("memory_is_used_again_and_zeroed", &[1, 3], |comm| {
        limit(libc::RLIMIT_FSIZE, 24 * MIB as u64);
        let size = comm.size();
        let mut kept = Vec::new();
        for round in 0..200_u32 {
            let value = u8::try_from(round % 251).unwrap() + 1;
            let len = (round as usize * 7919) % (MIB / 2) + 1;
            let mut region = comm.create_partitioned_region::<u8>(len).unwrap();
            assert!(holds(region.as_mut_slice(), 0));
            region.as_mut_slice().fill(value);
            region.fence().unwrap();
            assert_eq!(region.as_slice().len(), len * size);
            kept.push((region, value));
            if kept.len() > 4 {
                let which = round as usize % kept.len();
                // Each rank releases at a different time, and nothing orders that.
                let (region, value) = kept.swap_remove(which);
                assert!(holds(region.as_slice(), value));
            }
            if round % 10 == 0 {
                drop(comm.split_local().unwrap());
            }
            for (region, value) in &kept {
                assert!(holds(region.as_slice(), *value));
            }
        }
    });
}
