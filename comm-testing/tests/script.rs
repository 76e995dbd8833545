//! A communicator that follows a script.

use comm_api::{CommError, Communicator, FailureKind, Operation, ReduceOp};
use comm_testing::Script;

#[test]
fn every_collective_answers_what_the_script_says() {
    let comm = Script::new(1, 2)
        .then_barrier()
        .then_allgatherv(&[1_u64, 2, 3])
        .then_allreduce(&[7_i32])
        .then_broadcast(&[[1_u8, 2]]);
    assert_eq!((comm.rank(), comm.size()), (1, 2));
    comm.barrier().unwrap();
    let mut all = [0_u64; 3];
    comm.allgatherv(&[3], &mut all, &[2, 1], &[0, 2]).unwrap();
    assert_eq!(all, [1, 2, 3]);
    let mut sum = [0];
    comm.allreduce(&[1], &mut sum, ReduceOp::Sum).unwrap();
    assert_eq!(sum, [7]);
    let mut buf = [[0_u8; 2]];
    comm.broadcast(&mut buf, 0).unwrap();
    assert_eq!(buf, [[1, 2]]);
}

#[test]
fn a_fatal_failure_stays_and_another_does_not() {
    let refused = CommError::failed("any", FailureKind::Refused, Some(1), "why");
    let lost = CommError::failed("any", FailureKind::PeerLost, Some(3), "killed");
    let comm = Script::new(0, 4)
        .then_fail(refused)
        .then_barrier()
        .then_fail(lost);
    let text = |result: Result<(), CommError>| result.unwrap_err().placeless().to_string();
    assert_eq!(text(comm.barrier()), "barrier: refused, rank 1: why");
    comm.barrier().unwrap();
    let broadcast = comm.broadcast(&mut [0], 0);
    assert_eq!(text(broadcast), "broadcast: peer lost, rank 3: killed");
    assert_eq!(text(comm.barrier()), "barrier: peer lost, rank 3: killed");
}

#[test]
fn wrong_arguments_take_no_line() {
    let comm = Script::new(0, 2).then_broadcast(&[1_u8]);
    let error = comm.broadcast(&mut [0_u8], 2);
    assert_eq!(
        error,
        Err(CommError::invalid_root(Operation::Broadcast, 2, 2))
    );
    comm.broadcast(&mut [0_u8], 1).unwrap();
}

#[test]
#[should_panic(expected = "the script and the program differ")]
fn another_collective_than_the_script_says_panics() {
    let comm = Script::new(0, 2).then_barrier();
    let _ = comm.broadcast(&mut [0_u8], 0);
}

#[test]
#[should_panic(expected = "the script and the program differ")]
fn another_length_than_the_script_says_panics() {
    let comm = Script::new(0, 2).then_broadcast(&[1_u8, 2]);
    let _ = comm.broadcast(&mut [0_u8], 0);
}

#[test]
#[should_panic(expected = "the script has ended, and the program calls barrier")]
fn more_than_the_script_says_panics() {
    let _ = Script::new(0, 2).barrier();
}

#[test]
#[should_panic(expected = "1 lines before its script")]
fn less_than_the_script_says_panics() {
    drop(Script::new(0, 2).then_barrier());
}

#[test]
#[should_panic(expected = "called abort(7)")]
fn abort_is_a_panic() {
    Script::new(0, 1).abort(7);
}
