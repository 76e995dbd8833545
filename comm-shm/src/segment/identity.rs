//! Which process created a segment, and for which job: checked before a rank maps anything.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::config::{LONGEST_JOB_ID, ShmConfig};
use crate::error::InitError;
use crate::liveness::process::{Origin, Process};
use crate::protocol::sync::Ordering;
use crate::segment::layout::{Header, IDENTITY_WORDS};

const MAGIC: u64 = u64::from_ne_bytes(comm_kit::segments::MAGIC);

/// Changes whenever the layout or the protocol does: ranks of different builds do not mix.
const VERSION: u64 = 7;

const JOB: usize = 9;

/// Reads as another number with another byte order or pointer width.
const PLATFORM: u64 = 0x0102_0304_0506_0700 | size_of::<usize>() as u64;

/// What the creator wrote into the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) size: u64,
    pub(crate) creator: Origin,
    job_id: Vec<u8>,
    version: u64,
    platform: u64,
}

impl Identity {
    pub(crate) fn of(config: &ShmConfig, creator: Origin) -> Self {
        Self {
            size: config.size as u64,
            creator,
            job_id: config.job_id.clone().unwrap_or_default().into_bytes(),
            version: VERSION,
            platform: PLATFORM,
        }
    }

    pub(crate) fn write(&self, header: &Header) {
        let mut words = [0; IDENTITY_WORDS];
        words[0] = MAGIC;
        words[1] = self.version;
        words[2] = self.platform;
        words[3] = self.size;
        words[4] = self.creator.process.pid.into();
        words[5] = self.creator.process.start;
        words[6] = self.creator.pids;
        words[7] = self.job_id.len() as u64;
        words[8] = self.creator.times;
        let mut bytes = [0; LONGEST_JOB_ID];
        bytes[..self.job_id.len()].copy_from_slice(&self.job_id);
        for (word, &chunk) in words[JOB..].iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(chunk);
        }
        for (place, word) in header.identity.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Reads the header through the file: accessing a mapping of a truncated file would be fatal.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let mut bytes = [0; 8 * IDENTITY_WORDS];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let (chunks, _) = bytes.as_chunks();
        let word = |index: usize| u64::from_ne_bytes(chunks[index]);
        if word(0) != MAGIC {
            return None;
        }
        let length = usize::try_from(word(7))
            .ok()
            .filter(|&len| len <= LONGEST_JOB_ID)?;
        Some(Self {
            version: word(1),
            platform: word(2),
            size: word(3),
            creator: Origin {
                process: Process {
                    pid: u32::try_from(word(4)).ok()?,
                    start: word(5),
                },
                pids: word(6),
                times: word(8),
            },
            job_id: bytes[8 * JOB..][..length].to_vec(),
        })
    }

    /// Checks that the segment was created for the job of this rank, as far as that can be determined.
    pub(crate) fn check_job(&self, config: &ShmConfig) -> Result<(), InitError> {
        let job_id = config.job_id.as_deref().unwrap_or_default();
        if self.job_id == job_id.as_bytes() {
            return Ok(());
        }
        Err(InitError::invalid(
            &["COBRE_JOB_ID"],
            format!(
                "COBRE_JOB_ID is {job_id:?} here and {:?} in process {}, which created segment \
                 {:?}; give each job its own name",
                String::from_utf8_lossy(&self.job_id),
                self.creator.process.pid,
                config.name
            ),
        ))
    }

    /// Checks that this rank can join the segment of its job; the size is checked separately.
    pub(crate) fn check(&self, config: &ShmConfig, own: &Origin) -> Result<(), InitError> {
        let Self { creator, .. } = self;
        if self.version != VERSION || self.platform != PLATFORM {
            return Err(InitError::failed(
                &[],
                format!(
                    "segment {:?} was created by another build (layout {}, this build has {VERSION}); start \
                     all ranks from the same build",
                    config.name, self.version
                ),
            ));
        }
        if let Some(what) = stranger(creator, own) {
            return Err(InitError::failed(
                &[],
                format!(
                    "segment {:?} was created {what}; run all ranks of a job in the same environment, or use the \
                     tcp backend",
                    config.name
                ),
            ));
        }
        Ok(())
    }
}

