//! The last lines of a rank, for the report on why it failed.

use std::collections::VecDeque;

use crate::sink::Stream;

/// How many lines of each stream are kept. Each stream has its own, so that many lines on one cannot
/// push the reason out of the other.
pub(crate) const TAIL_LINES: usize = 20;
/// How much of each.
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
pub(crate) struct Tail(VecDeque<LastLine>);

impl Tail {
    /// Adds lines; the first one goes on where the last one of the stream stopped if that is still `open`.
    pub(crate) fn push<'a>(
        &mut self,
        stream: Stream,
        open: bool,
        mut lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) {
        if open
            && let Some(last) = self.0.iter_mut().rfind(|kept| kept.stream == stream)
            && let Some(rest) = lines.next()
        {
            let room = TAIL_BYTES.saturating_sub(last.bytes.len());
            last.bytes.extend_from_slice(&rest[..rest.len().min(room)]);
        }
        // From the back: of a batch of ten thousand lines only the last few are worth a copy.
        let newest: Vec<_> = lines.rev().take(TAIL_LINES).collect();
        for line in newest.into_iter().rev() {
            if self.0.iter().filter(|kept| kept.stream == stream).count() == TAIL_LINES
                && let Some(oldest) = self.0.iter().position(|kept| kept.stream == stream)
            {
                self.0.remove(oldest);
            }
            let bytes = line[..line.len().min(TAIL_BYTES)].to_vec();
            self.0.push_back(LastLine { stream, bytes });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<LastLine> {
        std::mem::take(&mut self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::{TAIL_BYTES, TAIL_LINES, Tail};
    use crate::sink::Stream;

    #[test]
    fn keeps_the_newest_lines_of_each_stream_in_order_of_arrival() {
        let mut tail = Tail::default();
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        tail.push(Stream::Stderr, false, [b"reason".as_slice()].into_iter());
        tail.push(Stream::Stdout, false, many.iter().map(String::as_bytes));
        tail.push(Stream::Stderr, false, [b"end".as_slice()].into_iter());
        tail.push(Stream::Stdout, false, [b"last".as_slice()].into_iter());
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
        tail.push(
            Stream::Stdout,
            false,
            [vec![b'x'; 2 * TAIL_BYTES].as_slice()].into_iter(),
        );
        assert_eq!(tail.take()[0].bytes.len(), TAIL_BYTES);
    }
}
