//! `cargo +nightly fuzz run any_bytes`, in `comm-tcp`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| comm_tcp::fuzzing::any_bytes(bytes));
