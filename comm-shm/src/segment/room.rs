//! Whether there is room: checked and reserved before anything is mapped.
//!
//! A page of shared memory that cannot be provided kills the process that accesses it. So every range is
//! reserved first. Before that, its size is compared with what the file system, the control groups, the
//! machine and the file size limit have left, because the system may answer a reservation beyond a limit by
//! killing a process.
//!
//! Rank 0 checks that there is room for the whole range and extends the file. Each rank then reserves what it
//! will write: the system takes the pages from the memory next to the requesting processor.

use std::fs::File;
use std::io;

use comm_api::CommError;
use rustix::io::Errno;

use crate::segment::remedy;

/// The minimum size of the pieces of an interrupted reservation: one takes microseconds.
const SMALLEST_PIECE: u64 = 256 * 1024;

/// Why a range could not be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// There is not enough memory.
    Short { needed: u64, available: u64 },
    /// The file would exceed the file size limit of rank 0.
    FileTooLong { length: u64, limit: u64 },
    /// The system refused for another reason than lack of room.
    Refused { error: i32 },
}

impl NoRoom {
    /// Packs the reason into words for the other ranks.
    pub(crate) fn words(self) -> [u64; 3] {
        match self {
            Self::Short { needed, available } => [1, needed, available],
            Self::FileTooLong { length, limit } => [2, length, limit],
            Self::Refused { error } => [3, error.cast_unsigned().into(), 0],
        }
    }

    /// Unpacks the words that rank 0 wrote.
    pub(crate) fn from_words([kind, first, second]: [u64; 3]) -> Self {
        match kind {
            1 => Self::Short {
                needed: first,
                available: second,
            },
            2 => Self::FileTooLong {
                length: first,
                limit: second,
            },
            _ => Self::Refused {
                error: u32::try_from(first).unwrap_or(0).cast_signed(),
            },
        }
    }

    /// Returns the problem on `rank`, and what to do.
    pub(crate) fn message(self, rank: usize) -> String {
        match self {
            Self::Short { needed, available } => format!(
                "{needed} bytes of shared memory are needed on this machine and {available} are \
                 available; enlarge /dev/shm (containers: --shm-size) or the memory limit, or ask \
                 for less"
            ),
            Self::FileTooLong { length, limit } => format!(
                "the shared file would need {length} bytes, and the file size limit of rank 0 is \
                 {limit}; raise the limit (ulimit -f), or ask for less"
            ),
            Self::Refused { error } => {
                let error = remedy::told(&io::Error::from_raw_os_error(error));
                format!("the system refused to reserve shared memory for rank {rank}: {error}")
            }
        }
    }

    /// Returns the error of all ranks when rank 0 found no room for the whole.
    pub(crate) fn error(self, requested_bytes: usize) -> CommError {
        CommError::allocation_failed(requested_bytes, self.message(0))
    }
}

/// Extends `file` to hold `len` bytes from `offset` on, if there is room for them. None of them is reserved,
/// and the file is never shortened.
pub(crate) fn lengthen(file: &File, offset: u64, len: u64) -> Result<(), NoRoom> {
    let available = available(file);
    if len > available {
        return Err(NoRoom::Short {
            needed: len,
            available,
        });
    }
    let end = offset.saturating_add(len);
    if file.metadata().map_or(0, |file| file.len()) >= end {
        return Ok(());
    }
    let limit = longest_file();
    if end > limit {
        return Err(NoRoom::FileTooLong { length: end, limit });
    }
    rustix::io::retry_on_intr(|| rustix::fs::ftruncate(file, end)).map_err(|error| {
        NoRoom::Refused {
            error: error.raw_os_error(),
        }
    })
}

/// Reserves `len` bytes of `file` from `offset` on, which lie before its end: all of them, or none. They read
/// as zeros, unless they were reserved and written before.
pub(crate) fn reserve(file: &File, offset: u64, len: u64) -> Result<(), NoRoom> {
    if len == 0 {
        return Ok(());
    }
    let short = |available| NoRoom::Short {
        needed: len,
        available,
    };
    let available = available(file);
    if len > available {
        return Err(short(available));
    }
    in_pieces(len, |at, len| extend(file, offset + at, len)).map_err(|(done, error)| {
        let _ = release(file, offset, done);
        match error {
            // Memory that looked free was taken by another process, or was never free.
            Errno::NOSPC | Errno::NOMEM => short(available.min(self::available(file)).min(len - 1)),
            error => NoRoom::Refused {
                error: error.raw_os_error(),
            },
        }
    })
}

