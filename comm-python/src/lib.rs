//! The native half of the Python package `cobre_comm`.
//!
//! | for | look at |
//! |---|---|
//! | what Python sees | `communicator`, `region`, `connect` |
//! | one collective each | `reduce`, `exact`, `gather`, `broadcast`, `object` |
//! | from an argument to bytes | `argument`, `numpy`, `memory` |
//! | what goes wrong | `errors` |
//! | Ctrl-C inside a blocked call | `interrupt` |
//! | the ranks that `run` starts | `job` |
//!
//! Architecture invariant: nothing here communicates. A call of Python becomes one call of the byte level of
//! [`Communicator`](comm_factory::api::Communicator), with the lock of the interpreter released. All `unsafe` code is in `memory`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod argument;
mod broadcast;
mod call;
mod communicator;
mod connect;
mod create;
mod errors;
mod exact;
mod gather;
mod interrupt;
mod job;
mod memory;
mod numpy;
mod object;
mod place;
mod reduce;
mod region;

/// What `cobre_comm._native` holds.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::communicator::Communicator;
    #[pymodule_export]
    use crate::connect::connect;
    #[pymodule_export]
    use crate::job::{Job, RankEnd};
    #[pymodule_export]
    use crate::region::SharedArray;

    use pyo3::types::PyModuleMethods as _;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        crate::interrupt::install();
        // The benchmark measures no other build.
        module.add("OPTIMISED", !cfg!(debug_assertions))?;
        // Now, so that no call is the first and a numpy that is missing shows at once.
        crate::numpy::numpy(module.py()).map(drop)
    }
}
