//! What a person reads, and which errors end a communicator.

use comm_api::{CommError, FailureKind, ReduceOp, ScalarKind};
use rstest::rstest;

fn every_error() -> Vec<CommError> {
    let kinds = [
        FailureKind::PeerLost,
        FailureKind::TimedOut,
        FailureKind::Mismatch,
        FailureKind::Refused,
        FailureKind::Aborted,
        FailureKind::Io,
        FailureKind::Mpi,
        FailureKind::Application,
    ];
    let collective = kinds.map(|kind| CommError::failed("barrier", kind, Some(3), "why"));
    let others = [
        CommError::InvalidBufferSize {
            operation: "allreduce",
            expected: 4,
            actual: 5,
        },
        CommError::InvalidRoot { root: 4, size: 4 },
        CommError::InvalidCommunicator,
        CommError::AllocationFailed {
            requested_bytes: 64,
            message: String::from("why"),
        },
        CommError::UnsupportedReduction {
            op: ReduceOp::BitwiseOr,
            scalar: ScalarKind::F32,
        },
    ];
    collective.into_iter().chain(others).collect()
}

#[test]
fn refusals_bad_arguments_and_failures_of_the_program_leave_the_communicator_usable() {
    for error in every_error() {
        let fatal = match &error {
            CommError::CollectiveFailed { kind, .. } => {
                !matches!(kind, FailureKind::Refused | FailureKind::Application)
            }
            other => matches!(other, CommError::InvalidCommunicator),
        };
        assert_eq!(error.is_fatal(), fatal, "{error:?}");
    }
}

#[test]
fn every_message_is_one_line() {
    for error in every_error() {
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
        assert_eq!(error.clone(), error);
    }
}

#[rstest]
#[case(
    CommError::failed("allreduce", FailureKind::PeerLost, Some(2), "killed by signal 9"),
    "allreduce: peer lost, rank 2: killed by signal 9"
)]
#[case(
    CommError::failed("fence", FailureKind::Io, None, ""),
    "fence: i/o failure"
)]
#[case(
    CommError::application("solve", "no feasible point"),
    "solve: application failure: no feasible point"
)]
#[case(
    CommError::CollectiveFailed {
        operation: "barrier",
        kind: FailureKind::Mpi,
        rank: None,
        mpi_error_code: 15,
        message: String::from("truncated"),
    },
    "barrier: MPI failure, MPI error 15: truncated"
)]
#[case(
    CommError::InvalidBufferSize { operation: "allgatherv", expected: 6, actual: 5 },
    "allgatherv: expected a length of 6, got 5; nothing was sent, correct the arguments and call again"
)]
#[case(
    CommError::InvalidRoot { root: 7, size: 4 },
    "broadcast: root 7 is not a rank of a communicator of size 4; use 0..4"
)]
#[case(
    CommError::UnsupportedReduction { op: ReduceOp::BitwiseAnd, scalar: ScalarKind::F64 },
    "allreduce: BitwiseAnd is not defined for f64; bitwise operations take integers only"
)]
fn messages(#[case] error: CommError, #[case] text: &str) {
    assert_eq!(error.to_string(), text);
}

#[test]
fn an_error_crosses_threads_and_boxes() {
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(CommError::InvalidCommunicator);
    assert!(boxed.downcast_ref::<CommError>().is_some());
}
