//! The accumulator.

use std::fmt;
use std::ops::AddAssign;

use comm_api::bytemuck::{Pod, Zeroable};

use crate::bins;
use crate::digits::{self, DIGITS, Digits, ROOM, SPREAD};

/// A sum of `f64` without rounding errors.
///
/// The result depends neither on the order of the numbers nor on how they are split over ranks and threads:
/// [`value`](Self::value) is the exact sum, rounded once. Every number and every product of two numbers is
/// added exactly, including the smallest and the largest ones.
///
/// ```
/// use comm_exact::ExactSum;
///
/// let mut sum = ExactSum::new();
/// sum.extend(&[1e100, 1.0, -1e100]);
/// assert_eq!(sum.value(), 1.0);
/// assert_eq!(1e100 + 1.0 - 1e100, 0.0);
/// ```
///
/// Non-finite numbers follow IEEE 754: a NaN gives a NaN, and so do infinities of both signs, or an infinity
/// times zero. The sum of nothing is 0; the sum of `-0.0` alone is `-0.0`.
///
/// An accumulator is 1 120 bytes of plain old data, so it can be sent and stored in shared regions. Any bytes
/// are a valid accumulator: the value of bytes that no accumulator wrote is meaningless, but nothing panics.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
#[bytemuck(crate = "comm_api::bytemuck")]
pub struct ExactSum {
    digits: Digits,
    /// How many additions the digits count as: no digit exceeds this times 2^32.
    pending: i64,
    /// What the digits cannot represent. Zero means no, and any other value yes.
    seen: Seen,
}

/// The words of an accumulator: integers, whose sum does not depend on the order.
pub(crate) type Words = [i64; DIGITS + 6];
const _: () = assert!(size_of::<Words>() == size_of::<ExactSum>());

/// Records what was added besides the numbers that the digits hold.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
#[bytemuck(crate = "comm_api::bytemuck")]
struct Seen {
    nan: i64,
    infinity: i64,
    negative_infinity: i64,
    negative_zero: i64,
    /// Anything other than `-0.0`.
    other: i64,
}

const NEGATIVE_ZERO: u64 = 1 << 63;

impl ExactSum {
    /// Creates an empty sum, which is 0.
    #[must_use]
    pub const fn new() -> Self {
        let seen = Seen {
            nan: 0,
            infinity: 0,
            negative_infinity: 0,
            negative_zero: 0,
            other: 0,
        };
        Self {
            digits: [0; DIGITS],
            pending: 0,
            seen,
        }
    }

    /// Adds one number.
    #[inline]
    pub fn add(&mut self, number: impl Into<f64>) {
        let number = number.into();
        self.make_room(1);
        self.seen.note_zeros(number.to_bits() ^ NEGATIVE_ZERO);
        if !digits::add(&mut self.digits, number) {
            self.seen.note_special(number);
        }
    }

    /// Adds every number of a slice: `f64`, or a type that converts to `f64` without loss, such as `f32` and
    /// `i32`.
    pub fn extend<T: Copy + Into<f64>>(&mut self, numbers: &[T]) {
        const CHUNK: usize = 1 << 30;
        for chunk in numbers.chunks(CHUNK) {
            self.make_room(i64::try_from(chunk.len()).unwrap_or(ROOM));
            let Self { digits, seen, .. } = self;
            if chunk.len() < bins::WORTHWHILE {
                seen.extend(digits, chunk);
            } else if bins::extend(digits, chunk, |digits, block| seen.extend(digits, block)) {
                seen.other = 1;
            }
        }
    }

    /// Adds the product of two numbers without rounding it: a sum of products is exact.
    ///
    /// ```
    /// use comm_exact::ExactSum;
    ///
    /// let mut dot = ExactSum::new();
    /// dot.add_product(1e200, 1e200);
    /// dot.add_product(3.0, 0.5);
    /// dot.add_product(-1e200, 1e200);
    /// assert_eq!(dot.value(), 1.5);
    /// ```
    #[inline]
    pub fn add_product(&mut self, a: impl Into<f64>, b: impl Into<f64>) {
        let (a, b) = (a.into(), b.into());
        self.make_room(1);
        let zero = a == 0.0 || b == 0.0;
        let negative = a.is_sign_negative() != b.is_sign_negative();
        self.seen.note_zeros(u64::from(!(zero && negative)));
        if !digits::add_product(&mut self.digits, a, b) {
            // Only the kind of the result counts: a product of non-finite numbers is not rounded.
            self.seen.note_special(a * b);
        }
    }

