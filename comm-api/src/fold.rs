//! The fold: the arithmetic of every reduction on every backend.

use crate::error::{Argument, CommError};
use crate::op::{ReduceOp, ScalarKind};
use crate::operation::Operation;

impl ReduceOp {
    /// Folds `next` into `acc`, element by element: `acc = op(acc, next)`.
    ///
    /// Every backend reduces by calling this once per rank, in rank order, starting from the bytes of
    /// rank 0. So a result does not depend on the backend, the algorithm or how the buffer was cut.
    ///
    /// # Contract
    ///
    /// - Integers wrap.
    /// - `Sum` and `Prod` of floats are one IEEE 754 addition or multiplication, never fused, never
    ///   reassociated. The loop is vectorised across elements; ranks are never combined before their turn.
    /// - `Min` and `Max` of floats are IEEE 754-2019 `minimum` and `maximum`: a NaN on either side
    ///   wins, and -0 < +0.
    /// - A NaN in `acc` after the fold is the canonical quiet NaN, `0x7ff8_0000_0000_0000` or
    ///   `0x7fc0_0000`: which payload an operation keeps is up to the compiler and the machine.
    /// - With two operands, either order gives the same bits. With more, the order matters.
    /// - The buffers may have any alignment.
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidBufferSize`] if the lengths differ or are no whole number of scalars,
    /// [`CommError::UnsupportedReduction`] for a bitwise operation on floats. `acc` is untouched then.
    ///
    /// ```
    /// use comm_api::{ReduceOp, ScalarKind};
    ///
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// let mut acc = 1e300_f64.to_ne_bytes();
    /// for next in [-1e300_f64, 1.0] {
    ///     ReduceOp::Sum.fold_into(&mut acc, &next.to_ne_bytes(), ScalarKind::F64)?;
    /// }
    /// assert_eq!(f64::from_ne_bytes(acc), 1.0);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn fold_into(
        self,
        acc: &mut [u8],
        next: &[u8],
        scalar: ScalarKind,
    ) -> Result<(), CommError> {
        same_length("next", acc.len(), next.len())?;
        fold(acc, next, acc.len(), scalar, self)
    }

    /// Folds the beginning of each row into `acc`, one after the other: the same bits as [`fold_into`](Self::fold_into) with each of them.
    ///
    /// For short rows: dispatching on the operation and the scalar would take longer than folding one of them.
    ///
    /// # Errors
    ///
    /// As [`fold_into`](Self::fold_into); [`CommError::InvalidBufferSize`] if a row is shorter than `acc` or no whole number of scalars.
    ///
    /// ```
    /// use comm_api::{ReduceOp, ScalarKind};
    ///
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// let mut acc = [1, 10];
    /// ReduceOp::Sum.fold_rows(&mut acc, &[[2, 20, 9], [3, 30, 9]], ScalarKind::U8)?;
    /// assert_eq!(acc, [6, 60]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn fold_rows<const S: usize>(
        self,
        acc: &mut [u8],
        rows: &[[u8; S]],
        scalar: ScalarKind,
    ) -> Result<(), CommError> {
        let size = scalar.size();
        same_length("rows", acc.len().max(S / size * size), S)?;
        fold(acc, rows.as_flattened(), S, scalar, self)
    }
}

/// Folds rows that begin `stride` bytes apart.
fn fold(
    acc: &mut [u8],
    rows: &[u8],
    stride: usize,
    scalar: ScalarKind,
    op: ReduceOp,
) -> Result<(), CommError> {
    match scalar {
        ScalarKind::I8 => i8::fold(acc, rows, stride, op),
        ScalarKind::I16 => i16::fold(acc, rows, stride, op),
        ScalarKind::I32 => i32::fold(acc, rows, stride, op),
        ScalarKind::I64 => i64::fold(acc, rows, stride, op),
        ScalarKind::U8 => u8::fold(acc, rows, stride, op),
        ScalarKind::U16 => u16::fold(acc, rows, stride, op),
        ScalarKind::U32 => u32::fold(acc, rows, stride, op),
        ScalarKind::U64 => u64::fold(acc, rows, stride, op),
        ScalarKind::F32 => f32::fold(acc, rows, stride, op),
        ScalarKind::F64 => f64::fold(acc, rows, stride, op),
    }
}

#[inline]
fn same_length(argument: &'static str, expected: usize, actual: usize) -> Result<(), CommError> {
    if expected == actual {
        return Ok(());
    }
    Err(CommError::invalid_buffer_size(
        Operation::Allreduce,
        Argument::Other(argument),
        expected,
        actual,
    ))
}

/// Folds rows that begin `stride` bytes apart, a whole number of scalars, and are at least as long as `acc`.
trait Fold {
    fn fold(acc: &mut [u8], rows: &[u8], stride: usize, op: ReduceOp) -> Result<(), CommError>;
}

/// The two operands of a fold, as arrays of `N` bytes: loads of any alignment.
struct Pairs<'a, const N: usize> {
    acc: &'a mut [[u8; N]],
    rows: &'a [[u8; N]],
    /// The elements from one row to the next.
    stride: usize,
}

