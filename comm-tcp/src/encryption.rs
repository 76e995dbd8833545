//! Which links are encrypted.

use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;

/// Which links are encrypted and authenticated, if there is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Encryption {
    /// Links beyond loopback, like `auto` in the variable.
    #[default]
    Auto = 0,
    /// All links, like `1`. Needs a secret.
    On = 1,
    /// No links, like `0`: anyone between the ranks can read everything and change results.
    Off = 2,
}

impl Encryption {
    /// Returns whether a link is encrypted in a job with a secret; `beyond` if it leaves loopback.
    pub(crate) fn covers(self, beyond: bool) -> bool {
        match self {
            Self::Auto => beyond,
            Self::On => true,
            Self::Off => false,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        let all = [Self::Auto, Self::On, Self::Off];
        all.into_iter().find(|&known| known as u8 == code)
    }
}

impl FromStr for Encryption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "1" => Ok(Self::On),
            "0" => Ok(Self::Off),
            _ => Err("no such setting".to_owned()),
        }
    }
}

/// Returns whether a link leaves loopback, as far as this end can see.
pub(crate) fn leaves_loopback(stream: &TcpStream) -> std::io::Result<bool> {
    let inside = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    Ok(!inside(stream.local_addr()?) || !inside(stream.peer_addr()?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::by_default(Encryption::default(), false, true)]
    #[case::on(Encryption::On, true, true)]
    #[case::off(Encryption::Off, false, false)]
    fn a_link_is_encrypted_as_it_was_asked_for(
        #[case] asked: Encryption,
        #[case] within: bool,
        #[case] beyond: bool,
    ) {
        assert_eq!((asked.covers(false), asked.covers(true)), (within, beyond));
    }
}
