//! Inputs that differ per rank and element, and hashes of results: small, seeded, and reproducible
//! everywhere.

use comm_api::CommData;
use comm_api::bytemuck;

/// Generates numbers from a seed (`SplitMix64`).
#[derive(Debug, Clone)]
pub(crate) struct Noise(u64);

impl Noise {
    /// Starts from a seed and an id that distinguishes this stream from others.
    pub(crate) fn new(seed: u64, stream: &[usize]) -> Self {
        let mut noise = Self(seed);
        for &part in stream {
            noise.0 = noise.next() ^ part as u64;
        }
        noise
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, or 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = (limit as u64).max(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    /// Picks one of `items`.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Picks one of `items`, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut at = self.below(items.iter().map(|(weight, _)| weight).sum());
        for &(weight, item) in items {
            match at.checked_sub(weight) {
                Some(rest) => at = rest,
                None => return item,
            }
        }
        unreachable!("a number below the sum of the weights lies within one of them")
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks_mut::<8>();
        for word in words {
            *word = self.next().to_le_bytes();
        }
        let last = self.next().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// Returns `len` elements, repeating a prime number of random ones, so that no cut into pieces aligns with
/// the period.
pub(crate) fn repeated<T: Copy>(len: usize, draw: impl FnMut() -> T) -> Vec<T> {
    let drawn: Vec<T> = std::iter::repeat_with(draw).take(len.min(9_973)).collect();
    let mut elements = Vec::with_capacity(len);
    while elements.len() < len {
        let rest = drawn.len().min(len - elements.len());
        elements.extend_from_slice(&drawn[..rest]);
    }
    elements
}

/// Returns the `len` elements that `rank` contributes to the round `round`: any bit pattern.
pub(crate) fn input<T: CommData>(round: usize, rank: usize, len: usize) -> Vec<T> {
    let mut data = vec![T::zeroed(); len];
    fill(bytemuck::cast_slice_mut(&mut data), round, rank);
    data
}

/// Fills `bytes` with the contribution of `rank` to `round`.
pub(crate) fn fill(bytes: &mut [u8], round: usize, rank: usize) {
    source(round, rank).fill(bytes);
}

/// Returns the words, in little-endian order, of the contribution of `rank` to `round`.
pub(crate) fn source(round: usize, rank: usize) -> Noise {
    Noise::new(0x00c0_b4e0, &[round, rank])
}

/// Mixes `bytes` into a hash.
pub(crate) fn mix(hash: u64, bytes: &[u8]) -> u64 {
    let mut noise = Noise(hash ^ bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    for word in words.iter().chain([&last]) {
        noise.0 = noise.next() ^ u64::from_le_bytes(*word);
    }
    noise.next()
}

/// Asserts that two buffers hold the same bytes; the message shows where they first differ.
#[track_caller]
pub(crate) fn same<T: CommData>(what: &str, actual: &[T], expected: &[T]) {
    assert_eq!(actual.len(), expected.len(), "{what}: lengths");
    let actual = bytemuck::cast_slice::<T, u8>(actual);
    let expected = bytemuck::cast_slice::<T, u8>(expected);
    if let Some(at) = differs(actual, expected) {
        let size = size_of::<T>().max(1);
        let element = at / size;
        let range = element * size..(element + 1) * size;
        panic!(
            "{what}: element {element} is {:02x?}, not {:02x?} (bytes of {} elements)",
            &actual[range.clone()],
            &expected[range],
            actual.len() / size,
        );
    }
}

fn differs(actual: &[u8], expected: &[u8]) -> Option<usize> {
    if actual == expected {
        return None;
    }
    actual.iter().zip(expected).position(|(a, b)| a != b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_differ_per_rank_round_and_element() {
        let mut words: Vec<u64> = [(0, 0), (0, 1), (1, 0), (1, 1)]
            .iter()
            .flat_map(|&(round, rank)| input::<u64>(round, rank, 50))
            .collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 200);
    }

    #[test]
    fn a_hash_sees_every_byte_and_the_length() {
        let base = mix(1, &[0; 20]);
        assert_ne!(base, mix(1, &[0; 21]));
        for at in 0..20 {
            let mut bytes = [0; 20];
            bytes[at] = 1;
            assert_ne!(base, mix(1, &bytes), "{at}");
        }
    }

    #[test]
    #[should_panic(expected = "x: element 2 is [03, 00], not [04, 00] (bytes of 3 elements)")]
    fn a_difference_is_located() {
        same("x", &[1_u16, 2, 3], &[1_u16, 2, 4]);
    }
}
