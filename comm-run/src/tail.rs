//! The last lines of a rank, for the report on why it failed.

use std::collections::VecDeque;

use crate::sink::Stream;

/// How many lines of a failed rank are shown.
pub(crate) const TAIL_LINES: usize = 20;
/// How much of each.
const TAIL_BYTES: usize = 4 << 10;

/// Holds one of the last lines a rank wrote.
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
    pub(crate) fn push<'a>(
        &mut self,
        stream: Stream,
        lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) {
        // From the back: of a batch of ten thousand lines only the last few are worth a copy.
        let newest: Vec<_> = lines.rev().take(TAIL_LINES).collect();
        for line in newest.into_iter().rev() {
            if self.0.len() == TAIL_LINES {
                self.0.pop_front();
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
    fn keeps_the_newest_lines_in_order_of_arrival() {
        let mut tail = Tail::default();
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        tail.push(Stream::Stdout, many.iter().map(String::as_bytes));
        tail.push(Stream::Stderr, [b"error".as_slice()].into_iter());
        let lines = tail.take();
        assert_eq!(lines.len(), TAIL_LINES);
        assert_eq!(
            (lines[0].stream, lines[0].bytes.as_slice()),
            (Stream::Stdout, b"81".as_slice())
        );
        assert_eq!(lines[TAIL_LINES - 1].bytes, b"error");
        assert_eq!(lines[TAIL_LINES - 1].stream, Stream::Stderr);
    }

    #[test]
    fn cuts_long_lines() {
        let mut tail = Tail::default();
        tail.push(
            Stream::Stdout,
            [vec![b'x'; 2 * TAIL_BYTES].as_slice()].into_iter(),
        );
        assert_eq!(tail.take()[0].bytes.len(), TAIL_BYTES);
    }
}
