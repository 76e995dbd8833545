//! A wide signed integer: every `f64`, and the product of any two, is a whole multiple of its lowest bit.
//!
//! The digits have base 2^32 and are stored in 64 bits, so that carries can be deferred: adding a number
//! changes a digit by less than 2^32, so no digit exceeds its 64 bits within 2^31 - 1 additions. The
//! arithmetic wraps, so that digits from untrusted bytes produce some number instead of a panic.
#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers are cut into digits, and positions of bits are below 5 000"
)]

/// The number of digits. The product of the two largest numbers ends in digit 131; the two digits above have
/// room for 2^95 such products.
pub(crate) const DIGITS: usize = 134;
/// The bit position of 2^0: the lowest bit is worth 2^-2148, the product of the two smallest numbers.
const POINT: u32 = 2148;
/// The bit position of the smallest number, 2^-1074.
const SMALLEST: u32 = POINT - 1074;
/// How many additions the digits can take after [`spread`] or from zero.
pub(crate) const ROOM: i64 = (1 << 31) - 1;
/// How many additions the digits count as after [`spread`].
pub(crate) const SPREAD: i64 = 2;

const TOP: usize = DIGITS - 1;
const MASK: i64 = 0xffff_ffff;
const SIGN: u64 = 1 << 63;
/// The exponent field of non-finite numbers.
pub(crate) const INFINITE: u64 = 0x7ff;

/// The digits, the lowest first. After carrying, all except the top one are unsigned.
pub(crate) type Digits = [i64; DIGITS];

/// Returns the significand of a number, including the implicit bit of a normal number.
#[inline]
pub(crate) fn significand(bits: u64) -> u64 {
    (bits & ((1 << 52) - 1)) | (u64::from(exponent(bits) != 0) << 52)
}

#[inline]
fn exponent(bits: u64) -> u64 {
    (bits >> 52) & INFINITE
}

/// Returns how far the significand of a number lies above that of the smallest number.
#[inline]
fn scale(bits: u64) -> u64 {
    exponent(bits).max(1) - 1
}

/// Adds `value` to a digit, or subtracts it if `sign` is -1 and not 0.
#[inline]
fn change(digit: &mut i64, value: u64, sign: i64) {
    let value = (value.cast_signed() ^ sign).wrapping_sub(sign);
    *digit = digit.wrapping_add(value);
}

/// Adds a number and returns whether it was finite; otherwise nothing changed.
#[inline]
pub(crate) fn add(digits: &mut Digits, number: f64) -> bool {
    let bits = number.to_bits();
    let finite = exponent(bits) != INFINITE;
    if finite {
        deposit(digits, significand(bits), bits);
    }
    finite
}

/// Adds a significand of up to 64 bits with the sign and the exponent of the number `upper`.
#[inline]
pub(crate) fn deposit(digits: &mut Digits, significand: u64, upper: u64) {
    let position = scale(upper) + u64::from(SMALLEST);
    let (index, shift) = ((position / 32) as usize, position % 32);
    let sign = upper.cast_signed() >> 63;
    let low = (significand & 0xffff_ffff) << shift;
    let high = (significand >> 32) << shift;
    change(&mut digits[index], low & 0xffff_ffff, sign);
    // The rest of the low part exactly fills the bits below the high part.
    change(
        &mut digits[index + 1],
        (low >> 32) | (high & 0xffff_ffff),
        sign,
    );
    change(&mut digits[index + 2], high >> 32, sign);
}

/// Adds a product and returns whether both factors were finite; otherwise nothing changed.
#[inline]
pub(crate) fn add_product(digits: &mut Digits, a: f64, b: f64) -> bool {
    let (left, right) = (a.to_bits(), b.to_bits());
    if exponent(left) == INFINITE || exponent(right) == INFINITE {
        return false;
    }
    // At most 106 bits.
    let product = u128::from(significand(left)) * u128::from(significand(right));
    let position = scale(left) + scale(right);
    let (index, shift) = ((position / 32) as usize, position % 32);
    let sign = (left ^ right).cast_signed() >> 63;
    let mut carried = 0;
    for (place, digit) in (0..).zip(&mut digits[index..index + 5]) {
        let part = product.checked_shr(32 * place).unwrap_or(0) as u64 & 0xffff_ffff;
        let shifted = (part << shift) | carried;
        change(digit, shifted & 0xffff_ffff, sign);
        carried = shifted >> 32;
    }
    true
}

