//! Files that hold a secret, and other things that a path may lead to.

#![allow(
    unsafe_code,
    reason = "mounting a file system has no safe interface here"
)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use comm_api::Communicator;
use comm_tcp::{InitError, TcpBackend, TcpConfig};
use common::{config, names, refused, world};
use rstest::rstest;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A folder of one test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        comm_testing::watchdog();
        let name = format!("comm-tcp-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, length: usize) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, vec![b's'; length]).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn with_file(path: &Path) -> TcpConfig {
    let mut config = config(0, 2, 0);
    (config.secret, config.secret_file) = (None, Some(path.to_owned()));
    config
}

fn refusal(path: &Path) -> InitError {
    let error = refused(with_file(path));
    names(&error, "COBRE_TCP_SECRET_FILE");
    assert!(error.message.contains(path.to_str().unwrap()), "{error}");
    error
}

/// Two ranks join, one of which has the secret from this file.
fn meet(path: &Path, secret: &[u8]) {
    let adjust = |config: &mut TcpConfig| {
        config.secret = Some(secret.to_vec());
        if config.rank == 1 {
            (config.secret, config.secret_file) = (None, Some(path.to_owned()));
        }
    };
    world(2, adjust, |comm| comm.barrier().unwrap());
}

/// Nothing writes to the FIFO, and the device never ends; a process substitution is a pipe.
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = Folder::new("no-file");
    let fifo = folder.0.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (reader, _writer) = std::io::pipe().unwrap();
    let pipe = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let others = ["/dev/zero", pipe.as_str()].map(Path::new);
    for path in [&folder.0, &fifo]
        .map(PathBuf::as_path)
        .into_iter()
        .chain(others)
    {
        let error = refusal(path);
        assert!(error.message.contains("not a regular file"), "{error}");
    }
}

/// Kubernetes provides a secret through two links; a launcher may pass an open file on.
#[test]
fn a_regular_file_is_read_whatever_leads_to_it() {
    let folder = Folder::new("links");
    let file = folder.file("key", 40);
    fs::create_dir(folder.0.join("..2026_11_18")).unwrap();
    fs::rename(&file, folder.0.join("..2026_11_18/key")).unwrap();
    symlink("..2026_11_18", folder.0.join("..data")).unwrap();
    symlink("..data/key", &file).unwrap();
    meet(&file, &[b's'; 40]);
    let open = fs::File::open(&file).unwrap();
    let open = format!("/proc/self/fd/{}", open.as_raw_fd());
    // The path leads there as long as the file is open.
    meet(Path::new(&open), &[b's'; 40]);
}

#[test]
fn a_secret_may_have_64_kibibytes() {
    let folder = Folder::new("length");
    meet(&folder.file("most", 65_536), &vec![b's'; 65_536]);
    let error = refusal(&folder.file("more", 65_537));
    assert!(error.message.contains("65536"), "{error}");
}

/// The system reports a regular file of length zero, and it has megabytes.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_longer_than_it_says_is_refused() {
    let path = Path::new("/proc/kallsyms");
    if !fs::read(path).is_ok_and(|names| names.len() > 65_536) {
        comm_testing::not_run("the kernel does not list its names");
        return;
    }
    let error = refusal(path);
    assert!(error.message.contains("65536"), "{error}");
}

/// A network file system whose server is gone: a process that accesses it waits, and cannot be interrupted.
#[cfg(target_os = "linux")]
#[rstest]
fn a_file_system_that_does_not_answer_keeps_a_rank_for_its_connect_timeout(
    #[values(0, 1)] rank: usize,
) {
    let folder = Folder::new(&format!("silent-{rank}"));
    let path = folder.0.clone();
    // A thread may have its own mounts, which no other thread enters, and which end with it.
    let asked = std::thread::spawn(move || {
        let silent = mount_silence(&path)?;
        let mut config = with_file(&path.join("key"));
        (config.rank, config.port) = (rank, 9);
        config.connect_timeout = Duration::from_millis(500);
        let began = Instant::now();
        let error = TcpBackend::connect(config).map(drop).unwrap_err();
        // Pending requests get an error.
        drop(silent);
        Ok::<_, std::io::Error>((error, began.elapsed()))
    });
    match asked.join().unwrap() {
        Ok((error, took)) => {
            names(&error, "COBRE_TCP_SECRET_FILE");
            assert!(error.message.contains("500ms"), "{error}");
            assert!(took < Duration::from_secs(5), "took {took:?}");
        }
        Err(reason) => comm_testing::not_run(format_args!("cannot mount here: {reason}")),
    }
}

/// Mounts a file system that answers nothing until the returned value is dropped.
#[cfg(target_os = "linux")]
fn mount_silence(folder: &Path) -> std::io::Result<fs::File> {
    let error = std::io::Error::last_os_error;
    let device = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")?;
    // SAFETY: concerns only this thread, which shares nothing that depends on its mounts.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(error());
    }
    let fd = device.as_raw_fd();
    let options = CString::new(format!("fd={fd},rootmode=40000,user_id=0,group_id=0"))?;
    let folder = CString::new(folder.as_os_str().as_bytes())?;
    let mount = |on: &CStr, kind: &CStr, flags, options: *const c_char| {
        // SAFETY: the three texts end with a zero and outlive the call, which keeps none of them; no options are a null pointer.
        match unsafe {
            libc::mount(
                kind.as_ptr(),
                on.as_ptr(),
                kind.as_ptr(),
                flags,
                options.cast(),
            )
        } {
            0 => Ok(()),
            _ => Err(error()),
        }
    };
    mount(
        c"/",
        c"none",
        libc::MS_PRIVATE | libc::MS_REC,
        std::ptr::null(),
    )?;
    mount(&folder, c"fuse", 0, options.as_ptr())?;
    Ok(device)
}
