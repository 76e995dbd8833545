//! Every refusal of the contract, with its numbers, in its order, before anything is sent.

mod common;

use comm_api::{
    Argument, Blocks, CommError, Communicator, CommunicatorExt, Operation, ReduceOp, ScalarKind,
    check,
};
use common::{Event, Recorder};
use rstest::rstest;

const MAX: usize = usize::MAX;

fn size_error(
    operation: Operation,
    argument: Argument,
    expected: usize,
    actual: usize,
) -> CommError {
    CommError::invalid_buffer_size(operation, argument, expected, actual)
}

/// The call must be refused with `error`, announce exactly that, and send nothing.
fn assert_refused(
    comm: &Recorder,
    result: &Result<(), CommError>,
    operation: Operation,
    error: &CommError,
) {
    assert_eq!(result.as_ref(), Err(error));
    assert_eq!(comm.events(), [Event::Refused(operation, error.clone())]);
    assert!(
        !error.is_fatal(),
        "a refusal leaves the communicator usable"
    );
}

#[rstest]
// The lists have one entry per rank: counts first, then displs, before anything else.
#[case::counts_short(2, 9, &[2, 2], &[], Argument::Counts, 3, 2)]
#[case::counts_empty(2, 9, &[], &[], Argument::Counts, 3, 0)]
#[case::counts_long(0, 9, &[1, 2, 3, 4], &[0, 1, 3], Argument::Counts, 3, 4)]
#[case::displs_short(0, 9, &[1, 2, 3], &[0, 1], Argument::Displs, 3, 2)]
#[case::displs_long(0, 0, &[1, 2, 3], &[0, 1, 3, 6], Argument::Displs, 3, 4)]
// Then what this rank sends.
#[case::send_short(1, 9, &[1, 2, 3], &[0, 1, 3], Argument::Send, 2, 1)]
#[case::send_long(3, 9, &[1, 2, 3], &[0, 1, 3], Argument::Send, 2, 3)]
#[case::send_before_recv(0, 0, &[1, 2, 3], &[MAX, MAX, MAX], Argument::Send, 2, 0)]
// Then the ends of the blocks: the length that all of them need.
#[case::recv_short(2, 5, &[1, 2, 3], &[0, 1, 3], Argument::Recv, 6, 5)]
#[case::recv_empty(2, 0, &[1, 2, 3], &[0, 1, 3], Argument::Recv, 6, 0)]
#[case::one_block_past(2, 6, &[1, 2, 3], &[9, 1, 3], Argument::Recv, 10, 6)]
#[case::the_furthest_counts(2, 6, &[1, 2, 3], &[9, 20, 3], Argument::Recv, 22, 6)]
#[case::empty_block_past(2, 6, &[0, 2, 3], &[7, 1, 3], Argument::Recv, 7, 6)]
#[case::displ_max(2, 6, &[1, 2, 3], &[MAX, 1, 3], Argument::Recv, MAX, 6)]
#[case::count_max(2, 6, &[1, 2, MAX], &[0, 1, 3], Argument::Recv, MAX, 6)]
#[case::both_max(2, 6, &[MAX, 2, MAX], &[MAX, 1, MAX], Argument::Recv, MAX, 6)]
#[case::end_just_fits_usize(2, 6, &[1, 2, 3], &[MAX - 1, 1, 3], Argument::Recv, MAX, 6)]
#[case::past_before_overlap(2, 5, &[2, 2, 2], &[0, 0, 4], Argument::Recv, 6, 5)]
// Then overlap: the sum of the counts against the elements covered.
#[case::neighbours_overlap(2, 9, &[2, 2, 3], &[0, 1, 4], Argument::Overlap(0, 1), 7, 6)]
#[case::same_block_twice(2, 9, &[2, 2, 2], &[0, 0, 4], Argument::Overlap(0, 1), 6, 4)]
#[case::first_and_last(2, 9, &[2, 2, 3], &[0, 5, 1], Argument::Overlap(0, 2), 7, 6)]
#[case::descending(2, 9, &[3, 2, 2], &[2, 1, 0], Argument::Overlap(1, 2), 7, 5)]
#[case::one_inside_another(2, 9, &[9, 2, 1], &[0, 4, 8], Argument::Overlap(0, 1), 12, 9)]
#[case::around_an_empty_one(2, 9, &[3, 2, 0], &[0, 2, 1], Argument::Overlap(0, 1), 5, 4)]
fn allgatherv(
    #[case] send_len: usize,
    #[case] recv_len: usize,
    #[case] counts: &[usize],
    #[case] displs: &[usize],
    #[case] argument: Argument,
    #[case] expected: usize,
    #[case] actual: usize,
) {
    let comm = Recorder::new(1, 3);
    let mut recv = vec![0_u16; recv_len];
    let result = comm.allgatherv(&vec![1; send_len], &mut recv, counts, displs);
    let error = size_error(Operation::Allgatherv, argument, expected, actual);
    assert_refused(&comm, &result, Operation::Allgatherv, &error);
    assert_eq!(recv, vec![0; recv_len]);
}

