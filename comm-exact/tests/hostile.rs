//! Bytes that no accumulator wrote, and calls that cannot work.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use comm_api::bytemuck::cast_slice;
use comm_api::{Argument, Blocks, CommError, Communicator, Operation, ReduceOp};
use comm_exact::{ExactSum, exact_sums};
use comm_local::LocalBackend;
use proptest::prelude::*;

const WORDS: usize = size_of::<ExactSum>() / size_of::<i64>();

/// Words that are likely to cause an overflow.
fn word() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        Just(i64::MIN),
        Just(i64::MAX),
        Just(-1),
        Just(0),
        -4_i64..4,
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_some_accumulator(
        words in proptest::collection::vec(word(), 2 * WORDS),
        number: f64,
        factor: f64,
    ) {
        let sums: &[ExactSum] = cast_slice(&words);
        let mut sum = sums[0];
        let _ = sum.value();
        sum.add(number);
        sum.add_product(number, factor);
        sum.extend(&[number; 2000]);
        sum.merge(&sums[1]);
        let before = sum.value();
        let reduced = sum.allreduce(&LocalBackend).unwrap().value();
        prop_assert_eq!(before.to_bits(), reduced.to_bits());
    }
}

#[test]
fn totals_of_another_length_are_refused() {
    let mut sums = [ExactSum::new(); 3];
    let error = exact_sums(&LocalBackend, &mut sums, &mut [0.0; 2]).unwrap_err();
    let CommError::InvalidBufferSize {
        operation,
        argument,
        expected,
        actual,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (operation, expected, actual),
        (Operation::Other("exact_sums"), 3, 2)
    );
    assert_eq!(argument, Argument::Other("totals"));
}

/// A communicator of many ranks that all contribute the same.
#[derive(Debug)]
struct Alike(i64);

impl Communicator for Alike {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        usize::try_from(self.0).unwrap()
    }

    fn barrier(&self) -> Result<(), CommError> {
        Ok(())
    }

    fn abort(&self, _: i32) -> ! {
        panic!("this test does not abort")
    }

    fn allgatherv_bytes(
        &self,
        _: &[u8],
        _: &mut [u8],
        _: Blocks<'_>,
        _: usize,
    ) -> Result<(), CommError> {
        panic!("a sum is reduced")
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: comm_api::ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        assert_eq!((scalar, op), (comm_api::ScalarKind::I64, ReduceOp::Sum));
        let recv = recv.chunks_exact_mut(8);
        for (send, recv) in send.chunks_exact(8).zip(recv) {
            let word = i64::from_ne_bytes(send.try_into().unwrap());
            // Panics if a word does not fit.
            recv.copy_from_slice(&(word * self.0).to_ne_bytes());
        }
        Ok(())
    }

    fn broadcast_bytes(&self, _: &mut [u8], _: usize, _: usize) -> Result<(), CommError> {
        panic!("a sum is reduced")
    }
}

/// However much each rank has added, and however many ranks there are.
#[test]
fn no_word_overflows_on_the_way() {
    for number in [f64::MAX, f64::MIN, -5e-324, 1.0 - f64::EPSILON] {
        let mut sum = ExactSum::new();
        sum.add(number);
        for _ in 0..30 {
            let same = sum;
            sum.merge(&same);
        }
        let ranks = 1 << 28;
        let all = sum.allreduce(&Alike(ranks)).unwrap();
        let mut sums = [sum];
        let mut totals = [0.0];
        exact_sums(&Alike(ranks), &mut sums, &mut totals).unwrap();
        let mut expected = sum;
        for _ in 0..28 {
            let same = expected;
            expected.merge(&same);
        }
        for found in [all.value(), sums[0].value(), totals[0]] {
            assert_eq!(found.to_bits(), expected.value().to_bits(), "{number:e}");
        }
    }
}
