//! Files through which the processes of a test signal their progress to each other.
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::fresh_name;

/// The maximum duration of a step of a test; far more than any of them needs.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for a marker file, through which the processes of a test signal their progress.
pub fn wait_for(marker: &Path) {
    let began = Instant::now();
    while !marker.exists() {
        assert!(
            began.elapsed() < PATIENCE,
            "{} did not appear",
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