#[rstest]
#[case::packed(2, 6, &[1, 2, 3], &[0, 1, 3])]
#[case::gaps(2, 12, &[1, 2, 3], &[1, 4, 9])]
#[case::descending(2, 6, &[1, 2, 3], &[5, 3, 0])]
#[case::all_empty(0, 0, &[0, 0, 0], &[0, 0, 0])]
#[case::empty_inside_another(0, 4, &[4, 0, 0], &[0, 2, 4])]
#[case::empty_first_and_out_of_order(2, 4, &[2, 2, 0], &[2, 0, 1])]
#[case::empty_at_the_end(0, 3, &[1, 0, 2], &[0, 3, 1])]
fn allgatherv_takes(
    #[case] send_len: usize,
    #[case] recv_len: usize,
    #[case] counts: &[usize],
    #[case] displs: &[usize],
) {
    let comm = Recorder::new(1, 3);
    let mut recv = vec![0_u32; recv_len];
    comm.allgatherv(&vec![1; send_len], &mut recv, counts, displs)
        .unwrap();
    let event = Event::Allgatherv {
        send_bytes: 4 * send_len,
        elem_size: 4,
    };
    assert_eq!(comm.events(), [event]);
}

#[test]
fn zero_sized_elements_are_counted_too() {
    let comm = Recorder::new(1, 2);
    let result = comm.allgatherv(&[(); 2], &mut [(); 9], &[7, 3], &[0, 7]);
    assert_refused(
        &comm,
        &result,
        Operation::Allgatherv,
        &size_error(Operation::Allgatherv, Argument::Send, 3, 2),
    );

    let comm = Recorder::new(1, 2);
    let result = comm.allgatherv(&[(); 3], &mut [(); 9], &[7, 3], &[0, 7]);
    assert_refused(
        &comm,
        &result,
        Operation::Allgatherv,
        &size_error(Operation::Allgatherv, Argument::Recv, 10, 9),
    );

    // Only of zero-sized elements can there be so many that an end overflows and still "fits".
    let mut recv = [(); MAX];
    let comm = Recorder::new(1, 2);
    let result = comm.allgatherv(&[(); 3], &mut recv, &[7, 3], &[MAX - 3, 0]);
    assert_refused(
        &comm,
        &result,
        Operation::Allgatherv,
        &size_error(Operation::Allgatherv, Argument::Recv, MAX, MAX),
    );
    let message = result.unwrap_err().to_string();
    let words = format!("recv has a length of {MAX}, expected more than can be counted;");
    assert!(message.contains(&words), "{message}");

    let comm = Recorder::new(1, 2);
    comm.allgatherv(&[(); 3], &mut recv, &[MAX - 3, 3], &[3, 0])
        .unwrap();
    comm.broadcast(&mut recv, 1).unwrap();
    let gathered = Event::Allgatherv {
        send_bytes: 0,
        elem_size: 0,
    };
    let sent = Event::Broadcast {
        bytes: 0,
        elem_size: 0,
        root: 1,
    };
    assert_eq!(comm.events(), [gathered, sent]);
}

