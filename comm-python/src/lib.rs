//! The native half of the Python package `cobre_comm`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod communicator;

/// What `cobre_comm._native` holds.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::communicator::{Communicator, connect};
}
