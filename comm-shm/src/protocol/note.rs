//! Refusals: which rank was first, and why, as text that crosses between processes.

use comm_kit::words::{self, LONGEST_REASON};

use crate::protocol::sync::{AtomicU64, Ordering, fence, text_fence};

/// Why a rank refused a step, as text.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Note {
    /// The step that the text belongs to; 0 while the text is written.
    pub(crate) step: AtomicU64,
    /// UTF-8, padded with zeros.
    pub(crate) text: [AtomicU64; NOTE_WORDS],
}

/// How many consecutive refusals keep their reason and first rank.
pub(crate) const NOTES: usize = if cfg!(loom) { 2 } else { 16 };

const NOTE_WORDS: usize = if cfg!(loom) { 2 } else { LONGEST_REASON / 8 };

/// How many bytes of the reason of a refusal are kept.
pub(crate) const NOTE_BYTES: usize = 8 * NOTE_WORDS;

/// Returns which of a rank's notes belongs to `step`.
pub(crate) fn note_index(step: u64) -> usize {
    usize::try_from(step % NOTES as u64).unwrap_or(0)
}

/// The bits of a word that hold a rank: there are at most 1024. The other bits hold a step.
const RANK_BITS: u32 = 10;

/// Records `rank` as the first to refuse `step`, unless another one was first.
///
/// Called before the refusal becomes visible, so all ranks that see a refusal name the same rank.
pub(crate) fn blame(word: &AtomicU64, step: u64, rank: usize) {
    let entry = step << RANK_BITS | rank as u64;
    let mut found = word.load(Ordering::Relaxed);
    while found >> RANK_BITS < step {
        match word.compare_exchange(found, entry, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => found = other,
        }
    }
}

/// Returns the first rank that refused `step`, unless the word belongs to a later step by now.
pub(crate) fn blamed(word: &AtomicU64, step: u64, size: usize) -> Option<usize> {
    let found = word.load(Ordering::Acquire);
    let rank = usize::try_from(found & ((1 << RANK_BITS) - 1)).ok()?;
    (found >> RANK_BITS == step && rank < size).then_some(rank)
}

/// Writes why `step` was refused; only the owner of the note calls this.
pub(crate) fn write(note: &Note, step: u64, text: &str) {
    note.step.store(0, Ordering::Relaxed);
    // A reader that sees any new word of the text sees the 0 above, or the new step below.
    text_fence(Ordering::Release);
    let mut bytes = [0; NOTE_BYTES];
    let end = text.floor_char_boundary(NOTE_BYTES);
    bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
    let (words, _) = bytes.as_chunks();
    for (word, &chunk) in note.text.iter().zip(words) {
        word.store(u64::from_ne_bytes(chunk), Ordering::Relaxed);
    }
    note.step.store(step, Ordering::Release);
}

/// Reads why `step` was refused, unless the note belongs to another step by now.
pub(crate) fn read(note: &Note, step: u64) -> Option<String> {
    if note.step.load(Ordering::Acquire) != step {
        return None;
    }
    let mut bytes = Vec::with_capacity(NOTE_BYTES);
    for word in &note.text {
        bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    fence(Ordering::Acquire);
    if note.step.load(Ordering::Relaxed) != step {
        return None;
    }
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes.truncate(end.unwrap_or(NOTE_BYTES));
    Some(words::printable(&bytes, NOTE_BYTES))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_refuse_a_step_is_blamed() {
        let word = AtomicU64::new(0);
        blame(&word, 5, 3);
        blame(&word, 5, 1);
        assert_eq!(blamed(&word, 5, 4), Some(3));
        assert_eq!(blamed(&word, 4, 4), None);
        blame(&word, 21, 2);
        blame(&word, 5, 0);
        assert_eq!(blamed(&word, 21, 4), Some(2));
        assert_eq!(blamed(&word, 5, 4), None);
        assert_eq!(blamed(&word, 21, 2), None);
    }

    #[test]
    fn a_note_is_read_for_its_step_only() {
        let note = Note::default();
        assert_eq!(read(&note, 7), None);
        write(&note, 7, "recv has a length of 4, expected 3");
        assert_eq!(
            read(&note, 7).as_deref(),
            Some("recv has a length of 4, expected 3")
        );
        assert_eq!(read(&note, 3), None);
    }

    #[test]
    fn long_and_strange_texts_stay_whole_characters() {
        let note = Note::default();
        write(&note, 1, &"é".repeat(NOTE_BYTES));
        assert_eq!(read(&note, 1), Some("é".repeat(NOTE_BYTES / 2)));
        note.text[0].store(u64::from_ne_bytes(*b"\x1b[2J\xff\n!!"), Ordering::Relaxed);
        let text = read(&note, 1).expect("still step 1");
        assert!(!text.contains(['\x1b', '\n']), "{text:?}");
    }
}
