//! Random jobs, determined by a number and a seed.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable that selects other jobs than the default ones.
const SEED: &str = "COMM_RUN_TEST_SEED";

/// Pseudo-random numbers from a seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(number: usize, seed: u64) -> Self {
        Self(seed.wrapping_mul(1_000_003).wrapping_add(number as u64))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }

    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Runs jobs with a number and a seed, many at once: they should disturb each other, and most of a job is waiting. Runs more than
/// the `usual` number on request.
pub fn in_turn(usual: usize, at_once: usize, run: impl Fn(usize, u64) + Sync) {
    let jobs = super::asked_for(super::MORE_JOBS).map_or(usual, |jobs| jobs as usize);
    let seed = super::asked_for(SEED).map_or(1, u64::from);
    let next = AtomicUsize::new(0);
    let worker = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= jobs {
                break;
            }
            run(number, seed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(worker);
        }
    });
}