/// Reserves `len` bytes: at once, or in pieces if a signal interrupts it.
///
/// Linux before 6.10 rolls back a reservation that is interrupted by any signal. A reservation that takes
/// longer than the interval of a profiling timer would start over endlessly; a piece does not.
///
/// On failure, returns how many bytes were reserved.
fn in_pieces(
    len: u64,
    mut reserve: impl FnMut(u64, u64) -> rustix::io::Result<()>,
) -> Result<(), (u64, Errno)> {
    let (mut done, mut piece) = (0, len);
    while done < len {
        let next = piece.min(len - done);
        match reserve(done, next) {
            Ok(()) => done += next,
            Err(Errno::INTR) => {
                piece = (next / 2).next_multiple_of(SMALLEST_PIECE);
            }
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}

/// Returns a range to the system; it reads as zeros afterwards.
///
/// # Errors
///
/// If the system does not support it. The range then stays reserved and unchanged.
pub(crate) fn release(file: &File, offset: u64, len: u64) -> rustix::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| fallocate(file, flags, offset, len))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, offset, len);
        Err(Errno::NOSYS)
    }
}

#[cfg(target_os = "linux")]
fn extend(file: &File, offset: u64, len: u64) -> rustix::io::Result<()> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, len)
}

/// On other systems the file is long enough, and its pages are allocated on access.
#[cfg(not(target_os = "linux"))]
fn extend(_file: &File, _offset: u64, _len: u64) -> rustix::io::Result<()> {
    Ok(())
}

/// Returns the file size limit of this process: growing a file beyond it would raise a fatal signal.
fn longest_file() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Returns the smallest amount that the file system, the control groups and the machine have left.
fn available(file: &File) -> u64 {
    let free = rustix::fs::fstatvfs(file).map_or(u64::MAX, |fs| {
        if fs.f_blocks == 0 {
            u64::MAX
        } else {
            fs.f_bavail.saturating_mul(fs.f_frsize)
        }
    });
    free.min(comm_kit::memory::available().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_machine_has_is_refused() {
        let file = File::open("/dev/shm").expect("a directory of this machine");
        let refused = reserve(&file, 0, u64::MAX / 2).expect_err("no machine has that");
        assert!(
            matches!(refused, NoRoom::Short { needed, available } if available < needed),
            "{refused:?}"
        );
    }

    #[test]
    fn what_is_not_room_is_said_as_it_is() {
        let file = File::open("/dev/shm").expect("a directory of this machine");
        let refused = reserve(&file, 0, 4096).expect_err("no folder is reserved");
        let message = refused.message(5);
        assert!(matches!(refused, NoRoom::Refused { .. }), "{refused:?}");
        assert!(!message.contains("available"), "{message}");
        for (error, words) in [
            (Errno::OPNOTSUPP, "mount a tmpfs"),
            (Errno::DQUOT, "quota"),
            (Errno::IO, "rank 5"),
        ] {
            let error = error.raw_os_error();
            let message = NoRoom::Refused { error }.message(5);
            let system = io::Error::from_raw_os_error(error).to_string();
            assert!(
                message.contains(words) && message.contains(&system),
                "{message}"
            );
        }
    }

    #[test]
    fn every_reason_survives_its_words() {
        for reason in [
            NoRoom::Short {
                needed: u64::MAX,
                available: 7,
            },
            NoRoom::FileTooLong {
                length: 8,
                limit: u64::MAX,
            },
            NoRoom::Refused { error: 28 },
        ] {
            assert_eq!(NoRoom::from_words(reason.words()), reason);
        }
    }

    /// A kernel that reserves a megabyte between two signals, and rolls back when a signal arrives.
    #[test]
    fn signals_delay_a_reservation_and_do_not_prevent_it() {
        const TOTAL: u64 = 1 << 30;
        let mut done = 0;
        let mut calls = 0;
        let mut until_signal = 1 << 20;
        let reserved = in_pieces(TOTAL, |at, len| {
            assert_eq!(at, done, "in order, nothing twice");
            calls += 1;
            assert!(calls < 10_000, "starts over endlessly");
            if len > until_signal {
                until_signal = 1 << 20;
                return Err(Errno::INTR);
            }
            until_signal -= len;
            done += len;
            Ok(())
        });
        assert_eq!((reserved, done), (Ok(()), TOTAL));
    }

    #[test]
    fn what_was_done_before_an_error_is_known() {
        let failed = in_pieces(1 << 20, |at, len| match (at, len) {
            (0, len) if len > SMALLEST_PIECE => Err(Errno::INTR),
            (at, _) if at < 3 * SMALLEST_PIECE => Ok(()),
            _ => Err(Errno::NOSPC),
        });
        assert_eq!(failed, Err((3 * SMALLEST_PIECE, Errno::NOSPC)));
    }
}
