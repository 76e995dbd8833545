//! Checks for enough memory for a case that needs a lot of it.

use comm_kit::memory::available;

use crate::case::Case;

/// Checks that there is memory for all ranks of a case; the error says what is missing.
pub(super) fn suffices(case: &Case, world: usize) -> Result<(), String> {
    let needed = case.memory().saturating_mul(world as u64);
    if needed == 0 {
        return Ok(());
    }
    let gib = |bytes: u64| bytes.div_ceil(1 << 30);
    match available() {
        Some(bytes) if bytes >= needed => Ok(()),
        Some(bytes) => Err(format!(
            "world {world} takes {} GiB, {} are available",
            gib(needed),
            gib(bytes)
        )),
        None => Err("this system does not report how much memory it has".to_owned()),
    }
}
