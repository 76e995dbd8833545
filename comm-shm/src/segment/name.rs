//! The name of a segment: created, found, locked and removed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use comm_kit::segments;
pub(crate) use comm_kit::segments::is_named;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::InitError;
use crate::segment::identity::Identity;
use crate::segment::remedy;

/// Returns the path of the segment of a job.
pub(crate) fn path(name: &str) -> PathBuf {
    segments::folder().join(name)
}

/// Checks that segments can be created and found in a folder. A problem with the folder concerns every rank,
/// and each rank reports it without waiting for another one.
pub(crate) fn check_folder(path: &Path) -> Result<(), InitError> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let folder = path.parent().unwrap_or(Path::new("/"));
    let needed = Access::WRITE_OK | Access::EXEC_OK;
    // With the dot, only a folder is found.
    let what = match accessat(CWD, folder.join("."), needed, AtFlags::EACCESS) {
        Err(Errno::NOENT) => "does not exist; mount a tmpfs there".to_owned(),
        Err(Errno::NOTDIR) => "is not a folder; mount a tmpfs there".to_owned(),
        Err(Errno::ROFS) => "is read-only; mount it writable".to_owned(),
        Err(Errno::ACCESS) => format!(
            "is a folder in which user {} may not write; give it the mode 1777",
            rustix::process::geteuid().as_raw()
        ),
        // Any other error appears where the folder is used.
        _ => return Ok(()),
    };
    let message = format!("{} {what}, or use the tcp backend", folder.display());
    Err(InitError::failed(&["COBRE_COMM_BACKEND"], message))
}

/// A segment that has a name.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) file: File,
    pub(crate) identity: Identity,
}

/// Looks for a segment under a name. A file that is not a segment, or not ours, is an error and stays.
pub(crate) fn find(path: &Path) -> Result<Option<Found>, InitError> {
    let user = rustix::process::geteuid().as_raw();
    let refused = |what: &str| {
        let owner = path.symlink_metadata().map_or(user, |found| found.uid());
        let remedy = if owner == user {
            "remove it, or give the job another name".to_owned()
        } else {
            // All users share the folder, and only the owner of a file can remove it.
            format!(
                "it belongs to user {owner}, this is user {user}: give the job another name, or have \
                 that user remove it"
            )
        };
        let message = format!("{} {what}; {remedy}", path.display());
        Err(InitError::failed(&[], message))
    };
    // Without NONBLOCK, opening a FIFO would wait for its other end.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return refused("is a symbolic link"),
        Err(Errno::ISDIR) => return refused("is a folder"),
        Err(Errno::NXIO) => return refused("is a socket, or a device that is missing"),
        Err(Errno::AGAIN) => return refused("is leased by a process"),
        Err(error @ (Errno::ACCESS | Errno::PERM)) => {
            return refused(&format!("cannot be opened: {error}"));
        }
        // The file under this name is not to blame.
        Err(error) => {
            let error = remedy::told(&error.into());
            let message = format!("cannot open {}: {error}", path.display());
            return Err(InitError::failed(&[], message));
        }
    };
    let metadata = match file.metadata() {
        Ok(metadata) => metadata,
        Err(error) => return refused(&format!("cannot be inspected: {error}")),
    };
    if !metadata.is_file() {
        return refused("is not a regular file");
    }
    if metadata.uid() != user {
        return refused("is a file of another user");
    }
    if metadata.nlink() == 0 {
        return Ok(None);
    }
    match Identity::read(&file) {
        Some(identity) => Ok(Some(Found { file, identity })),
        None => refused("is not a segment of this library, or is truncated"),
    }
}

