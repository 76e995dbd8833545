//! The name of a segment: created, found, locked and removed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::error::InitError;
use crate::identity::Identity;

/// Returns where the segment of a job is found.
pub(crate) fn path(name: &str) -> PathBuf {
    let folder = if cfg!(target_os = "linux") {
        PathBuf::from("/dev/shm")
    } else {
        std::env::temp_dir()
    };
    folder.join(name)
}

/// A segment under its name.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) file: File,
    pub(crate) identity: Identity,
}

/// Looks for a segment under a name; what is not one, or not ours, is an error and stays.
pub(crate) fn find(path: &Path) -> Result<Option<Found>, InitError> {
    let refused = |what: &str| {
        Err(InitError::failed(
            &[],
            format!(
                "{} {what}; remove it, or give the job another name",
                path.display()
            ),
        ))
    };
    // Without NONBLOCK the name of a pipe would make this rank wait for its other end.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => return refused("is a symbolic link"),
        Err(rustix::io::Errno::ISDIR) => return refused("is a folder"),
        Err(error) => return refused(&format!("cannot be opened: {error}")),
    };
    let metadata = match file.metadata() {
        Ok(metadata) => metadata,
        Err(error) => return refused(&format!("cannot be looked at: {error}")),
    };
    if !metadata.is_file() {
        return refused("is not a regular file");
    }
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        let owner = metadata.uid();
        return refused(&format!("belongs to user {owner}, this is user {user}"));
    }
    if metadata.nlink() == 0 {
        return Ok(None);
    }
    match Identity::read(&file) {
        Some(identity) => Ok(Some(Found { file, identity })),
        None => refused("is not a segment of this library, or was cut short"),
    }
}

/// Opens a file that only this user may open, not through a link, with `flags` on top.
#[cfg(any(not(target_os = "linux"), comm_portable_wait))]
pub(crate) fn open_private(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Locks a file, without waiting.
pub(crate) fn lock(file: &File) -> rustix::io::Result<()> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Checks whether nobody has locked a file.
pub(crate) fn is_free(file: &File) -> bool {
    // Shared: others may look at the same time.
    let free = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    if free {
        let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    }
    free
}

/// Checks whether a file has a name.
pub(crate) fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

/// Removes a name whose file this process has locked, if the file still has one.
pub(crate) fn remove_if_linked(path: &Path, file: &File) {
    if is_linked(file) {
        let _ = std::fs::remove_file(path);
    }
}

/// A file that has no name yet.
#[derive(Debug)]
pub(crate) struct Nameless {
    file: File,
    #[cfg(not(target_os = "linux"))]
    temporary: Temporary,
}

impl Nameless {
    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    pub(crate) fn into_file(self) -> File {
        self.file
    }
}

/// Creates a file without a name, where `path` will be.
#[cfg(target_os = "linux")]
pub(crate) fn nameless(path: &Path) -> io::Result<Nameless> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(Nameless { file: file.into() })
}

#[cfg(target_os = "linux")]
impl Nameless {
    /// Links the file under its name; an error if the name is taken.
    pub(crate) fn link(&self, path: &Path) -> io::Result<()> {
        use rustix::fs::{AtFlags, CWD, linkat};
        use std::os::fd::AsRawFd;
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW) {
            // Without `/proc`; the kernel allows it to everybody since 6.10, and before to a privileged user.
            Err(rustix::io::Errno::NOENT) => {
                let by_descriptor = linkat(&self.file, "", CWD, path, AtFlags::EMPTY_PATH);
                by_descriptor.map_err(|error| match error {
                    rustix::io::Errno::NOENT => io::Error::other(
                        "no /proc is mounted, without which this system does not link a file; mount \
                         it (mount -t proc proc /proc), or use the tcp backend",
                    ),
                    other => other.into(),
                })
            }
            linked => Ok(linked?),
        }
    }
}

/// A name that is removed with its owner, where files cannot be created without one.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Temporary(PathBuf);

#[cfg(not(target_os = "linux"))]
impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn nameless(path: &Path) -> io::Result<Nameless> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(Nameless {
        file: file.into(),
        temporary: Temporary(temporary),
    })
}

#[cfg(not(target_os = "linux"))]
impl Nameless {
    pub(crate) fn link(&self, path: &Path) -> io::Result<()> {
        std::fs::hard_link(&self.temporary.0, path)
    }
}