#[rstest]
#[case::recv_short(3, 2, ReduceOp::Sum, 3, 2)]
#[case::recv_long(3, 4, ReduceOp::Max, 3, 4)]
#[case::recv_empty(3, 0, ReduceOp::Sum, 3, 0)]
#[case::send_empty(0, 3, ReduceOp::Sum, 0, 3)]
#[case::lengths_before_the_operation(1, 2, ReduceOp::BitwiseOr, 1, 2)]
fn allreduce(
    #[case] send_len: usize,
    #[case] recv_len: usize,
    #[case] op: ReduceOp,
    #[case] expected: usize,
    #[case] actual: usize,
) {
    let comm = Recorder::new(0, 4);
    let mut recv = vec![0.0_f32; recv_len];
    let result = comm.allreduce(&vec![1.0; send_len], &mut recv, op);
    let error = size_error(Operation::Allreduce, Argument::Recv, expected, actual);
    assert_refused(&comm, &result, Operation::Allreduce, &error);
}

#[test]
fn an_allreduce_of_nothing_is_a_call_like_others() {
    let comm = Recorder::new(0, 4);
    let result = comm.allreduce::<f32>(&[], &mut [], ReduceOp::Min);
    assert_eq!(result, Ok(()));
    let (op, scalar) = (ReduceOp::BitwiseAnd, ScalarKind::F32);
    let result = comm.allreduce::<f32>(&[], &mut [], op);
    assert_eq!(
        result,
        Err(CommError::unsupported_reduction(
            Operation::Allreduce,
            op,
            scalar
        ))
    );
}

#[rstest]
fn bitwise_on_floats(
    #[values(ReduceOp::BitwiseOr, ReduceOp::BitwiseAnd, ReduceOp::BitwiseXor)] op: ReduceOp,
) {
    let comm = Recorder::new(0, 4);
    let error = CommError::unsupported_reduction(Operation::Allreduce, op, ScalarKind::F32);
    let result = comm.allreduce(&[1.0_f32], &mut [0.0], op);
    assert_refused(&comm, &result, Operation::Allreduce, &error);

    let comm = Recorder::new(0, 4);
    let error = CommError::unsupported_reduction(Operation::Allreduce, op, ScalarKind::F64);
    let result = comm.allreduce(&[1.0_f64], &mut [0.0], op);
    assert_refused(&comm, &result, Operation::Allreduce, &error);
}

#[rstest]
fn broadcast(#[values(4, 5, MAX)] root: usize) {
    let comm = Recorder::new(0, 4);
    let result = comm.broadcast(&mut [1_u8, 2], root);
    assert_refused(
        &comm,
        &result,
        Operation::Broadcast,
        &CommError::invalid_root(Operation::Broadcast, root, 4),
    );

    let comm = Recorder::new(0, 4);
    comm.broadcast::<u64>(&mut [], 3).unwrap();
    assert_eq!(
        comm.events(),
        [Event::Broadcast {
            bytes: 0,
            elem_size: 8,
            root: 3
        }]
    );
}

#[rstest]
#[case::short(2, 5, 6)]
#[case::long(2, 7, 6)]
#[case::empty(0, 1, 0)]
fn allgather(#[case] send_len: usize, #[case] recv_len: usize, #[case] expected: usize) {
    let comm = Recorder::new(0, 3);
    let result = comm.allgather(&vec![1_u8; send_len], &mut vec![0; recv_len]);
    let error = size_error(
        Operation::Other("allgather"),
        Argument::Recv,
        expected,
        recv_len,
    );
    assert_refused(&comm, &result, Operation::Other("allgather"), &error);
}

