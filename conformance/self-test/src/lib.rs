//! The suite, tested: the reference passes it, and every defective communicator fails.
//!
//! A separate package, because the suite is compiled with optimisation, and these tests need none.
