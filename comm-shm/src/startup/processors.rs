//! How many processors the ranks of a job may use together.
//!
//! A rank that is bound to one processor sees only that one. Whether ranks may spin depends on the processors
//! of all ranks: each rank adds its own to a common set before it counts as attached, and counts the set when
//! all have attached.

use comm_kit::processors;

use crate::protocol::sync::{AtomicU64, Ordering};
use crate::segment::layout::PROCESSOR_WORDS;

/// Adds the processors of the calling thread to the set of its job.
pub(crate) fn add(set: &[AtomicU64; PROCESSOR_WORDS]) {
    for processor in processors::allowed().unwrap_or_default() {
        if let Some(word) = set.get(processor / 64) {
            // Relaxed: the others read the set after they saw that this rank has attached.
            word.fetch_or(1 << (processor % 64), Ordering::Relaxed);
        }
    }
}

/// Returns how many processors the ranks of a job have together: those of the set, limited by the quota of
/// this process.
pub(crate) fn count(set: &[AtomicU64; PROCESSOR_WORDS]) -> usize {
    let ones = |word: &AtomicU64| word.load(Ordering::Relaxed).count_ones() as usize;
    match set.iter().map(ones).sum() {
        0 => processors::usable(),
        together => processors::quota().map_or(together, |quota| within(together, quota)),
    }
}

/// Returns how many of `count` processors a quota allows to run all the time, at least one.
fn within(count: usize, quota: f64) -> usize {
    let whole = (1_u32..).take(count);
    let allowed = whole.take_while(|&whole| f64::from(whole) <= quota);
    allowed.count().max(1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::thread;

    use comm_kit::wait::Policy;
    use rustix::thread::{CpuSet, sched_setaffinity};

    use super::*;
    use crate::ShmConfig;
    use crate::segment::Segment;

    /// Returns whether ranks that are bound to these processors, one each, spin.
    fn spin(name: &str, bound: [usize; 2]) -> [bool; 2] {
        let name = format!("cobre-unit-{}-{name}", std::process::id());
        let ranks = [0, 1].map(|rank| {
            let (name, processor) = (name.clone(), bound[rank]);
            thread::spawn(move || {
                let mut set = CpuSet::new();
                set.set(processor);
                sched_setaffinity(None, &set).expect("one of ours");
                assert_eq!(thread::available_parallelism().map_or(0, usize::from), 1);
                let segment = Segment::open(&ShmConfig::new(&name, rank, 2), 0).expect("attaches");
                Policy::new(2, segment.processors()).is_roomy()
            })
        });
        ranks.map(|rank| rank.join().expect("no panic"))
    }

    #[test]
    fn ranks_bound_to_one_processor_each_spin() {
        let allowed = processors::allowed().expect("the system says");
        let [first, second, ..] = allowed[..] else {
            assert_eq!(spin("one", [allowed[0]; 2]), [false; 2]);
            return;
        };
        assert_eq!(spin("same", [first; 2]), [false; 2]);
        let quota = processors::quota().is_none_or(|quota| quota >= 2.0);
        assert_eq!(spin("own", [first, second]), [quota; 2]);
    }

    #[test]
    fn a_quota_counts_in_whole_processors() {
        for (count, quota, expected) in [(4, 2.5, 2), (4, 8.0, 4), (4, 0.5, 1), (1, 1.0, 1)] {
            assert_eq!(within(count, quota), expected);
        }
    }
}
