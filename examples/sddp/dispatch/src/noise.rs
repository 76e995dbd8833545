//! Seeded random numbers that do not depend on the rank: every stream has its own name.

/// Generates numbers from a seed (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Noise(u64);

impl Noise {
    /// Starts the stream of this name.
    pub fn new(seed: u64, name: [u64; 3]) -> Self {
        let mut noise = Self(seed);
        for part in name {
            noise.0 = noise.next() ^ part;
        }
        noise
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, or 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns a number from `low` up to `high`, from 32 random bits, so that no rounding occurs.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        let unit = f64::from((self.next() >> 32) as u32) / f64::from(u32::MAX);
        low + (high - low) * unit
    }
}
