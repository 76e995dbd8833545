//! The memory of another rank, read by the kernel.
//!
//! # Invariants
//!
//! - **F1** The kernel writes only to the local vector of the call: a mutably borrowed slice, and a word on
//!   the stack.
//! - **F2** An address of another rank is a number. It is passed to the kernel, which resolves it in the
//!   memory of the given process. This process never makes a pointer of it that it dereferences, even if the
//!   given process is this one.
//! - **F3** The length of a read comes from this rank's own arguments; whatever the address, a read returns
//!   that length or an error.
//! - **F4** A read counts only if the same call found the [`Beacon`] of the rank. The kernel holds one memory
//!   map for the duration of a call, so the data came from the memory of that rank, even if the pid has been
//!   reused by now.
#![expect(unsafe_code, reason = "no safe interface reads another process")]

use std::io;

use comm_kit::Beacon;
use libc::{c_ulong, iovec};

/// Where the memory of one rank is found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Foreign {
    pub(crate) pid: u32,
    pub(crate) beacon: Beacon,
}

impl Foreign {
    /// Fills `into` from `address` of the other rank, completely.
    ///
    /// # Errors
    ///
    /// The error of the kernel; `UnexpectedEof` if it read less, `NotFound` if it read another process. The
    /// contents of `into` are then meaningless.
    pub(crate) fn read(self, address: u64, into: &mut [u8]) -> io::Result<()> {
        let len = into.len();
        let mut word = 0_u64;
        let local = [
            iovec {
                iov_base: into.as_mut_ptr().cast(),
                iov_len: len,
            },
            iovec {
                iov_base: (&raw mut word).cast(),
                iov_len: size_of::<u64>(),
            },
        ];
        let remote = [
            part(address, len)?,
            part(self.beacon.address, size_of::<u64>())?,
        ];
        let pid = i32::try_from(self.pid).map_err(io::Error::other)?;
        let parts = local.len() as c_ulong;
        // SAFETY: F1, the local parts are a borrowed slice and a word, both writable for their length; F2,
        // the remote ones are numbers to this process. Each vector has two parts, and the kernel reads two.
        let read = unsafe {
            libc::process_vm_readv(pid, local.as_ptr(), parts, remote.as_ptr(), parts, 0)
        };
        match usize::try_from(read) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(read) if read != len + size_of::<u64>() => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if word != self.beacon.word => Err(io::ErrorKind::NotFound.into()),
            Ok(_) => Ok(()),
        }
    }
}

/// Names `len` bytes of another process (F2).
fn part(address: u64, len: usize) -> io::Result<iovec> {
    let address = usize::try_from(address).map_err(io::Error::other)?;
    Ok(iovec {
        iov_base: std::ptr::without_provenance_mut(address),
        iov_len: len,
    })
}

/// Permits the processes that the parent of this process started to read its memory, where Yama would forbid
/// it.
///
/// # Errors
///
/// The error of the kernel. Most often the kernel does not know Yama, and then needs no permission either.
pub(crate) fn open_to_siblings() -> io::Result<()> {
    let parent = std::os::unix::process::parent_id();
    // SAFETY: passes numbers, and touches no memory.
    let opened = unsafe { libc::prctl(libc::PR_SET_PTRACER, c_ulong::from(parent), 0, 0, 0) };
    if opened == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Foreign {
        let pid = std::process::id();
        let beacon = Beacon::here().expect("this system empties pages on fork");
        Foreign { pid, beacon }
    }

    fn address(bytes: &[u8]) -> u64 {
        bytes.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn what_lies_there_is_read() {
        let from: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        let mut into = vec![0; from.len()];
        own().read(address(&from), &mut into).expect("own memory");
        assert_eq!(into, from);
        own().read(0, &mut []).expect("nothing to read");
    }

    #[test]
    fn any_address_is_read_or_an_error() {
        let mut into = [7; 64];
        for address in [
            0,
            1,
            4096,
            u64::MAX,
            u64::MAX - 63,
            1 << 63,
            0xdead_beef_dead_beef,
        ] {
            let error = own()
                .read(address, &mut into)
                .expect_err("nothing lies there");
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{address:x}");
        }
    }

    #[test]
    fn another_process_does_not_count() {
        let from = [1; 64];
        let mut into = [0; 64];
        let mut other = own();
        other.beacon.word ^= 2;
        let error = other
            .read(address(&from), &mut into)
            .expect_err("another word");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        other = own();
        other.beacon.address = 0;
        let error = other.read(address(&from), &mut into).expect_err("no word");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        other = own();
        other.pid = u32::MAX;
        other
            .read(address(&from), &mut into)
            .expect_err("no process");
    }

    /// The child has the memory of its parent, but is not the rank.
    #[test]
    fn a_forked_child_does_not_count() {
        let from = [1_u8; 64];
        let own = own();
        // SAFETY: the child waits for the signal and does nothing else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: sleeps until a signal ends it.
                unsafe { libc::pause() };
            }
        }
        let forked = Foreign {
            pid: child.cast_unsigned(),
            ..own
        };
        let mut into = [0; 64];
        let read = forked.read(address(&from), &mut into);
        // SAFETY: our own child.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: our own child, whose status is not asked for.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert_eq!(read.expect_err("a child").kind(), io::ErrorKind::NotFound);
        assert_eq!(
            into, from,
            "the kernel read the child, so it was the beacon"
        );
    }
}
