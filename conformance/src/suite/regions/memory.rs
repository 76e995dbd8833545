//! Dropped regions must not cost any memory.

use std::fs;
use std::os::unix::fs::MetadataExt;

use comm_api::{CommError, Communicator, SharedMemoryProvider, SharedRegion};

use crate::case::{Case, Verdict};
use crate::clause::Clause::{C9, C14};
use crate::model::Memory;
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![Case::new(
        "regions::regions_that_come_and_go_cost_no_memory",
        &[C9, C14],
        |run| regions_come_and_go::<S>(run),
    )]
}

const MIB: usize = 1 << 20;

/// The contents of one region.
const REGION: usize = 2 * MIB;

/// How many regions are created and dropped.
const REGIONS: usize = 48;

/// How many exist at the same time, once: as many on each rank where every rank has separate memory.
fn at_once(memory: Memory) -> usize {
    match memory {
        Memory::Shared => 32,
        Memory::Heap => 4,
    }
}

/// How much may still be in use after all are dropped: an allocator keeps some, for each rank that is a
/// thread.
fn most(memory: Memory, ranks: usize) -> usize {
    match memory {
        Memory::Shared => REGION * (6 + 2 * ranks),
        Memory::Heap => REGION * (6 + 4 * ranks),
    }
}

/// A program that creates a region in every iteration runs as long as one that keeps it.
fn regions_come_and_go<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open::<S>()?;
    let Some(before) = used() else {
        return Ok(());
    };
    let memory = S::MODEL.memory;
    let many = at_once(memory);
    for round in 0..REGIONS {
        run.at(format_args!("region {round}"));
        drop(written(&comm)?);
    }
    gone(run, &comm, before, memory)?;
    if !run.processes() {
        // When threads free a lot at once, the allocator keeps most of it.
        return Ok(());
    }
    run.at(format_args!("{many} regions at once"));
    let regions: Result<Vec<_>, _> = (0..many).map(|_| written(&comm)).collect();
    drop(regions?);
    gone(run, &comm, before, memory)
}

/// Creates a region all of whose memory is in use.
fn written<C: SharedMemoryProvider>(comm: &C) -> Result<C::Region<u8>, CommError> {
    let mut region = comm.create_shared_region::<u8>(REGION)?;
    region.as_mut_slice().fill(1);
    region.fence()?;
    assert_eq!(region.as_slice().last(), Some(&1));
    Ok(region)
}

/// Checks that the memory of all regions is free again.
fn gone<C: Communicator>(run: &Run, comm: &C, before: usize, memory: Memory) -> Verdict {
    // A rank that gets here has dropped its last handle.
    comm.barrier()?;
    let grown = used().unwrap_or(before).saturating_sub(before);
    let most = most(memory, run.size());
    assert!(
        grown <= most,
        "all regions have gone, and {} MiB are still in use",
        grown / MIB
    );
    // No rank continues while another still counts.
    comm.barrier()?;
    Ok(())
}

/// Returns how many bytes of memory this process holds, and how many files without a name it has open; `None`
/// where the system does not report that.
fn used() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    let open = fs::read_dir("/proc/self/fd").ok()?.flatten();
    let unnamed = open.filter_map(|entry| fs::metadata(entry.path()).ok());
    let unnamed = unnamed.filter(|file| file.is_file() && file.nlink() == 0);
    let blocks: u64 = unnamed.map(|file| file.blocks()).sum();
    Some(kib * 1024 + usize::try_from(blocks).ok()? * 512)
}
