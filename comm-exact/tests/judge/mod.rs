//! The exact sum as an integer, and a check whether a number is the nearest one.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file is a crate of its own and uses a part"
)]

use comm_exact::ExactSum;
use num_bigint::{BigInt, Sign};

/// An exact sum in units of 2^-2148.
#[derive(Debug, Clone, Default)]
pub struct Exact(BigInt);

impl Exact {
    pub fn add_product(&mut self, a: f64, b: f64) {
        self.0 += units(a) * units(b);
    }

    pub fn double(&mut self) {
        self.0 *= 2;
    }

    /// Checks by distance: no other `f64` is nearer, and ties go to the even one.
    pub fn rounds_to(&self, value: f64) -> bool {
        let Self(exact) = self;
        if exact.sign() != Sign::NoSign && value.is_sign_negative() != (exact.sign() == Sign::Minus)
        {
            return false;
        }
        // What would follow the largest number.
        let beyond: BigInt = BigInt::from(1) << (1024 + 2148);
        let place = |number: f64| match number {
            f64::INFINITY => beyond.clone(),
            f64::NEG_INFINITY => -&beyond,
            _ => units(number) << 1074,
        };
        let here = place(value);
        let away = exact - &here;
        let towards = if away.sign() == Sign::Minus {
            value.next_down()
        } else {
            value.next_up()
        };
        let outwards = value.is_infinite() && (value > 0.0) == (away.sign() != Sign::Minus);
        if outwards {
            return true;
        }
        let gap = (place(towards) - here).magnitude().clone();
        let twice = away.magnitude() * 2_u32;
        twice < gap || (twice == gap && value.to_bits().is_multiple_of(2))
    }
}

impl FromIterator<f64> for Exact {
    fn from_iter<I: IntoIterator<Item = f64>>(numbers: I) -> Self {
        let sum: BigInt = numbers.into_iter().map(units).sum();
        Self(sum << 1074)
    }
}

/// Returns a finite number in units of 2^-1074.
fn units(number: f64) -> BigInt {
    let bits = number.to_bits();
    let (exponent, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    let magnitude = match exponent {
        0 => BigInt::from(fraction),
        _ => BigInt::from(fraction | 1 << 52) << (exponent - 1),
    };
    if number.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

pub fn bits(sum: &ExactSum) -> u64 {
    sum.value().to_bits()
}
