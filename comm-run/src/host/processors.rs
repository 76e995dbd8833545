//! Chooses the processor that each rank is bound to.

use std::io;

/// A processor that this process may use, and its place in the machine.
#[derive(Debug, Clone, Copy)]
struct Processor {
    number: usize,
    /// The first processor of its core.
    core: usize,
    /// Its NUMA node.
    node: usize,
}

/// Chooses a processor for each rank among those this process may use: one of each core first, and equally many of each
/// NUMA node. Consecutive ranks share a node.
///
/// Returns fewer than `ranks` if this process may use fewer.
#[cfg(target_os = "linux")]
pub(crate) fn choose(ranks: usize) -> io::Result<Vec<usize>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let allowed = sched_getaffinity(None)?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let place = |number| Processor {
        number,
        core: core(number),
        node: node(number).unwrap_or(0),
    };
    Ok(spread(&allowed.map(place).collect::<Vec<_>>(), ranks))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn choose(_: usize) -> io::Result<Vec<usize>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the first processor of the core that a processor belongs to, or the processor itself if the system does not
/// report its core.
#[cfg(target_os = "linux")]
fn core(cpu: usize) -> usize {
    let siblings = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(siblings).unwrap_or_default();
    let first = list.trim().split([',', '-']).next();
    first.and_then(|first| first.parse().ok()).unwrap_or(cpu)
}

/// Returns the NUMA node of a processor, or its socket if the system reports no nodes.
#[cfg(target_os = "linux")]
pub(crate) fn node(cpu: usize) -> Option<usize> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let number = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix("node")?.parse().ok();
    let node = entries
        .map(|entry| entry.file_name())
        .find_map(|name| number(&name));
    node.or_else(|| {
        let socket = format!("{folder}/topology/physical_package_id");
        std::fs::read_to_string(socket).ok()?.trim().parse().ok()
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn node(_: usize) -> Option<usize> {
    None
}

/// Returns the processors of `ranks` ranks, in rank order. Two ranks share a core only if every core has a rank, and the
/// nodes get ranks in turn.
fn spread(processors: &[Processor], ranks: usize) -> Vec<usize> {
    /// Counts the processors before `number` with the same key.
    fn before(alike: impl Iterator<Item = Processor>, number: usize) -> usize {
        alike.filter(|other| other.number < number).count()
    }
    let all = || processors.iter().copied();
    // Its position within its core, then its position within its node among processors with that position.
    let thread = |of: Processor| before(all().filter(|other| other.core == of.core), of.number);
    let in_node = |of: Processor| {
        let alike = all().filter(|other| other.node == of.node && thread(*other) == thread(of));
        before(alike, of.number)
    };
    let mut order: Vec<_> = all()
        .map(|of| ((thread(of), in_node(of), of.node, of.number), of))
        .collect();
    order.sort_unstable_by_key(|(key, _)| *key);
    order.truncate(ranks);
    order.sort_by_key(|(_, of)| of.node);
    order.into_iter().map(|(_, of)| of.number).collect()
}

/// Describes the binding for a person: which ranks, from `first` on, run on which processors of which node.
pub(crate) fn describe(
    first: usize,
    bound: &[usize],
    node: impl Fn(usize) -> Option<usize>,
) -> String {
    let mut parts: Vec<(Option<usize>, usize, Vec<String>)> = Vec::new();
    for (rank, &processor) in (first..).zip(bound) {
        let node = node(processor);
        match parts.last_mut() {
            Some((last, _, numbers)) if *last == node => numbers.push(processor.to_string()),
            _ => parts.push((node, rank, vec![processor.to_string()])),
        }
    }
    let part = |(node, from, numbers): (Option<usize>, usize, Vec<String>)| {
        let to = from + numbers.len() - 1;
        let ranks = if from == to {
            format!("rank {from}")
        } else {
            format!("ranks {from}-{to}")
        };
        let node = node.map_or(String::new(), |node| format!(" of node {node}"));
        let processors = if from == to {
            "processor"
        } else {
            "processors"
        };
        format!("{ranks} on {processors} {}{node}", numbers.join(", "))
    };
    let parts: Vec<String> = parts.into_iter().map(part).collect();
    format!("bound: {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_come_before_their_second_threads() {
        let one_node = |pairs: &[(usize, usize)]| {
            let of = |&(number, core)| Processor {
                number,
                core,
                node: 0,
            };
            spread(&pairs.iter().map(of).collect::<Vec<_>>(), usize::MAX)
        };
        assert_eq!(one_node(&[(0, 0), (1, 0), (2, 2), (3, 2)]), [0, 2, 1, 3]);
        assert_eq!(one_node(&[(0, 0), (1, 1), (4, 0), (5, 1)]), [0, 1, 4, 5]);
        // Only allowed processors count: this process may not use the first thread of core 0.
        assert_eq!(one_node(&[(1, 0), (2, 2), (3, 2)]), [1, 2, 3]);
    }

    /// Two nodes of two cores with two threads each, numbered as on many systems: node by node, second threads last.
    fn two_nodes() -> Vec<Processor> {
        let of = |number: usize| Processor {
            number,
            core: number % 4,
            node: number % 4 / 2,
        };
        (0..8).map(of).collect()
    }

    #[test]
    fn nodes_get_as_many_ranks_and_neighbours_stay_together() {
        for (ranks, expected) in [
            (1, &[0][..]),
            (2, &[0, 2]),
            (3, &[0, 1, 2]),
            (4, &[0, 1, 2, 3]),
            (6, &[0, 1, 4, 2, 3, 6]),
            (8, &[0, 1, 4, 5, 2, 3, 6, 7]),
            (9, &[0, 1, 4, 5, 2, 3, 6, 7]),
        ] {
            assert_eq!(spread(&two_nodes(), ranks), expected, "{ranks} ranks");
        }
    }

    #[test]
    fn a_person_reads_which_ranks_lie_where() {
        let node = |number: usize| Some(number % 4 / 2);
        assert_eq!(
            describe(4, &[0, 1, 4, 2], node),
            "bound: ranks 4-6 on processors 0, 1, 4 of node 0; rank 7 on processor 2 of node 1"
        );
        assert_eq!(describe(0, &[3], |_| None), "bound: rank 0 on processor 3");
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
