//! Which processor each rank is bound to, when it is to be bound.

use std::io;

/// Chooses a processor for each rank: those this process may use, one of each core first.
///
/// Returns fewer than `ranks` where there are fewer.
#[cfg(target_os = "linux")]
pub(crate) fn choose(ranks: usize) -> io::Result<Vec<usize>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let allowed = sched_getaffinity(None)?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let mut spread = spread(&allowed.map(|cpu| (cpu, core(cpu))).collect::<Vec<_>>());
    spread.truncate(ranks);
    Ok(spread)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn choose(_: usize) -> io::Result<Vec<usize>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the first processor of the core that a processor belongs to; the processor itself if the system does not say.
#[cfg(target_os = "linux")]
fn core(cpu: usize) -> usize {
    let siblings = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(siblings).unwrap_or_default();
    let first = list.trim().split([',', '-']).next();
    first.and_then(|first| first.parse().ok()).unwrap_or(cpu)
}

/// Sorts processors, each with its core, in the order in which ranks take them: two ranks share a core only when
/// every core has one.
fn spread(processors: &[(usize, usize)]) -> Vec<usize> {
    let turn = |&(cpu, core): &(usize, usize)| {
        let before = processors.iter().filter(|other| other.1 == core);
        before.filter(|other| other.0 < cpu).count()
    };
    let mut turns: Vec<_> = processors.iter().map(|p| (turn(p), p.0)).collect();
    turns.sort_unstable();
    turns.into_iter().map(|(_, cpu)| cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_come_before_their_second_threads() {
        let neighbours = [(0, 0), (1, 0), (2, 2), (3, 2)];
        assert_eq!(spread(&neighbours), [0, 2, 1, 3]);
        let halves = [(0, 0), (1, 1), (4, 0), (5, 1)];
        assert_eq!(spread(&halves), [0, 1, 4, 5]);
        // Only what is allowed counts: the first thread of core 0 is somebody else's.
        assert_eq!(spread(&[(1, 0), (2, 2), (3, 2)]), [1, 2, 3]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn every_processor_is_chosen_once() {
        let mut chosen = choose(usize::MAX).unwrap();
        let count = chosen.len();
        chosen.sort_unstable();
        chosen.dedup();
        assert!(count > 0 && chosen.len() == count, "{chosen:?}");
        assert_eq!(choose(1).unwrap().len(), 1);
    }
}
