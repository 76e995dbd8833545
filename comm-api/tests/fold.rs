//! The one fold against a naive one that is written from the contract, bit for bit.

use comm_api::bytemuck::{bytes_of, cast_slice, pod_read_unaligned};
use comm_api::{Argument, CommError, Operation, Reduce, ReduceOp, ScalarKind};
use proptest::prelude::*;
use rstest::rstest;

/// A scalar whose reductions are spelled out, one pair at a time.
trait Naive: Reduce + PartialOrd {
    fn naive(op: ReduceOp, a: Self, b: Self) -> Self;
}

macro_rules! integers {
    ($($t:ident)+) => {$(
        impl Naive for $t {
            fn naive(op: ReduceOp, a: Self, b: Self) -> Self {
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
        }
    )+};
}

integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! floats {
    ($($t:ident $canonical:literal)+) => {$(
        impl Naive for $t {
            fn naive(op: ReduceOp, a: Self, b: Self) -> Self {
                let nan = Self::from_bits($canonical);
                if a.is_nan() || b.is_nan() {
                    return nan;
                }
                let zeros = a == 0.0 && b == 0.0;
                let a_first = if zeros { a.is_sign_negative() } else { a < b };
                match op {
                    ReduceOp::Sum if (a + b).is_nan() => nan,
                    ReduceOp::Sum => a + b,
                    ReduceOp::Prod if (a * b).is_nan() => nan,
                    ReduceOp::Prod => a * b,
                    ReduceOp::Min => if a_first { a } else { b },
                    ReduceOp::Max => if a_first { b } else { a },
                    ReduceOp::BitwiseOr | ReduceOp::BitwiseAnd | ReduceOp::BitwiseXor => {
                        unreachable!("not for floats")
                    }
                }
            }
        }
    )+};
}

floats!(f32 0x7fc0_0000 f64 0x7ff8_0000_0000_0000);

/// Patterns that float arithmetic trips over, in 64 bits and in both halves of 32.
const SPECIAL: [u64; 18] = [
    0x0000_0000_0000_0000, // +0
    0x8000_0000_0000_0000, // -0
    0x8000_0000_8000_0000, // -0, -0 (f32)
    0x0000_0000_0000_0001, // least denormal
    0x8000_0001_8000_0001, // negative denormals (f32)
    0x000f_ffff_ffff_ffff, // largest denormal
    0x0010_0000_0000_0000, // least normal
    0x3ff0_0000_3f80_0000, // 1
    0x7fef_ffff_ffff_ffff, // largest
    0x7e37_e43c_8800_759c, // 1e300
    0xfe37_e43c_8800_759c, // -1e300
    0x7ff0_0000_0000_0000, // infinity
    0xfff0_0000_ff80_0000, // -infinity
    0x7f80_0000_7f80_0000, // infinities (f32)
    0x7ff8_0000_0000_0000, // the canonical NaN
    0xfff8_dead_beef_0001, // a quiet NaN with sign and payload
    0x7ff0_0000_0000_0001, // a signalling NaN
    0x7fa0_0001_ffc0_0007, // NaNs (f32)
];

/// Bits for `len` elements: every special pattern against every other, and noise.
fn bits(len: usize, salt: u64) -> Vec<u64> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 29)
    };
    let stride = if salt.is_multiple_of(2) {
        1
    } else {
        SPECIAL.len()
    };
    let special = |i: usize| SPECIAL[i / stride % SPECIAL.len()];
    (0..len)
        .map(|i| if next() % 4 == 0 { next() } else { special(i) })
        .collect()
}

fn values<T: Reduce>(bits: &[u64]) -> Vec<T> {
    let width = size_of::<T>();
    bits.iter()
        .map(|bits| pod_read_unaligned(&bytes_of(bits)[8 - width..]))
        .collect()
}

