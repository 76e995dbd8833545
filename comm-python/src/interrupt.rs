//! Ctrl-C inside a blocked call.
//!
//! Python only records a signal and runs its handler later, in the main thread, between two instructions of the interpreter. A rank
//! that is blocked in a collective executes no instructions. So the hook of comm-kit, about every 20 ms while the rank sleeps,
//! takes the lock of the interpreter and lets Python run the handlers. An exception from a handler (`KeyboardInterrupt`, or another
//! one that the program raises) ends the call on every rank and is raised instead of its error.
//!
//! In other threads than the main one Python runs no handlers, so a blocked call continues there, and the main thread gets the
//! exception.

use std::cell::RefCell;

use pyo3::prelude::*;

thread_local! {
    /// The exception that a handler raised inside the call of this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Installs the hook.
pub(crate) fn install() {
    comm_kit::interrupt::set_hook(|| {
        // Not while the interpreter shuts down and can run no handlers any more.
        let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
        let is_raised = raised.is_some();
        if is_raised {
            RAISED.set(raised);
        }
        is_raised
    });
}

/// Returns the exception that a handler raised inside the call that this thread has just finished.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.take()
}
