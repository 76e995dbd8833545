//! Which machine this is: a name for people and a number for programs.

use std::fs;

/// Returns the name of this machine, or `localhost` if it has none.
///
/// Two machines may have the same name, and containers of one machine different ones: see [`id`].
#[must_use]
pub fn name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    match name.trim() {
        "" => String::from("localhost"),
        name => name.to_owned(),
    }
}

/// Returns a number that is equal for processes of one running system, containers included.
#[must_use]
pub fn id() -> u64 {
    let boot = fs::read("/proc/sys/kernel/random/boot_id");
    let boot = boot.unwrap_or_else(|_| name().into_bytes());
    boot.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_a_word_and_the_number_stays() {
        let name = name();
        assert!(
            !name.is_empty() && !name.contains(char::is_whitespace),
            "{name:?}"
        );
        assert_eq!(id(), id());
    }
}
