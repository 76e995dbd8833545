//! The secret that a rank must know to join.

use std::fmt;
use std::path::Path;

use comm_kit::secret_file;

use crate::config::TcpConfig;
use crate::error::InitError;
use crate::rendezvous::{Countdown, ask};
use crate::variables;

/// A shorter secret can be guessed: an attacker who records a handshake, or answers one in place of rank 0,
/// can try any number of guesses.
const SHORT: usize = 16;

/// Holds a secret and never displays it.
#[derive(Clone)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.trim_ascii().to_vec())
    }

    /// Reads a secret from a file; surrounding white space is ignored. The file may be on a network file
    /// system whose server is gone: reading takes at most the remaining time of the start.
    pub(crate) fn read(
        config: &TcpConfig,
        path: &Path,
        time: &mut Countdown,
    ) -> Result<Self, InitError> {
        let refuse = |reason: String| {
            let name = variables::SECRET_FILE;
            InitError::invalid(&[name], format!("{name} is {}: {reason}", path.display()))
        };
        let owned = path.to_owned();
        let read = ask("comm-tcp secret", move || secret_file::read(&owned));
        let read = read.map_err(|error| refuse(error.to_string()))?;
        let Some(read) = time.answer(&read) else {
            let timeout = config.connect_timeout;
            return Err(refuse(format!(
                "reading it takes longer than the connect timeout of {timeout:?}; check whether its file system responds"
            )));
        };
        let (secret, mode) = read.map_err(refuse)?;
        if mode & 0o077 != 0 {
            tracing::warn!(
                path = %path.display(),
                mode = format!("{mode:03o}"),
                "others may read the secret file; chmod 600 it"
            );
        }
        Ok(Self(secret))
    }

    /// Warns about a secret that can be guessed.
    pub(crate) fn warn_if_short(&self) {
        if self.0.len() < SHORT {
            tracing::warn!(
                "the secret has fewer than {SHORT} bytes: an attacker who records how a rank joins can guess \
                 it; take a random one, such as `head -c 32 /dev/urandom | base64` prints"
            );
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}
