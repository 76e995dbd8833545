//! Ctrl-C inside a blocked call.
//!
//! Python only notes a signal and runs its handler later, in the main thread, between two instructions of the interpreter. A rank
//! that is blocked in a collective executes none. The hook of the kit asks for it: about every 20 ms, while the rank sleeps, it
//! takes the lock of the interpreter and lets Python run the handlers. An exception from one (`KeyboardInterrupt`, or whatever a
//! handler of the program raises) ends the call on every rank and is raised instead of its error.
//!
//! In another thread than the main one Python runs no handlers, and a blocked call goes on: the main thread gets the exception.

use std::cell::RefCell;

use pyo3::prelude::*;

thread_local! {
    /// What a handler raised inside the call of this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Installs the hook.
pub(crate) fn install() {
    comm_kit::interrupt::set_hook(|| {
        // Not at the end of the interpreter, when nobody can be called any more.
        let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
        let is_raised = raised.is_some();
        if is_raised {
            RAISED.set(raised);
        }
        is_raised
    });
}

/// Returns what a handler raised inside the call that this thread has just ended.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.take()
}
