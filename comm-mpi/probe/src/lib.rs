//! Nothing: its build script looks for an MPI library.
//!
//! A crate of its own, without dependencies, so that it is there long before the bindings, whose
//! build script would fail in words that do not know the other backends.
