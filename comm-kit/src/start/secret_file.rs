//! Reads the secret of a job from a file.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;

/// The size limit of a secret file; a larger file is a mistake.
const LONGEST: u64 = 64 << 10;

/// Reads a secret from a regular file or a link to one. Returns the secret without surrounding ASCII white
/// space, and the permissions of the file, as for `chmod`.
///
/// Never waits for another program, and reads at most 64 KiB. A file system whose server does not answer may
/// block the caller: use a separate thread where that matters.
///
/// # Errors
///
/// Why the file holds no secret, without its path.
pub fn read(path: &Path) -> Result<(Vec<u8>, u32), String> {
    let reason = |error: std::io::Error| error.to_string();
    // Checked before it is opened: opening a FIFO would wake its writer, and opening a device may have side
    // effects.
    regular(&fs::metadata(path).map_err(reason)?)?;
    // Without blocking: the path may lead to another file by now.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
    let file = File::from(opened.map_err(|error| reason(error.into()))?);
    let metadata = file.metadata().map_err(reason)?;
    regular(&metadata)?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(reason)?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!(
            "it has more than {LONGEST} bytes, the most that a secret may have"
        ));
    }
    let secret = bytes.trim_ascii().to_vec();
    if secret.is_empty() {
        return Err("the file is empty; put a long random string into it".to_owned());
    }
    Ok((secret, metadata.mode() & 0o777))
}

fn regular(metadata: &Metadata) -> Result<(), String> {
    if metadata.is_file() {
        return Ok(());
    }
    Err("it is not a regular file; put the secret in a file that every rank can read, not in a pipe".to_owned())
}