    /// Adds another accumulator, for example that of another thread.
    pub fn merge(&mut self, other: &Self) {
        let mut other = *other;
        if other.pending > ROOM / 2 || other.pending < 0 {
            other.spread();
        }
        self.make_room(other.pending);
        digits::merge(&mut self.digits, &other.digits);
        self.seen.merge(&other.seen);
    }

    /// Returns the sum: the nearest `f64`, with ties to even.
    ///
    /// Infinite only if the exact sum, rounded like that, exceeds the largest `f64`, or if an infinity was
    /// added.
    #[must_use]
    pub fn value(&self) -> f64 {
        let seen = &self.seen;
        let (up, down) = (seen.infinity != 0, seen.negative_infinity != 0);
        if seen.nan != 0 || (up && down) {
            return f64::NAN;
        }
        if up {
            return f64::INFINITY;
        }
        if down {
            return f64::NEG_INFINITY;
        }
        let negative = seen.negative_zero != 0 && seen.other == 0;
        let zero = if negative { -0.0 } else { 0.0 };
        digits::round(&self.digits).unwrap_or(zero)
    }

    /// Prepares the accumulator for a reduction: however many ranks add theirs, no word overflows.
    pub(crate) fn settle(&mut self) {
        self.spread();
        self.seen.settle();
    }

    /// Reserves headroom for `more` additions.
    #[inline]
    fn make_room(&mut self, more: i64) {
        // As unsigned numbers, because the bytes may come from an untrusted source.
        let pending = self
            .pending
            .cast_unsigned()
            .saturating_add(more.cast_unsigned());
        if pending > ROOM.cast_unsigned() {
            self.spread();
            self.pending += more;
        } else {
            self.pending = pending.cast_signed();
        }
    }

    #[cold]
    fn spread(&mut self) {
        digits::spread(&mut self.digits);
        self.pending = SPREAD;
    }
}

impl Seen {
    /// Adds numbers one by one to the digits, and records what these do not hold.
    #[inline]
    fn extend<T: Copy + Into<f64>>(&mut self, digits: &mut Digits, numbers: &[T]) {
        let mut other = 0;
        for &number in numbers {
            let number: f64 = number.into();
            other |= number.to_bits() ^ NEGATIVE_ZERO;
            if !digits::add(digits, number) {
                self.note_special(number);
            }
        }
        self.note_zeros(other);
    }

    /// Records numbers, given as the union of their bits that differ from `-0.0`.
    #[inline]
    fn note_zeros(&mut self, other: u64) {
        if other == 0 {
            self.negative_zero = 1;
        } else {
            self.other = 1;
        }
    }

    #[cold]
    fn note_special(&mut self, number: f64) {
        if number.is_nan() {
            self.nan = 1;
        } else if number > 0.0 {
            self.infinity = 1;
        } else {
            self.negative_infinity = 1;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.nan |= other.nan;
        self.infinity |= other.infinity;
        self.negative_infinity |= other.negative_infinity;
        self.negative_zero |= other.negative_zero;
        self.other |= other.other;
    }

    fn settle(&mut self) {
        let Self {
            nan,
            infinity,
            negative_infinity,
            negative_zero,
            other,
        } = self;
        for word in [nan, infinity, negative_infinity, negative_zero, other] {
            *word = i64::from(*word != 0);
        }
    }
}

impl Default for ExactSum {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ExactSum {
    /// Shows the value, not the digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExactSum").field(&self.value()).finish()
    }
}

impl<T: Into<f64>> AddAssign<T> for ExactSum {
    fn add_assign(&mut self, number: T) {
        self.add(number);
    }
}

impl<T: Into<f64>> FromIterator<T> for ExactSum {
    /// Adds up all numbers.
    ///
    /// ```
    /// use comm_exact::ExactSum;
    ///
    /// let sum: ExactSum = (1..=100).collect();
    /// assert_eq!(sum.value(), 5050.0);
    /// ```
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Self {
        let mut sum = Self::new();
        numbers.into_iter().for_each(|number| sum.add(number));
        sum
    }
}
