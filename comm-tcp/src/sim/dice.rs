//! Chance that can be repeated.

use std::time::Duration;

/// Numbers that look random, the same for the same seed.
#[derive(Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(super) fn rank(&mut self, size: usize) -> usize {
        usize::try_from(self.below(size as u64)).unwrap()
    }

    pub(super) fn micros(&mut self, limit: u64) -> Duration {
        Duration::from_micros(self.below(limit))
    }
}
