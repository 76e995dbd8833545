//! Which ranks share processors.

use std::fs;

/// Returns a number that is equal for processes of one running system, containers included.
pub(crate) fn id() -> u64 {
    let name = || rustix::system::uname().nodename().to_bytes().to_vec();
    let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| name());
    boot.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
