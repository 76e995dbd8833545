//! Adds long slices faster: significands with the same sign and exponent are added directly, and each of
//! these sums is added to the digits once.
#![expect(
    clippy::cast_possible_truncation,
    clippy::large_stack_arrays,
    reason = "an index has 12 bits; the bins take 32 KiB of the stack for a moment, and no allocation"
)]

use crate::digits::{self, Digits, INFINITE};

/// How many numbers the bins can hold: each adds less than 2^53 to a bin of 64 bits.
const BLOCK: usize = 1 << 11;
/// From how many numbers on this is faster than one addition per number.
pub(crate) const WORTHWHILE: usize = 1 << 10;
/// One bin for each sign and exponent.
const BINS: usize = 1 << 12;
/// The bins of non-finite numbers, of both signs.
const NOT_FINITE: [usize; 2] = [INFINITE as usize, INFINITE as usize + BINS / 2];
/// How many bins are checked together, because most are empty.
const GROUP: usize = 16;
/// With more groups in use, emptying the bins takes longer than adding the block's numbers one by one.
const MANY_GROUPS: usize = BINS / GROUP / 2;
/// How many blocks are added number by number before the bins are tried again.
const PAUSE: usize = 31;

/// Adds the numbers and returns whether any was finite and not zero. `rest` gets the blocks that must be
/// added number by number: those with a non-finite number, and those with only zeros.
///
/// Uses up no more of the digits' headroom than one addition per number.
pub(crate) fn extend<T: Copy + Into<f64>>(
    digits: &mut Digits,
    numbers: &[T],
    mut rest: impl FnMut(&mut Digits, &[T]),
) -> bool {
    let mut any = false;
    let mut bins = [0_u64; BINS];
    let mut pause = 0;
    for block in numbers.chunks(BLOCK) {
        if pause > 0 {
            pause -= 1;
            rest(digits, block);
            continue;
        }
        for &number in block {
            let number = number.into().to_bits();
            bins[(number >> 52) as usize % BINS] += digits::significand(number);
        }
        if NOT_FINITE.iter().any(|&bin| bins[bin] != 0) {
            bins.fill(0);
            rest(digits, block);
            continue;
        }
        match empty(digits, &mut bins) {
            0 => rest(digits, block),
            groups => {
                any = true;
                pause = if groups > MANY_GROUPS { PAUSE } else { 0 };
            }
        }
    }
    any
}

/// Adds every bin to the digits, resets it to zero, and returns how many groups were in use.
fn empty(digits: &mut Digits, bins: &mut [u64; BINS]) -> usize {
    let mut used = 0;
    for (group, bins) in bins.chunks_exact_mut(GROUP).enumerate() {
        if bins.iter().fold(0, |all, bin| all | bin) == 0 {
            continue;
        }
        used += 1;
        for (place, bin) in bins.iter_mut().enumerate() {
            let upper = (group * GROUP + place) as u64;
            digits::deposit(digits, std::mem::take(bin), upper << 52);
        }
    }
    used
}
