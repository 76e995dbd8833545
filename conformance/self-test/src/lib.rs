//! The suite, tested: the reference passes it, and every communicator with a fault fails.
//!
//! A package of its own, because the suite is compiled with optimisation, and these tests need none.
