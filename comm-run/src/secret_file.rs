//! The secret of a job on many machines: looked at before anything starts, read by the ranks.

use std::path::Path;

use comm_kit::secret_file;

use crate::report;

/// Checks that the ranks will find a secret in the file, and that the world does not. A group that can read it is
/// warned of: where users share a group that is everybody, but secrets of Kubernetes come that way.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let refused = |reason: &str| Err(format!("the secret file {}: {reason}", path.display()));
    let mode = match secret_file::read(path) {
        Ok((_, mode)) => mode,
        Err(reason) => return refused(&reason),
    };
    let close = format!("close it with: chmod 600 {}", path.display());
    if mode & 0o007 != 0 {
        return refused(&format!("everybody on this machine can use it; {close}"));
    }
    if mode & 0o070 != 0 {
        let path = path.display();
        report::line(&format!(
            "warning: your group can use the secret file {path}; {close}"
        ));
    }
    Ok(())
}
