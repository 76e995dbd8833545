//! The native half of the Python package `cobre_comm`.
//!
//! | for | look at |
//! |---|---|
//! | the Python classes and `connect` | `communicator`, `region`, `connect` |
//! | the collectives | `reduce`, `exact`, `gather`, `broadcast`, `object` |
//! | turning an argument into bytes | `argument`, `numpy`, `memory` |
//! | exceptions | `errors` |
//! | Ctrl-C inside a blocked call | `interrupt` |
//! | the ranks that `run` starts | `job` |
//!
//! Architecture invariant: this crate does not communicate itself. A call from Python becomes one call of the byte level of
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

/// The contents of `cobre_comm._native`.
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
        // The benchmark accepts only optimised builds.
        module.add("OPTIMISED", !cfg!(debug_assertions))?;
        // Now, so that no call has to wait for it and a missing numpy is reported at once.
        crate::numpy::numpy(module.py()).map(drop)
    }
}