impl<'a, const N: usize> Pairs<'a, N> {
    #[inline]
    fn of(acc: &'a mut [u8], rows: &'a [u8], stride: usize) -> Result<Self, CommError> {
        same_length("acc", acc.len() / N * N, acc.len())?;
        let ((acc, _), (rows, _)) = (acc.as_chunks_mut(), rows.as_chunks());
        let stride = stride / N;
        Ok(Self { acc, rows, stride })
    }

    /// Applies `f` to all pairs. One loop per operation and scalar, without branches inside, is
    /// what the compiler turns into vector instructions. With several rows, each column is folded in a register.
    #[inline]
    fn apply(&mut self, mut f: impl FnMut([u8; N], [u8; N]) -> [u8; N]) {
        if self.rows.len() <= self.stride {
            for (a, &b) in self.acc.iter_mut().zip(self.rows) {
                *a = f(*a, b);
            }
            return;
        }
        for (column, a) in self.acc.iter_mut().enumerate() {
            let mut at = column;
            while let Some(&b) = self.rows.get(at) {
                *a = f(*a, b);
                at += self.stride;
            }
        }
    }
}

macro_rules! integers {
    ($($t:ident),+) => {$(
        impl Fold for $t {
            fn fold(
                acc: &mut [u8],
                rows: &[u8],
                stride: usize,
                op: ReduceOp,
            ) -> Result<(), CommError> {
                let mut pairs = Pairs::of(acc, rows, stride)?;
                let get = $t::from_ne_bytes;
                match op {
                    ReduceOp::Sum => pairs.apply(|a, b| get(a).wrapping_add(get(b)).to_ne_bytes()),
                    ReduceOp::Min => pairs.apply(|a, b| get(a).min(get(b)).to_ne_bytes()),
                    ReduceOp::Max => pairs.apply(|a, b| get(a).max(get(b)).to_ne_bytes()),
                    ReduceOp::BitwiseOr => pairs.apply(|a, b| (get(a) | get(b)).to_ne_bytes()),
                    ReduceOp::BitwiseAnd => pairs.apply(|a, b| (get(a) & get(b)).to_ne_bytes()),
                    ReduceOp::Prod => pairs.apply(|a, b| get(a).wrapping_mul(get(b)).to_ne_bytes()),
                    ReduceOp::BitwiseXor => pairs.apply(|a, b| (get(a) ^ get(b)).to_ne_bytes()),
                }
                Ok(())
            }
        }
    )+};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// Folds floats and only records, in the same loop, whether a result is a NaN; the rare buffer with
/// one is traversed again. A select per element would cost a third of the speed of an addition.
///
/// Equal operands of `Min` and `Max` are two equal numbers or two zeros. Taking each operand once
/// on a tie, `or` keeps the sign of a -0 for the minimum and `and` drops it for the maximum;
/// `or` with all ones is a NaN.
macro_rules! floats {
    ($($t:ident as $bits:ident, $scalar:ident, $canonical:literal);+) => {$(
        impl Fold for $t {
            fn fold(
                acc: &mut [u8],
                rows: &[u8],
                stride: usize,
                op: ReduceOp,
            ) -> Result<(), CommError> {
                let mut pairs = Pairs::of(acc, rows, stride)?;
                let get = $t::from_ne_bytes;
                let mut nan = 0;
                let mut unordered = |a: $t, b: $t| {
                    let mask = if a.is_nan() | b.is_nan() { $bits::MAX } else { 0 };
                    nan |= mask;
                    mask
                };
                match op {
                    ReduceOp::Sum => pairs.apply(|a, b| {
                        let sum = get(a) + get(b);
                        unordered(sum, sum);
                        sum.to_ne_bytes()
                    }),
                    ReduceOp::Prod => pairs.apply(|a, b| {
                        let product = get(a) * get(b);
                        unordered(product, product);
                        product.to_ne_bytes()
                    }),
                    ReduceOp::Min => pairs.apply(|a, b| {
                        let (a, b) = (get(a), get(b));
                        let (x, y) = (if a < b { a } else { b }, if b < a { b } else { a });
                        (x.to_bits() | y.to_bits() | unordered(a, b)).to_ne_bytes()
                    }),
                    ReduceOp::Max => pairs.apply(|a, b| {
                        let (a, b) = (get(a), get(b));
                        let (x, y) = (if a > b { a } else { b }, if b > a { b } else { a });
                        (x.to_bits() & y.to_bits() | unordered(a, b)).to_ne_bytes()
                    }),
                    ReduceOp::BitwiseOr | ReduceOp::BitwiseAnd | ReduceOp::BitwiseXor => {
                        let scalar = ScalarKind::$scalar;
                        return Err(CommError::unsupported_reduction(Operation::Allreduce, op, scalar));
                    }
                }
                if nan != 0 {
                    let canonical: $bits = $canonical;
                    for a in pairs.acc.iter_mut().filter(|a| get(**a).is_nan()) {
                        *a = canonical.to_ne_bytes();
                    }
                }
                Ok(())
            }
        }
    )+};
}

floats!(f32 as u32, F32, 0x7fc0_0000; f64 as u64, F64, 0x7ff8_0000_0000_0000);
