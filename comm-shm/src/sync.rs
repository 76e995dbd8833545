//! The atomics of the protocol: those of the machine, or those a model explores.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, TryLockError,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use std::sync::TryLockError;
