//! Why a rank could not join its job, and how MPI errors are reported.

use comm_api::{CommError, FailureKind, Operation};
use ferrompi::Error;

pub use comm_kit::{InitError, InitErrorKind};

/// Reports which step of the start failed in MPI.
#[cold]
pub(crate) fn start(step: &str, error: &Error) -> InitError {
    let message = match error {
        Error::AlreadyInitialized | Error::Finalized => {
            format!(
                "{error}; something else in this process started or ended MPI, or this is a forked child: create \
                 the first communicator in the process that mpiexec started, before anything else uses MPI"
            )
        }
        _ => format!("{step}: {error}; see what mpiexec printed"),
    };
    InitError::failed(&[], message)
}

/// The loader found another library than that of the `mpi.h` that this program was built with.
#[cold]
pub(crate) fn another_library(header: &str, library: &str, folder: Option<&str>) -> InitError {
    let folder = folder.unwrap_or("/folder/of/libmpi");
    let message = format!(
        "this program was built with the mpi.h of {header} and loaded the library of {library}; build it with \
         RUSTFLAGS=\"-C link-arg=-Wl,-rpath,{folder}\", or set LD_LIBRARY_PATH={folder} for all ranks"
    );
    InitError::failed(&[], message)
}

/// The first communicator of this process was created with the other setting.
#[cold]
pub(crate) fn unlike_the_first(first: bool, variable: &'static str) -> InitError {
    let (first, now) = if first {
        ("with", "without")
    } else {
        ("without", "with")
    };
    let message = format!(
        "the first communicator of this process was created {first} checks ({variable}), this one is configured {now} \
         them; use the same setting for all communicators of a process"
    );
    InitError::invalid(&[variable], message)
}

/// A dedicated thread initialised MPI, which admits no other.
#[cold]
pub(crate) fn main_thread_only() -> InitError {
    let message = "this MPI library lets only one thread call it: call init on the main thread";
    InitError::failed(&[], message)
}

/// Converts an MPI error to an error of the contract.
#[cold]
pub(crate) fn mpi(operation: Operation, rank: usize, error: &Error) -> CommError {
    match error {
        Error::ThreadLevelViolation => wrong_thread(operation, rank),
        Error::Finalized => CommError::invalid_communicator(),
        Error::Mpi { code, .. } => {
            let message =
                format!("{error}; this communicator is no longer usable; restart the job");
            CommError::mpi(operation, None, *code, message)
        }
        _ => CommError::failed(operation, FailureKind::Mpi, None, error.to_string()),
    }
}

/// MPI was started with a thread level at which this thread may not call it.
#[cold]
pub(crate) fn wrong_thread(operation: Operation, rank: usize) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        "this MPI library lets only the thread that called init call it; make the call there",
    )
}

/// Another thread is inside MPI, and the library admits one at a time.
#[cold]
pub(crate) fn one_at_a_time(operation: Operation, rank: usize) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        "this MPI library lets one thread call it at a time, and another is inside; wait until it returns",
    )
}
