//! What a rank must know to be let in.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::error::InitError;
use crate::variables;

/// A shorter secret can be guessed: whoever records a handshake, or answers one in the place of rank
/// 0, tries as many guesses as it likes.
const SHORT: usize = 16;

/// Longer files are no secrets but a mistake.
const LONGEST: u64 = 64 << 10;

/// Holds a secret and shows it to nobody.
#[derive(Clone)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.trim_ascii().to_vec())
    }

    /// Reads a secret from a file; white space around it does not count.
    pub(crate) fn read(path: &Path) -> Result<Self, InitError> {
        let refuse = |reason: String| {
            let name = variables::SECRET_FILE;
            InitError::invalid(&[name], format!("{name} is {}: {reason}", path.display()))
        };
        let metadata = fs::metadata(path).map_err(|error| refuse(error.to_string()))?;
        if metadata.len() > LONGEST {
            return Err(refuse(format!(
                "{} bytes are too many for a secret, {LONGEST} is the most",
                metadata.len()
            )));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                tracing::warn!(
                    path = %path.display(),
                    mode = format!("{mode:03o}"),
                    "others may read the secret file; chmod 600 it"
                );
            }
        }
        let secret = Self::new(&fs::read(path).map_err(|error| refuse(error.to_string()))?);
        if secret.0.is_empty() {
            return Err(refuse(
                "the file is empty; put a long random string in".into(),
            ));
        }
        Ok(secret)
    }

    /// Warns of a secret that can be guessed.
    pub(crate) fn warn_if_short(&self) {
        if self.0.len() < SHORT {
            tracing::warn!(
                "the secret has fewer than {SHORT} bytes: whoever records how a rank joins can guess \
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