/// Opens a file that only this user may open, not through a link, with additional `flags`.
#[cfg(any(not(target_os = "linux"), comm_portable_wait))]
pub(crate) fn open_private(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Locks a file, without waiting.
pub(crate) fn lock(file: &File) -> rustix::io::Result<()> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Checks whether a file is not locked.
pub(crate) fn is_free(file: &File) -> bool {
    // Shared: other ranks may check at the same time.
    let free = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    if free {
        let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    }
    free
}

/// Removes a name whose file this process has locked, if the name still belongs to that file.
pub(crate) fn remove_if_named(path: &Path, file: &File) {
    if is_named(path, file) {
        let _ = std::fs::remove_file(path);
    }
}

/// A file that has no name yet, or only a temporary one.
#[derive(Debug)]
pub(crate) struct Nameless {
    file: File,
    temporary: Option<Temporary>,
}

impl Nameless {
    /// Creates a file that will later be linked at `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if let Some(file) = unnamed(path)? {
            let temporary = None;
            return Ok(Self { file, temporary });
        }
        let (file, temporary) = Temporary::create(path)?;
        Ok(Self {
            file,
            temporary: Some(temporary),
        })
    }

    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    /// Links the file under its name; fails if the name is taken.
    pub(crate) fn link(&self, path: &Path) -> io::Result<()> {
        use rustix::fs::{AtFlags, CWD, linkat};
        match &self.temporary {
            Some(Temporary(own)) => std::fs::hard_link(own, path),
            None => Ok(linkat(
                CWD,
                descriptor(&self.file),
                CWD,
                path,
                AtFlags::SYMLINK_FOLLOW,
            )?),
        }
    }

    pub(crate) fn into_file(self) -> File {
        self.file
    }
}

/// Returns the path under which the system shows an open file to this process.
fn descriptor(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Creates a file without a name in the folder of `path`; `None` where the system does not support such
/// files, or cannot link them later.
#[cfg(all(target_os = "linux", not(comm_portable_wait)))]
fn unnamed(path: &Path) -> io::Result<Option<File>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => {
            let file = File::from(file);
            // Linking goes through /proc, which a container may lack.
            let linkable = descriptor(&file).symlink_metadata().is_ok();
            Ok(linkable.then_some(file))
        }
        // The errors of file systems that do not know the flag, and of kernels that filter it.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(any(not(target_os = "linux"), comm_portable_wait))]
#[expect(clippy::unnecessary_wraps, reason = "as where there are such files")]
fn unnamed(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// A temporary name that is removed with its owner, where files cannot be created without a name. It begins
/// with the name of the segment and a dot, so that the launcher of the job removes it too.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    fn create(path: &Path) -> io::Result<(File, Self)> {
        // Short enough for the rest, whatever the characters.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem: String = name.chars().take(50).collect();
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut number = 0;
        loop {
            let own = format!("{stem}.new-{}-{number}", std::process::id());
            let own = path.with_file_name(own);
            match rustix::fs::open(&own, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok((file.into(), Self(own))),
                // Another thread of this process has it, or an earlier process with this pid left it.
                Err(Errno::EXIST) if number < 1000 => number += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on systems that do not support files without a name.
    #[test]
    fn a_file_with_a_name_of_its_own_for_a_while() {
        let name = format!("cobre-unit-{}-temporary", std::process::id());
        let path = path(&name);
        let folder = path.parent().expect("it is in a folder");
        let left = || {
            let entries = std::fs::read_dir(folder).expect("it can be read").flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<String> = names.filter(|found| found.starts_with(&name)).collect();
            names.sort();
            names
        };
        let create = || {
            let (file, temporary) = Temporary::create(&path).expect("created");
            let temporary = Some(temporary);
            Nameless { file, temporary }
        };
        let [first, second] = [create(), create()];
        assert_eq!(left().len(), 2);
        first.link(&path).expect("the name is free");
        let taken = second.link(&path).expect_err("it is taken");
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        drop(second);
        let file = first.into_file();
        assert_eq!(left(), std::slice::from_ref(&name));
        assert!(is_named(&path, &file));
        remove_if_named(&path, &file);
        assert!(left().is_empty() && !is_named(&path, &file));
    }

    /// A stale segment with a second name, left by a creator that was killed before removing it, does not
    /// cost a new job its name.
    #[test]
    fn the_name_of_another_file_stays() {
        let path = path(&format!("cobre-unit-{}-other", std::process::id()));
        let (stale, second) = Temporary::create(&path).expect("created");
        let (living, temporary) = Temporary::create(&path).expect("created");
        std::fs::hard_link(&temporary.0, &path).expect("the name is free");
        remove_if_named(&path, &stale);
        let stays = path.exists();
        remove_if_named(&path, &living);
        let goes = !path.exists();
        drop((second, temporary));
        assert_eq!((stays, goes), (true, true));
    }
}
