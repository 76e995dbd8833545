//! Files by which the processes of a test tell each other how far they are.
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::fresh_name;

/// The longest a step of a test may take before it fails; far more than any of them needs.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for a file of the temporary folder, by which processes of a test tell each other how far they are.
pub fn wait_for(marker: &Path) {
    let began = Instant::now();
    while !marker.exists() {
        assert!(
            began.elapsed() < PATIENCE,
            "{} did not come",
            marker.display()
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// Where a test puts its markers; removed with it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub const VARIABLE: &str = "COMM_SHM_TEST_FOLDER";

    pub fn new() -> Self {
        let folder = std::env::temp_dir().join(fresh_name());
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// The folder that the driver of this rank made.
    pub fn of_driver() -> PathBuf {
        std::env::var_os(Self::VARIABLE).unwrap().into()
    }

    pub fn variable(&self) -> (&str, &str) {
        (Self::VARIABLE, self.0.to_str().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