/// Returns where the creator of a segment runs, if this process cannot check whether it lives.
fn stranger(creator: &Origin, own: &Origin) -> Option<&'static str> {
    if creator.pids != own.pids {
        return Some(match (creator.pids, own.pids) {
            (0, _) => "without a /proc, which this rank has",
            (_, 0) => "with a /proc, which this rank does not have",
            _ => "in another pid namespace (a container?)",
        });
    }
    (creator.times != own.times).then_some("in another time namespace (a container?)")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::offset_of;

    use comm_api::{ReduceOp, ScalarKind};
    use comm_kit::Call;

    use super::*;
    use crate::protocol::cause::{Cause, Failure};
    use crate::protocol::sync::AtomicU64;
    use crate::segment::layout::Layout;

    /// Ranks that share a name but no pids would watch the wrong processes.
    #[test]
    fn a_creator_whose_pids_or_times_mean_something_else_is_a_stranger() {
        let process = Process { pid: 7, start: 9 };
        let origin = |pids, times| Origin {
            process,
            pids,
            times,
        };
        let own = origin(1, 2);
        assert_eq!(stranger(&origin(1, 2), &own), None);
        let cases = [
            (origin(3, 2), "in another pid namespace"),
            (origin(0, 2), "without a /proc"),
            (origin(1, 3), "in another time namespace"),
        ];
        for (creator, words) in cases {
            let config = ShmConfig::new("cobre-unit", 1, 2);
            let error = Identity::of(&config, creator).check(&config, &own);
            let error = error.expect_err("it is let in");
            assert!(error.message.contains(words), "{error}");
        }
        let creator = Identity::of(&ShmConfig::new("cobre-unit", 1, 2), own);
        let without = creator.check(&ShmConfig::new("cobre-unit", 1, 2), &origin(0, 2));
        let error = without.expect_err("it is let in");
        assert!(error.message.contains("with a /proc"), "{error}");
    }

    /// A change of a number here requires a higher [`VERSION`], so that ranks of earlier builds are refused
    /// when they attach.
    #[test]
    fn a_version_is_one_protocol() {
        let call = Call::allreduce(24, ScalarKind::F64, ReduceOp::Max);
        let [counts, equal] = [[1, 2, 3], [3; 3]].map(|counts| Call::allgatherv(&counts, 8));
        let (word, failure) = (AtomicU64::new(0), Failure::Interrupted);
        Cause { rank: 7, failure }.record(&word, 8);
        let protocol = [
            call.words(),
            counts.words(),
            equal.words(),
            [word.into_inner(), Layout::new(3, 0).note(2, 15) as u64],
        ];
        let pinned = [
            [0x0000_0008_0002_0903, 3],
            [0x0000_0008_0000_0002, 0x9749_7408_8ef7_e28c],
            [0x0000_0008_0100_0002, 3],
            [0x0500_0007_0000_0000, 13_440],
        ];
        assert_eq!((VERSION, protocol), (7, pinned));
    }

    /// What a rank uses before it knows that it is of another build, independent of [`VERSION`].
    #[test]
    fn a_rank_of_another_build_finds_where_to_end_the_start() {
        let (word, failure) = (AtomicU64::new(0), Failure::Unattached);
        Cause { rank: 7, failure }.record(&word, 8);
        let shared = [
            offset_of!(Header, identity) as u64,
            offset_of!(Header, verdict) as u64,
            offset_of!(Header, news) as u64,
            word.into_inner(),
        ];
        assert_eq!(shared, [0, 384, 392, 0x0700_0007_0000_0000]);
    }
}
