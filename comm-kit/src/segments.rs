//! Where segments of shared memory have their names.

use std::path::PathBuf;

/// Returns the folder in which segments are created.
#[must_use]
pub fn folder() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from("/dev/shm")
    } else {
        std::env::temp_dir()
    }
}
