//! The secret of a job on many machines: looked at before anything starts, read by the ranks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::report;

/// Checks that the ranks will find a secret in the file, and warns if others can read it.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let refused = |reason: &str| Err(format!("the secret file {}: {reason}", path.display()));
    let metadata = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata,
        Ok(_) => return refused("not a regular file; every rank must be able to read it"),
        Err(error) => return refused(&error.to_string()),
    };
    match fs::read(path) {
        Ok(secret) if secret.trim_ascii().is_empty() => {
            return refused("it is empty; put a long random string in");
        }
        Ok(_) => {}
        Err(error) => return refused(&error.to_string()),
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        report::line(&format!(
            "warning: others can use the secret file {0}; close it with: chmod 600 {0}",
            path.display()
        ));
    }
    Ok(())
}
