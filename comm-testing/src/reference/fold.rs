//! The fold, one element and one rank at a time, written from the contract alone: it shares no code with the
//! backends' fold, which it checks.

use comm_api::bytemuck;
use comm_api::{Reduce, ReduceOp, ScalarKind};

/// Folds elements of one type, two at a time.
#[doc(hidden)]
pub trait Plain: Reduce {
    /// Returns `op(a, b)`.
    fn combine(op: ReduceOp, a: Self, b: Self) -> Self;

    /// Replaces a NaN by the canonical one.
    #[must_use]
    fn canonical(self) -> Self;

    /// Replaces every NaN by the canonical one.
    fn make_canonical(folded: &mut [Self]);

    /// Folds the elements of the next rank into those of the ranks before it.
    fn take_in(folded: &mut [Self], next: &[Self], op: ReduceOp);
}

/// Adds the loops for one type, so that they are compiled and optimised in this crate, and not in every test
/// that uses it.
macro_rules! loops {
    // A loop for each operation, which the compiler turns into vector instructions.
    ($op:ident, $folded:ident, $next:ident: $($each:ident),+) => {
        match $op {
            $(ReduceOp::$each => for (a, b) in $folded.iter_mut().zip($next) {
                *a = Self::combine(ReduceOp::$each, *a, *b);
            })+
        }
    };
    () => {
        fn make_canonical(folded: &mut [Self]) {
            for element in folded {
                *element = element.canonical();
            }
        }

        fn take_in(folded: &mut [Self], next: &[Self], op: ReduceOp) {
            loops!(op, folded, next: Sum, Min, Max, BitwiseOr, BitwiseAnd, Prod, BitwiseXor);
        }
    };
}

/// Folds from the left, in rank order; a NaN is made canonical once, unless a single rank leaves nothing to
/// fold.
#[doc(hidden)]
#[must_use]
pub fn fold_all<T: Plain>(all: &[Vec<T>], op: ReduceOp) -> Vec<T> {
    let [first, others @ ..] = all else {
        return Vec::new();
    };
    let mut folded = first.clone();
    for next in others {
        T::take_in(&mut folded, next, op);
    }
    if !others.is_empty() {
        T::make_canonical(&mut folded);
    }
    folded
}

/// Folds the contributions of all ranks into `recv`.
pub(super) fn bytes(brought: &[impl AsRef<[u8]>], recv: &mut [u8], kind: ScalarKind, op: ReduceOp) {
    match kind {
        ScalarKind::I8 => elements::<i8>(brought, recv, op),
        ScalarKind::I16 => elements::<i16>(brought, recv, op),
        ScalarKind::I32 => elements::<i32>(brought, recv, op),
        ScalarKind::I64 => elements::<i64>(brought, recv, op),
        ScalarKind::U8 => elements::<u8>(brought, recv, op),
        ScalarKind::U16 => elements::<u16>(brought, recv, op),
        ScalarKind::U32 => elements::<u32>(brought, recv, op),
        ScalarKind::U64 => elements::<u64>(brought, recv, op),
        ScalarKind::F32 => elements::<f32>(brought, recv, op),
        ScalarKind::F64 => elements::<f64>(brought, recv, op),
    }
}

fn elements<T: Plain>(brought: &[impl AsRef<[u8]>], recv: &mut [u8], op: ReduceOp) {
    let of = |rank: &_| -> Vec<T> {
        let bytes: &[u8] = AsRef::as_ref(rank);
        let elements = bytes[..recv.len()].chunks_exact(size_of::<T>());
        elements.map(bytemuck::pod_read_unaligned).collect()
    };
    let all: Vec<Vec<T>> = brought.iter().map(of).collect();
    recv.copy_from_slice(bytemuck::cast_slice(&fold_all(&all, op)));
}

macro_rules! integers {
    ($($t:ident),+) => {$(
        impl Plain for $t {
            fn combine(op: ReduceOp, a: Self, b: Self) -> Self {
                match op {
                    ReduceOp::Sum => a.wrapping_add(b),
                    ReduceOp::Min => if b < a { b } else { a },
                    ReduceOp::Max => if b > a { b } else { a },
                    ReduceOp::BitwiseOr => a | b,
                    ReduceOp::BitwiseAnd => a & b,
                    ReduceOp::Prod => a.wrapping_mul(b),
                    ReduceOp::BitwiseXor => a ^ b,
                }
            }

            fn canonical(self) -> Self {
                self
            }

            loops!();
        }
    )+};
}

integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

macro_rules! floats {
    ($($t:ident: $quiet:literal),+) => {$(
        impl Plain for $t {
            #[expect(clippy::float_cmp, reason = "equal numbers differ in sign only: zeros")]
            fn combine(op: ReduceOp, a: Self, b: Self) -> Self {
                match op {
                    ReduceOp::Sum => a + b,
                    ReduceOp::Prod => a * b,
                    _ if a.is_nan() || b.is_nan() => $t::from_bits($quiet),
                    ReduceOp::Min if a < b || (a == b && a.is_sign_negative()) => a,
                    ReduceOp::Min => b,
                    ReduceOp::Max if a > b || (a == b && a.is_sign_positive()) => a,
                    ReduceOp::Max => b,
                    ReduceOp::BitwiseOr | ReduceOp::BitwiseAnd | ReduceOp::BitwiseXor => {
                        unreachable!("{op} of floats")
                    }
                }
            }

            fn canonical(self) -> Self {
                if self.is_nan() { $t::from_bits($quiet) } else { self }
            }

            loops!();
        }
    )+};
}

floats!(f32: 0x7fc0_0000, f64: 0x7ff8_0000_0000_0000);

#[cfg(test)]
mod tests {
    use super::*;

    fn folded<T: Plain>(ranks: &[T], op: ReduceOp) -> T {
        let brought: Vec<Vec<u8>> = ranks
            .iter()
            .map(|value| bytemuck::bytes_of(value).to_vec())
            .collect();
        let mut recv = vec![0xee; size_of::<T>()];
        bytes(&brought, &mut recv, T::SCALAR, op);
        bytemuck::pod_read_unaligned(&recv)
    }

    /// Figures computed by hand, independent of any other fold.
    #[test]
    fn every_operation_gives_what_the_contract_says() {
        assert_eq!(folded(&[200_u8, 100], ReduceOp::Sum), 44);
        assert_eq!(folded(&[i64::MAX, 1], ReduceOp::Sum), i64::MIN);
        assert_eq!(folded(&[-3_i16, 4, -5], ReduceOp::Min), -5);
        assert_eq!(folded(&[3_u32, 9, 5], ReduceOp::Max), 9);
        assert_eq!(folded(&[0b1100_u64, 0b1010], ReduceOp::BitwiseOr), 0b1110);
        assert_eq!(folded(&[0b1100_i8, 0b1010], ReduceOp::BitwiseAnd), 0b1000);
        assert_eq!(
            folded(&[0b1100_i16, 0b1010, 1], ReduceOp::BitwiseXor),
            0b0111
        );
        assert_eq!(folded(&[16_u8, 17], ReduceOp::Prod), 16);
        assert_eq!(folded(&[i32::MIN, -1], ReduceOp::Prod), i32::MIN);
        // From the left it overflows: from the right it would be 1e300.
        let product: f64 = folded(&[1e300, 1e300, 1e-300], ReduceOp::Prod);
        assert_eq!(product.to_bits(), f64::INFINITY.to_bits());
        // From the left: from the right it would be 1.
        let left: f64 = folded(&[1.0, 1e300, -1e300], ReduceOp::Sum);
        assert_eq!(left.to_bits(), 0.0_f64.to_bits());
        let right: f64 = folded(&[1e300, -1e300, 1.0], ReduceOp::Sum);
        assert_eq!(right.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn zeros_have_signs_and_a_nan_wins_and_is_canonical_if_anything_was_folded() {
        let zeros = [0.0_f32, -0.0];
        assert!(folded(&zeros, ReduceOp::Min).is_sign_negative());
        assert!(folded(&zeros, ReduceOp::Max).is_sign_positive());
        let nan = f64::from_bits(0xfff8_0000_0000_0007);
        for op in [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Prod] {
            let bits = folded(&[nan, 1.0], op).to_bits();
            assert_eq!(bits, 0x7ff8_0000_0000_0000);
            assert_eq!(folded(&[nan], op).to_bits(), nan.to_bits());
        }
    }
}