/// Folds at an odd address, between guards that must stay.
fn folded<T: Reduce>(a: &[T], b: &[T], op: ReduceOp, shift: usize) -> Vec<u8> {
    const GUARD: u8 = 0xa5;
    let bytes: &[u8] = cast_slice(a);
    let mut acc = vec![GUARD; shift];
    acc.extend_from_slice(bytes);
    acc.extend_from_slice(&[GUARD; 16]);
    let mut next = vec![0; 16 - shift];
    next.extend_from_slice(cast_slice(b));
    let inside = shift..shift + bytes.len();
    op.fold_into(&mut acc[inside.clone()], &next[16 - shift..], T::SCALAR)
        .expect("whole scalars");
    assert!(
        acc[..shift]
            .iter()
            .chain(&acc[inside.end..])
            .all(|&byte| byte == GUARD)
    );
    acc[inside].to_vec()
}

fn agrees<T: Naive>(bits_a: &[u64], bits_b: &[u64], op: ReduceOp, shift: usize) {
    let (a, b): (Vec<T>, Vec<T>) = (values(bits_a), values(bits_b));
    let expected: Vec<T> = a
        .iter()
        .zip(&b)
        .map(|(&a, &b)| T::naive(op, a, b))
        .collect();
    let result = folded(&a, &b, op, shift);
    assert!(
        result == folded(&b, &a, op, shift),
        "{op} of {}: the order of two operands matters",
        T::SCALAR
    );
    let expected: &[u8] = cast_slice(&expected);
    for (i, (result, expected)) in result
        .chunks(size_of::<T>())
        .zip(expected.chunks(size_of::<T>()))
        .enumerate()
    {
        assert_eq!(result, expected, "{op} of {}, element {i}", T::SCALAR);
    }
}

fn agrees_as(scalar: ScalarKind, a: &[u64], b: &[u64], op: ReduceOp, shift: usize) {
    match scalar {
        ScalarKind::I8 => agrees::<i8>(a, b, op, shift),
        ScalarKind::I16 => agrees::<i16>(a, b, op, shift),
        ScalarKind::I32 => agrees::<i32>(a, b, op, shift),
        ScalarKind::I64 => agrees::<i64>(a, b, op, shift),
        ScalarKind::U8 => agrees::<u8>(a, b, op, shift),
        ScalarKind::U16 => agrees::<u16>(a, b, op, shift),
        ScalarKind::U32 => agrees::<u32>(a, b, op, shift),
        ScalarKind::U64 => agrees::<u64>(a, b, op, shift),
        ScalarKind::F32 => agrees::<f32>(a, b, op, shift),
        ScalarKind::F64 => agrees::<f64>(a, b, op, shift),
    }
}

#[rstest]
fn every_scalar_operation_and_size(
    #[values(
        ScalarKind::I8,
        ScalarKind::I16,
        ScalarKind::I32,
        ScalarKind::I64,
        ScalarKind::U8,
        ScalarKind::U16,
        ScalarKind::U32,
        ScalarKind::U64,
        ScalarKind::F32,
        ScalarKind::F64
    )]
    scalar: ScalarKind,
    #[values(
        ReduceOp::Sum,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::BitwiseOr,
        ReduceOp::BitwiseAnd,
        ReduceOp::Prod,
        ReduceOp::BitwiseXor
    )]
    op: ReduceOp,
    #[values(0, 1, 2, 3, 7, 8, 15, 16, 17, 33, 324, 1000)] len: usize,
) {
    let (a, b) = (bits(len, 2), bits(len, 3));
    if op.supports(scalar) {
        for shift in [0, 1, 4, 8, 13] {
            agrees_as(scalar, &a, &b, op, shift);
            agrees_as(scalar, &b, &a, op, shift);
        }
    } else {
        let (mut acc, next) = (vec![7; len * 8], vec![9; len * 8]);
        let error = CommError::unsupported_reduction(Operation::Allreduce, op, scalar);
        assert_eq!(op.fold_into(&mut acc, &next, scalar), Err(error));
        assert_eq!(acc, vec![7; len * 8]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bits(
        pairs in prop::collection::vec((element(), element()), 0..70),
        scalar in prop::sample::select(ScalarKind::ALL.to_vec()),
        op in prop::sample::select(ReduceOp::ALL.to_vec()),
        shift in 0_usize..16,
    ) {
        let (a, b): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
        if op.supports(scalar) {
            agrees_as(scalar, &a, &b, op, shift);
        }
    }
}

fn element() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), prop::sample::select(SPECIAL.to_vec())]
}

