//! What a person reads, and which errors end a communicator.

use comm_api::{Argument, CommError, FailureKind, Operation, ReduceOp, ScalarKind, Scope};
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
        CommError::invalid_buffer_size(Operation::Allreduce, Argument::Recv, 4, 5),
        CommError::invalid_root(Operation::Broadcast, 4, 4),
        CommError::invalid_communicator(),
        CommError::allocation_failed(64, String::from("why")),
        CommError::unsupported_reduction(
            Operation::Allreduce,
            ReduceOp::BitwiseOr,
            ScalarKind::F32,
        ),
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
            other => matches!(other, CommError::InvalidCommunicator { .. }),
        };
        assert_eq!(error.is_fatal(), fatal, "{error:?}");
    }
}

#[test]
fn what_is_fatal_to_a_region_is_not_fatal_to_its_communicator() {
    for error in every_error() {
        let scope = error.is_fatal().then_some(Scope::Communicator);
        assert_eq!(error.fatal_to(), scope, "{error}");
        let fence = error.again("fence");
        let of_a_call = matches!(fence, CommError::CollectiveFailed { .. });
        let scope = if of_a_call {
            Scope::Region
        } else {
            Scope::Communicator
        };
        let scope = error.is_fatal().then_some(scope);
        assert_eq!(fence.fatal_to(), scope, "{fence}");
        // What fails an exchange fails the communicator that made it.
        assert_ne!(error.again("exchange").fatal_to(), Some(Scope::Region));
    }
}

/// A `main` that returns an error prints it with `{:?}`.
#[test]
fn what_a_main_that_fails_prints_is_the_message() {
    for error in every_error() {
        assert_eq!(format!("{error:?}"), error.to_string());
        let boxed: Box<dyn std::error::Error> = Box::new(error.clone());
        assert_eq!(format!("{boxed:?}"), error.to_string());
    }
    let lost = CommError::failed("barrier", FailureKind::PeerLost, Some(3), "why");
    let fields = format!("{lost:#?}");
    for part in ["CollectiveFailed {", "kind: PeerLost", "3", "\"why\""] {
        assert!(fields.contains(part), "no {part} in {fields}");
    }
}

/// Logs and scripts rely on them.
#[test]
fn short_names_do_not_change() {
    let names: Vec<_> = every_error().iter().map(CommError::as_str).collect();
    let kinds = "peer_lost timed_out mismatch refused aborted io mpi application";
    let others = "invalid_buffer_size invalid_root invalid_communicator allocation_failed unsupported_reduction";
    assert_eq!(names.join(" "), format!("{kinds} {others}"));
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
    CommError::mpi(Operation::Barrier, None, 15, "truncated"),
    "barrier: MPI failure, MPI error 15: truncated"
)]
#[case(
    CommError::invalid_buffer_size(Operation::Allgatherv, Argument::Recv, 6, 5),
    "allgatherv: recv has a length of 5, expected 6; nothing was sent, correct the arguments and call again"
)]
#[case(
    CommError::invalid_buffer_size(Operation::Allgatherv, Argument::Counts, 3, 4),
    "allgatherv: counts has 4 entries, expected 3, one per rank; nothing was sent, correct the arguments and call again"
)]
#[case(
    CommError::invalid_buffer_size(Operation::Allgatherv, Argument::Overlap(1, 2), 30, 10),
    "allgatherv: displs lets the blocks of ranks 1 and 2 overlap; all blocks cover 10 elements of recv, expected 30; nothing \
     was sent, correct the arguments and call again"
)]
#[case(
    CommError::invalid_buffer_size("exact_sums", Argument::Other("totals"), 3, 2),
    "exact_sums: totals has a length of 2, expected 3; nothing was sent, correct the arguments and call again"
)]
#[case(
    CommError::invalid_root(Operation::Broadcast, 7, 4),
    "broadcast: root 7 is not a rank of a communicator of size 4; use 0..4"
)]
#[case(
    CommError::unsupported_reduction(Operation::Allreduce, ReduceOp::BitwiseAnd, ScalarKind::F64),
    "allreduce: BitwiseAnd is not defined for f64; bitwise operations take integers only"
)]
fn messages(#[case] error: CommError, #[case] text: &str) {
    assert_eq!(error.to_string(), text);
}

#[test]
fn an_error_crosses_threads_and_boxes() {
    let boxed: Box<dyn std::error::Error + Send + Sync> =
        Box::new(CommError::invalid_communicator());
    assert!(boxed.downcast_ref::<CommError>().is_some());
}
