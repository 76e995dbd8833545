//! MPI as another library of the process uses it, bypassing the bindings, in one place.
//!
//! # Safety
//!
//! - **M1** The signatures are those of the standard, and the library that the bindings link has both functions.
//! - **M2** A process calls each of them once, in this order, on one thread. Null stands for no arguments.
#![expect(
    unsafe_code,
    reason = "what the bindings initialise they remember by themselves"
)]

use std::ffi::{c_char, c_int};
use std::ptr;

// SAFETY: M1, upheld by the standard.
unsafe extern "C" {
    fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int;
    fn MPI_Finalize() -> c_int;
}

/// Initialises MPI, runs `more` and finalizes it; returns whether MPI reported success.
pub(crate) fn with_mpi(more: impl FnOnce()) -> bool {
    // SAFETY: M2, upheld by the callers, which are tests and call this once.
    let began = unsafe { MPI_Init(ptr::null_mut(), ptr::null_mut()) };
    more();
    // SAFETY: M2, after `MPI_Init` above.
    let ended = unsafe { MPI_Finalize() };
    began == 0 && ended == 0
}