#[test]
fn allgather_of_more_than_can_be_counted() {
    let comm = Recorder::new(0, 3);
    let result = comm.allgather(&[(); MAX / 2], &mut [(); MAX]);
    assert_refused(
        &comm,
        &result,
        Operation::Other("allgather"),
        &size_error(Operation::Other("allgather"), Argument::Recv, MAX, MAX),
    );
}

/// A rank outside of its own communicator is the backend's mistake, and still no panic.
#[test]
fn a_rank_out_of_range_is_an_error() {
    let comm = Recorder::new(3, 3);
    let result = comm.allgatherv(&[1_u8], &mut [0; 3], &[1; 3], &[0, 1, 2]);
    assert_eq!(result, Err(CommError::invalid_communicator()));
}

#[test]
fn the_byte_level_refuses_parts_of_elements() {
    let gather = |send: usize, recv: usize, elem_size| {
        let (send, recv) = (vec![0; send], vec![0; recv]);
        check::allgatherv_bytes(0, 2, &send, &recv, Blocks::new(&[1, 2], &[0, 1]), elem_size)
    };
    assert_eq!(gather(8, 24, 8), Ok(()));
    assert_eq!(
        gather(7, 24, 8),
        Err(size_error(Operation::Allgatherv, Argument::Send, 0, 7))
    );
    assert_eq!(
        gather(8, 30, 8),
        Err(size_error(Operation::Allgatherv, Argument::Recv, 24, 30))
    );
    assert_eq!(
        gather(8, 16, 8),
        Err(size_error(Operation::Allgatherv, Argument::Recv, 3, 2))
    );
    assert_eq!(gather(0, 0, 0), Ok(()));
    assert_eq!(
        gather(1, 0, 0),
        Err(size_error(Operation::Allgatherv, Argument::Send, 0, 1))
    );
    assert_eq!(
        gather(8, 24, MAX),
        Err(size_error(Operation::Allgatherv, Argument::Send, 0, 8))
    );

    let reduce = |send: usize, recv: usize, scalar| {
        check::allreduce_bytes(&vec![0; send], &vec![0; recv], scalar, ReduceOp::Sum)
    };
    assert_eq!(reduce(16, 16, ScalarKind::F64), Ok(()));
    assert_eq!(
        reduce(12, 12, ScalarKind::F64),
        Err(size_error(Operation::Allreduce, Argument::Send, 8, 12))
    );
    assert_eq!(
        reduce(16, 8, ScalarKind::F64),
        Err(size_error(Operation::Allreduce, Argument::Recv, 2, 1))
    );
    assert_eq!(
        reduce(16, 12, ScalarKind::F64),
        Err(size_error(Operation::Allreduce, Argument::Recv, 16, 12))
    );
    assert_eq!(reduce(0, 0, ScalarKind::U8), Ok(()));

    let broadcast =
        |len: usize, elem_size, root| check::broadcast_bytes(2, &vec![0; len], elem_size, root);
    assert_eq!(broadcast(6, 3, 1), Ok(()));
    assert_eq!(broadcast(0, 0, 0), Ok(()));
    assert_eq!(
        broadcast(6, 3, 2),
        Err(CommError::invalid_root(Operation::Broadcast, 2, 2))
    );
    assert_eq!(
        broadcast(7, 3, 1),
        Err(size_error(Operation::Broadcast, Argument::Buf, 6, 7))
    );
    assert_eq!(
        broadcast(7, 0, 1),
        Err(size_error(Operation::Broadcast, Argument::Buf, 0, 7))
    );
}

#[test]
fn lengths_for_which_there_is_no_memory_are_refused_on_all_ranks() {
    let comm = Recorder::new(0, 2);
    let error = comm.allgather_vec(&[1.0]).unwrap_err();
    assert!(
        matches!(error, CommError::AllocationFailed { .. }),
        "{error}"
    );
    let lengths = Event::Allgatherv {
        send_bytes: 8,
        elem_size: 8,
    };
    let refused = Event::Refused(Operation::Other("allgather_vec"), error);
    assert_eq!(comm.events(), [lengths, refused]);
}
