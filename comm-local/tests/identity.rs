//! Which calls copy and which do nothing: the two must not be confused.

use comm_api::{Blocks, CommError, Communicator, ReduceOp, ScalarKind};
use comm_local::LocalBackend;
use rstest::rstest;

#[test]
fn takes_no_room() {
    assert_eq!(size_of::<LocalBackend>(), 0);
    assert_eq!(LocalBackend::new(), LocalBackend);
    assert_eq!((LocalBackend.rank(), LocalBackend.size()), (0, 1));
}

#[rstest]
fn allgatherv_copies(#[values(0, 1, 5, 1000)] len: usize, #[values(0, 3)] displ: usize) {
    let send: Vec<u32> = (0..).map(|i| i * 7 + 1).take(len).collect();
    let mut recv = vec![u32::MAX; len + displ + 2];
    LocalBackend
        .allgatherv(&send, &mut recv, &[len], &[displ])
        .unwrap();
    assert_eq!(recv[displ..displ + len], send);
    assert!(
        recv[..displ]
            .iter()
            .chain(&recv[displ + len..])
            .all(|&gap| gap == u32::MAX)
    );
}

#[rstest]
fn allreduce_copies_bit_for_bit(
    #[values(ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max)] op: ReduceOp,
) {
    // One rank: the result is the input, including a NaN's payload and signalling bit.
    let bits = [0x7ff0_0000_0000_0001, 0xfff8_dead_beef_0001, 1 << 63, 1_u64];
    let send = bits.map(f64::from_bits);
    let mut recv = [0.0; 4];
    LocalBackend.allreduce(&send, &mut recv, op).unwrap();
    assert_eq!(recv.map(f64::to_bits), bits);
}

#[test]
fn broadcast_and_barrier_touch_nothing() {
    let mut buf = [3, 1, 2];
    LocalBackend.broadcast(&mut buf, 0).unwrap();
    LocalBackend.barrier().unwrap();
    assert_eq!(buf, [3, 1, 2]);
}

#[rstest]
#[case::lists(LocalBackend.allgatherv_bytes(&[1], &mut [0], Blocks::new(&[], &[]), 1))]
#[case::ends(LocalBackend.allgatherv_bytes(&[1], &mut [0], Blocks::new(&[1], &[usize::MAX]), 1))]
#[case::bytes_overflow(LocalBackend.allgatherv_bytes(&[1; 8], &mut [0; 8], Blocks::new(&[1], &[usize::MAX / 8]), 8))]
#[case::send(LocalBackend.allgatherv_bytes(&[1, 2], &mut [0; 9], Blocks::new(&[1], &[0]), 1))]
#[case::part_of_an_element(LocalBackend.allgatherv_bytes(&[1; 3], &mut [0; 8], Blocks::new(&[1], &[0]), 4))]
#[case::no_size(LocalBackend.allgatherv_bytes(&[1], &mut [0], Blocks::new(&[1], &[0]), 0))]
#[case::reduce_lengths(LocalBackend.allreduce_bytes(&[0; 8], &mut [0; 16], ScalarKind::F64, ReduceOp::Sum))]
#[case::reduce_part(LocalBackend.allreduce_bytes(&[0; 9], &mut [0; 9], ScalarKind::F64, ReduceOp::Sum))]
#[case::reduce_bits(LocalBackend.allreduce_bytes(&[0; 8], &mut [0; 8], ScalarKind::F64, ReduceOp::BitwiseOr))]
#[case::root(LocalBackend.broadcast_bytes(&mut [0; 8], 8, 1))]
#[case::broadcast_part(LocalBackend.broadcast_bytes(&mut [0; 9], 8, 0))]
fn garbage_at_the_byte_level_is_an_error(#[case] result: Result<(), CommError>) {
    assert!(!result.unwrap_err().is_fatal());
}
