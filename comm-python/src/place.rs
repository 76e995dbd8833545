//! Where a program in Python makes a call, for the errors of that call.
//!
//! A call costs nothing more for it: only when an error is made, the thread takes the lock of the interpreter and looks at its frames.

use comm_factory::api::Place;
use pyo3::intern;
use pyo3::prelude::*;

/// The package, whose own frames are not where the program is.
const PACKAGE: &str = "cobre_comm";

/// Makes a call for the line of Python that this thread is at.
#[inline]
pub(crate) fn told<T>(call: impl FnOnce() -> T) -> T {
    Place::told_by(line, call)
}

/// Returns the line of Python that this thread is at.
fn line() -> Option<Place> {
    // Not at the end of the interpreter, when nobody can be called any more.
    Python::try_attach(|py| find(py).ok()).flatten()
}

/// Finds the innermost frame outside of the package; if all are inside, the innermost.
fn find(py: Python<'_>) -> PyResult<Place> {
    let sys = py.import(intern!(py, "sys"))?;
    let innermost = sys.call_method0(intern!(py, "_getframe"))?;
    let mut frame = innermost.clone();
    while !frame.is_none() {
        let globals = frame.getattr(intern!(py, "f_globals"))?;
        let module = globals.call_method1(intern!(py, "get"), (intern!(py, "__name__"), ""))?;
        let module: String = module.extract().unwrap_or_default();
        if module.split('.').next() != Some(PACKAGE) {
            return place_of(&frame);
        }
        frame = frame.getattr(intern!(py, "f_back"))?;
    }
    place_of(&innermost)
}

fn place_of(frame: &Bound<'_, PyAny>) -> PyResult<Place> {
    let py = frame.py();
    let code = frame.getattr(intern!(py, "f_code"))?;
    let file: String = code.getattr(intern!(py, "co_filename"))?.extract()?;
    // Of an instruction without a line it is None.
    let line: Option<u32> = frame.getattr(intern!(py, "f_lineno"))?.extract()?;
    Ok(Place::new(&file, line.unwrap_or(0)))
}