/// Adds digit by digit; both operands' additions count.
pub(crate) fn merge(digits: &mut Digits, others: &Digits) {
    for (digit, other) in digits.iter_mut().zip(others) {
        *digit = digit.wrapping_add(*other);
    }
}

/// Passes each digit's excess to the next one, in parallel: the number stays the same, and no digit except
/// the top one exceeds 2^33.
pub(crate) fn spread(digits: &mut Digits) {
    let before = *digits;
    digits[0] = before[0] & MASK;
    for index in 1..TOP {
        digits[index] = (before[index] & MASK) + (before[index - 1] >> 32);
    }
    digits[TOP] = before[TOP].wrapping_add(before[TOP - 1] >> 32);
}

/// Carries through all digits: afterwards each digit below the top is at least 0 and below 2^32, and the top
/// one has the number's sign.
fn carry(digits: &mut Digits) {
    let mut carried = 0;
    for digit in &mut digits[..TOP] {
        let low = (*digit & MASK) + carried;
        carried = (*digit >> 32) + (low >> 32);
        *digit = low & MASK;
    }
    digits[TOP] = digits[TOP].wrapping_add(carried);
}

/// Returns the nearest `f64`, with ties to even; `None` if the number is 0.
pub(crate) fn round(digits: &Digits) -> Option<f64> {
    let mut digits = *digits;
    carry(&mut digits);
    let negative = digits[TOP] < 0;
    if negative {
        digits = digits.map(i64::wrapping_neg);
        carry(&mut digits);
    }
    let bits = Bits(&digits);
    let highest = bits.highest()?;
    // The lowest bit that the result can have.
    let lowest = SMALLEST.max(highest.saturating_sub(52));
    let kept = bits.from(lowest);
    let half = bits.from(lowest - 1) & 1 == 1;
    let up = half && (kept & 1 == 1 || bits.any_below(lowest - 1));
    // The significand's highest bit raises the exponent by one, and so does a carry out of it.
    let magnitude = (u64::from(lowest - SMALLEST) << 52).saturating_add(kept + u64::from(up));
    let magnitude = magnitude.min(INFINITE << 52);
    Some(f64::from_bits(magnitude | if negative { SIGN } else { 0 }))
}

/// Reads the bits of digits that are carried and not negative.
struct Bits<'a>(&'a Digits);

impl Bits<'_> {
    /// Returns digit `index` as if there were infinitely many; the top one counts twice, because it may hold
    /// 64 bits.
    fn digit(&self, index: usize) -> u64 {
        let top = self.0[TOP].cast_unsigned();
        match index {
            TOP => top & 0xffff_ffff,
            _ if index == DIGITS => top >> 32,
            _ => self.0.get(index).map_or(0, |digit| digit.cast_unsigned()),
        }
    }

    /// Returns the position of the highest set bit.
    fn highest(&self) -> Option<u32> {
        let mut digits = (0..=DIGITS).rev();
        let index = digits.find(|&index| self.digit(index) != 0)?;
        Some(32 * index as u32 + self.digit(index).ilog2())
    }

    /// Returns 64 bits from `position` on.
    fn from(&self, position: u32) -> u64 {
        let (index, shift) = ((position / 32) as usize, position % 32);
        let [low, middle, high] = [0, 1, 2].map(|more| self.digit(index + more));
        let wide = u128::from(low) | (u128::from(middle) << 32) | (u128::from(high) << 64);
        (wide >> shift) as u64
    }

    /// Returns whether a bit below `position` is set.
    fn any_below(&self, position: u32) -> bool {
        let (index, shift) = ((position / 32) as usize, position % 32);
        self.digit(index) & ((1 << shift) - 1) != 0
            || (0..index).any(|index| self.digit(index) != 0)
    }
}
