//! The last lines of a rank, for the report on why it failed.

use std::collections::VecDeque;

use memchr::{memchr, memrchr};

use crate::output::Stream;
use crate::verdict::panic::Panics;

/// How many lines of each stream are kept. The streams are counted separately, so that many lines on one cannot
/// push the reason out of the other.
pub(super) const TAIL_LINES: usize = 20;
/// How many bytes of each line are kept.
const TAIL_BYTES: usize = 4 << 10;

/// One of the last lines a rank wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastLine {
    /// The stream it came from.
    pub stream: Stream,
    /// The line without its newline, cut off after 4 KiB.
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Tail {
    lines: VecDeque<LastLine>,
    panics: Panics,
}

impl Tail {
    /// Adds lines; the first one continues the last line of the stream if that is still `open`.
    pub(crate) fn push(&mut self, stream: Stream, open: bool, bytes: &[u8]) {
        if stream == Stream::Stderr {
            self.panics.look(bytes);
        }
        let mut bytes = bytes;
        if open && let Some(last) = self.lines.iter_mut().rfind(|kept| kept.stream == stream) {
            let (rest, others) = match memchr(b'\n', bytes) {
                Some(newline) => (&bytes[..newline], &bytes[newline + 1..]),
                None => (bytes, &[][..]),
            };
            let room = TAIL_BYTES.saturating_sub(last.bytes.len());
            last.bytes.extend_from_slice(&rest[..rest.len().min(room)]);
            bytes = others;
        }
        // From the end: in a batch of ten thousand lines, only the last few are worth a copy.
        let mut newest = Vec::with_capacity(TAIL_LINES);
        while !bytes.is_empty() && newest.len() < TAIL_LINES {
            let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            let start = memrchr(b'\n', text).map_or(0, |newline| newline + 1);
            newest.push(&text[start..]);
            bytes = &bytes[..start];
        }
        for line in newest.into_iter().rev() {
            if self
                .lines
                .iter()
                .filter(|kept| kept.stream == stream)
                .count()
                == TAIL_LINES
                && let Some(oldest) = self.lines.iter().position(|kept| kept.stream == stream)
            {
                self.lines.remove(oldest);
            }
            let bytes = line[..line.len().min(TAIL_BYTES)].to_vec();
            self.lines.push_back(LastLine { stream, bytes });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<LastLine> {
        std::mem::take(&mut self.lines).into()
    }

    /// Returns the beginnings of the last panics that are not among the last lines.
    pub(crate) fn take_panics(&mut self) -> Vec<Vec<u8>> {
        let lines = &self.lines;
        self.panics
            .beyond(|first| lines.iter().any(|line| line.bytes == first))
    }
}

#[cfg(test)]
mod tests {
    use super::{TAIL_BYTES, TAIL_LINES, Tail};
    use crate::output::Stream;

    #[test]
    fn keeps_the_newest_lines_of_each_stream_in_order_of_arrival() {
        let mut tail = Tail::default();
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        tail.push(Stream::Stderr, false, b"reason\n");
        tail.push(Stream::Stdout, false, many.join("\n").as_bytes());
        tail.push(Stream::Stderr, false, b"end\n");
        tail.push(Stream::Stdout, false, b"last");
        let lines = tail.take();
        let texts: Vec<_> = lines.iter().map(|line| line.bytes.as_slice()).collect();
        assert_eq!(texts.len(), TAIL_LINES + 2);
        assert_eq!(texts[..2], [b"reason".as_slice(), b"81"]);
        assert_eq!(texts[TAIL_LINES..], [b"end".as_slice(), b"last"]);
        assert_eq!(lines[0].stream, Stream::Stderr);
    }

    #[test]
    fn cuts_long_lines() {
        let mut tail = Tail::default();
        tail.push(Stream::Stdout, false, &vec![b'x'; 2 * TAIL_BYTES]);
        assert_eq!(tail.take()[0].bytes.len(), TAIL_BYTES);
    }

    #[test]
    fn a_line_that_goes_on_is_one_and_empty_ones_count() {
        let mut tail = Tail::default();
        let mut open = false;
        for piece in ["a", "b", "c\n\n", "d\n", "e", "", "f\ng"] {
            tail.push(Stream::Stdout, open, piece.as_bytes());
            open = !piece.ends_with('\n');
        }
        let texts: Vec<_> = tail.take().into_iter().map(|line| line.bytes).collect();
        assert_eq!(texts, [&b"abc"[..], b"", b"d", b"ef", b"g"]);
    }
}
