//! Whether there is memory for a case that takes much of it.

use comm_kit::memory::available;

use crate::case::Case;

/// Checks that all ranks of a case find their memory, and says what is missing.
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
        None => Err("this system does not say how much memory it has".to_owned()),
    }
}
