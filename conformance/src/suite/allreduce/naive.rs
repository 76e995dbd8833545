//! Inputs of a fold that are easily handled incorrectly.

use comm_testing::reference::Plain;

use crate::noise::{Noise, repeated};

/// A type that is folded.
pub(crate) trait Naive: Plain {
    /// Values that are easily handled incorrectly.
    const SPECIAL: &'static [Self];

    /// Returns the contribution of `rank`: special values, in an order specific to that rank.
    fn inputs(rank: usize, len: usize) -> Vec<Self>;
}

/// Adds the loop for one type, so that it is compiled and optimised in this crate, and not in every test that
/// uses it.
macro_rules! draw {
    () => {
        fn inputs(rank: usize, len: usize) -> Vec<Self> {
            let mut noise = Noise::new(7, &[rank, len]);
            repeated(len, || noise.pick(Self::SPECIAL))
        }
    };
}

macro_rules! integers {
    ($($t:ident),+) => {$(
        impl Naive for $t {
            const SPECIAL: &'static [Self] = &[
                0, 1, 2, 3, $t::MAX, $t::MIN, $t::MAX - 1, $t::MIN + 1, $t::MAX / 2, $t::MAX / 3,
                $t::MAX / 5, 100, 85, 42, 7,
            ];

            draw!();
        }
    )+};
}

integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

macro_rules! floats {
    ($($t:ident: $huge:literal, $quiet:literal, $payload:literal, $signalling:literal, $negative:literal);+) => {$(
        impl Naive for $t {
            const SPECIAL: &'static [Self] = &[
                0.0, -0.0, 1.0, -1.0, 0.1, 1.0 / 3.0, $huge, -$huge, $t::MAX, $t::MIN,
                $t::INFINITY, $t::NEG_INFINITY, $t::MIN_POSITIVE, -$t::MIN_POSITIVE / 2.0,
                $t::MIN_POSITIVE / 4.0, $t::EPSILON, $t::from_bits(1), $t::from_bits($quiet),
                $t::from_bits($payload), $t::from_bits($signalling), $t::from_bits($negative),
                3.5, -2.25, 1e7, -1e7, 12345.679, 0.3, 2.0, 1e-20, 7.0,
            ];

            draw!();
        }
    )+};
}

floats! {
    f32: 1e30, 0x7fc0_0000, 0x7fc0_1234, 0x7f80_0001, 0xffc0_0001;
    f64: 1e300, 0x7ff8_0000_0000_0000, 0x7ff8_0000_dead_beef, 0x7ff0_0000_0000_0001,
        0xfff8_0000_0000_0001
}
