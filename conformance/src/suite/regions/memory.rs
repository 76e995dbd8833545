//! What regions cost once they are gone: nothing.

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

/// What one region holds.
const REGION: usize = 2 * MIB;

/// How many come and go.
const REGIONS: usize = 48;

/// How many there are at once, once: as many on each rank where every rank has memory of its own.
fn at_once(memory: Memory) -> usize {
    match memory {
        Memory::Shared => 32,
        Memory::Heap => 4,
    }
}

/// What may still be in use when all have gone: an allocator keeps some, of each rank that is a thread.
fn most(memory: Memory, ranks: usize) -> usize {
    match memory {
        Memory::Shared => REGION * (6 + 2 * ranks),
        Memory::Heap => REGION * (6 + 4 * ranks),
    }
}

/// A program that creates a region in every iteration runs for as long as one that keeps it.
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
        // Of threads that free much at once the allocator keeps most.
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
    // Whoever is through has dropped its last handle.
    comm.barrier()?;
    let grown = used().unwrap_or(before).saturating_sub(before);
    let most = most(memory, run.size());
    assert!(
        grown <= most,
        "all regions have gone, and {} MiB are still in use",
        grown / MIB
    );
    // Nobody goes on while another still counts.
    comm.barrier()?;
    Ok(())
}

/// Returns how many bytes of memory this process holds, and the files without a name that it has open; nothing where the system does
/// not say.
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
