//! The pipe on which the ranks report their first cause, and refusals: see `comm_kit::report`.
//!
//! A rank writes before it ends, so its report is already in the pipe when its end is seen. The launcher never waits for the
//! end of the pipe, because processes that a rank has started may hold it open.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;

use comm_kit::report::{Pipe, Report, What};
use rustix::fs::{OFlags, fcntl_setfl, fstat};

/// Longer than any report: more bytes without a newline are no report.
const LONGEST: usize = 256;

/// The end that the ranks write to; closed in this process once they have started.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) pipe: Arc<PipeWriter>,
    inode: u64,
}

impl Outbox {
    /// Returns the value of the variable for a rank, numbered in the whole job.
    pub(crate) fn variable(&self, rank: usize) -> OsString {
        let place = Pipe {
            descriptor: self.pipe.as_raw_fd().unsigned_abs(),
            inode: self.inode,
            rank,
        };
        place.to_string().into()
    }
}

/// The reports of the ranks on this machine.
#[derive(Debug)]
pub(crate) struct Inbox {
    pipe: PipeReader,
    /// The beginning of a line whose end has not arrived yet.
    rest: Vec<u8>,
    first_rank: usize,
    /// The current report of each rank.
    reports: Vec<Option<Report>>,
    /// Whether a rank has reported that there is no ring, and the owner was not notified yet.
    no_ring: bool,
}

/// Creates the pipe for `size` ranks, numbered from `first_rank`.
pub(crate) fn channel(first_rank: usize, size: usize) -> io::Result<(Outbox, Inbox)> {
    let (reader, writer) = io::pipe()?;
    fcntl_setfl(reader.as_fd(), OFlags::NONBLOCK)?;
    let inode = fstat(writer.as_fd())?.st_ino;
    let outbox = Outbox {
        pipe: Arc::new(writer),
        inode,
    };
    let inbox = Inbox {
        pipe: reader,
        rest: Vec::new(),
        first_rank,
        reports: vec![None; size],
        no_ring: false,
    };
    Ok((outbox, inbox))
}

impl Inbox {
    /// Reads the new reports, and returns the current report of each rank.
    pub(crate) fn take(&mut self) -> &[Option<Report>] {
        let mut bytes = [0; 4096];
        // A descendant that writes endlessly must not block the loop: the rest follows with the next call.
        for _ in 0..64 {
            match self.pipe.read(&mut bytes) {
                Ok(read) if read > 0 => self.note(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        &self.reports
    }

    /// Returns whether a rank has reported since the last call that the job has no ring.
    pub(crate) fn found_no_ring(&mut self) -> bool {
        std::mem::take(&mut self.no_ring)
    }

    fn note(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if let Some(line) = self.rest.strip_suffix(b"\n") {
                let report = Report::parse(line);
                let place = report.and_then(|report| report.rank.checked_sub(self.first_rank));
                self.no_ring |= report.is_some_and(|report| report.what == What::NoRing);
                if let Some(slot) = place.and_then(|place| self.reports.get_mut(place)) {
                    *slot = report.and_then(|report| report.after(*slot));
                }
                self.rest.clear();
            } else if self.rest.len() > LONGEST {
                self.rest.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::channel;

    #[test]
    fn the_first_report_of_each_rank_counts_and_garbage_does_not() {
        let (outbox, mut inbox) = channel(4, 3).unwrap();
        let mut pipe = &*outbox.pipe;
        assert!(inbox.take().iter().all(Option::is_none));
        pipe.write_all(b"cobre-report 5 lost 4\ncobre-rep").unwrap();
        assert_eq!(inbox.take()[1].unwrap().named, Some(4));
        pipe.write_all(b"ort 6 late 5\nnonsense\n").unwrap();
        pipe.write_all(b"cobre-report 5 late 6\ncobre-report 3 lost 4\ncobre-report 7 lost 4\n")
            .unwrap();
        pipe.write_all(&[b'x'; 5000]).unwrap();
        pipe.write_all(b"\ncobre-report 4 lost -\n").unwrap();
        let named = inbox.take().iter().map(|report| report.unwrap().named);
        assert_eq!(named.collect::<Vec<_>>(), [None, Some(4), Some(5)]);
    }

    #[test]
    fn that_there_is_no_ring_is_found_once_and_changes_nothing_that_stands() {
        let (outbox, mut inbox) = channel(0, 1).unwrap();
        let mut pipe = &*outbox.pipe;
        pipe.write_all(b"cobre-report 0 no-ring -\n").unwrap();
        assert_eq!(inbox.take(), [None]);
        assert!(inbox.found_no_ring() && !inbox.found_no_ring());
        pipe.write_all(b"cobre-report 0 refused 0\ncobre-report 0 no-ring -\n")
            .unwrap();
        let found = inbox.take()[0].map(|report| report.what.as_str());
        assert_eq!(found, Some("refused"));
    }

    #[test]
    fn a_refusal_stands_until_the_rank_goes_on_or_fails() {
        let (outbox, mut inbox) = channel(0, 1).unwrap();
        let mut pipe = &*outbox.pipe;
        for (line, stands) in [
            ("refused 2", Some("refused")),
            ("refused 0", Some("refused")),
            ("resumed -", None),
            ("resumed -", None),
            ("refused 1", Some("refused")),
            ("lost 1", Some("peer_lost")),
            ("resumed -", Some("peer_lost")),
            ("refused 0", Some("peer_lost")),
            ("late 0", Some("peer_lost")),
        ] {
            writeln!(pipe, "cobre-report 0 {line}").unwrap();
            let found = inbox.take()[0].map(|report| report.what.as_str());
            assert_eq!(found, stands, "{line}");
        }
    }
}