/// Rows at once have the bits of one after the other.
#[test]
fn rows_in_turn() {
    const ROW: usize = 40;
    for (scalar, op) in pairs() {
        for (count, len) in (0..10).flat_map(|count| (0..=5).map(move |words| (count, 8 * words))) {
            let words = bits((count + 1) * ROW / 8, count as u64);
            let (rows, _) = cast_slice(&words).as_chunks::<ROW>();
            let [first, others @ ..] = rows else {
                unreachable!("one row more than counted")
            };
            let (mut expected, mut acc) = (first[..len].to_vec(), first[..len].to_vec());
            for row in others {
                op.fold_into(&mut expected, &row[..len], scalar).unwrap();
            }
            op.fold_rows(&mut acc, others, scalar).unwrap();
            assert_eq!(
                acc, expected,
                "{op:?} of {count} rows of {len} bytes of {scalar:?}"
            );
        }
    }
}

/// Every operation with every scalar that has it.
fn pairs() -> impl Iterator<Item = (ScalarKind, ReduceOp)> {
    let all = ScalarKind::ALL
        .into_iter()
        .flat_map(|scalar| ReduceOp::ALL.map(|op| (scalar, op)));
    all.filter(|(scalar, op)| op.supports(*scalar))
}

#[test]
fn rows_that_do_not_fit() {
    let wrong = |expected, actual| {
        Err(CommError::invalid_buffer_size(
            Operation::Allreduce,
            Argument::Other("rows"),
            expected,
            actual,
        ))
    };
    let fold = |len: usize, scalar| ReduceOp::Max.fold_rows(&mut vec![7; len], &[[9; 6]], scalar);
    assert_eq!(fold(8, ScalarKind::U16), wrong(8, 6));
    assert_eq!(fold(4, ScalarKind::U32), wrong(4, 6));
    assert_eq!(fold(4, ScalarKind::U16), Ok(()));
}

/// The order is the ranks' order: from the other end 1 is lost in 1e300.
#[test]
fn left_to_right() {
    let sum = |ranks: [f64; 4]| {
        let mut acc = ranks[0].to_ne_bytes();
        for next in &ranks[1..] {
            ReduceOp::Sum
                .fold_into(&mut acc, bytes_of(next), ScalarKind::F64)
                .unwrap();
        }
        f64::from_ne_bytes(acc).to_bits()
    };
    assert_eq!(sum([1e300, -1e300, 1.0, 2.0]), 3.0_f64.to_bits());
    assert_eq!(sum([2.0, 1.0, -1e300, 1e300]), 0.0_f64.to_bits());
}

#[rstest]
#[case::lengths_differ(8, 16, ScalarKind::U8, "next", 8, 16)]
#[case::no_whole_scalars(12, 12, ScalarKind::F64, "acc", 8, 12)]
#[case::less_than_one(3, 3, ScalarKind::I32, "acc", 0, 3)]
fn refuses(
    #[case] acc: usize,
    #[case] next: usize,
    #[case] scalar: ScalarKind,
    #[case] argument: &'static str,
    #[case] expected: usize,
    #[case] actual: usize,
) {
    let mut acc = vec![7; acc];
    let result = ReduceOp::Max.fold_into(&mut acc, &vec![9; next], scalar);
    let error = CommError::invalid_buffer_size(
        Operation::Allreduce,
        Argument::Other(argument),
        expected,
        actual,
    );
    assert_eq!(result, Err(error));
    assert!(acc.iter().all(|&byte| byte == 7));
}
