//! The beginnings of a rank's last panics: a full backtrace pushes the place and the message out of its last lines.
//!
//! Rust prints `thread 'main' panicked at src/main.rs:61:5:`, the message in the lines below, and then the backtrace.

use std::collections::VecDeque;

use memchr::memchr;
use memchr::memmem;

/// Appears in the first line of every panic.
const MARK: &[u8] = b" panicked at ";
/// Begins that line, except for spaces.
const THREAD: &[u8] = b"thread '";
/// Begins the line after the message.
const ENDS: [&[u8]; 3] = [b"stack backtrace:", b"note: ", b"thread '"];
/// How many panics are kept: that of a thread, and that of the thread that waits for it.
const PANICS: usize = 2;
/// How many lines of each panic are kept, and how many bytes of each line.
const LINES: usize = 8;
const BYTES: usize = 1 << 10;

/// The beginnings of the last panics in one stream.
#[derive(Debug, Default)]
pub(super) struct Panics {
    kept: VecDeque<Vec<Vec<u8>>>,
    /// Whether the next line may continue the message of the last panic.
    goes_on: bool,
}

impl Panics {
    /// Searches whole lines; treats the part of a line that continues in another batch as a line.
    pub(super) fn look(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.goes_on {
            rest = self.take(rest);
        }
        // In a flood of panics, only the last ones are worth a copy.
        let mut starts: Vec<usize> = Vec::new();
        let mut end = rest.len();
        while starts.len() < PANICS
            && let Some(found) = memmem::rfind(&rest[..end], MARK)
        {
            let start = memchr::memrchr(b'\n', &rest[..found]).map_or(0, |newline| newline + 1);
            if rest[start..found].trim_ascii_start().starts_with(THREAD) {
                starts.push(start);
            }
            end = start;
        }
        for start in starts.into_iter().rev() {
            if self.kept.len() == PANICS {
                self.kept.pop_front();
            }
            let (line, below) = first_line(&rest[start..]);
            self.kept.push_back(vec![shortened(line)]);
            self.goes_on = true;
            self.take(below);
        }
    }

    /// Returns the lines of those panics whose first line is not shown anyway.
    pub(super) fn beyond(&mut self, shown: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let kept = std::mem::take(&mut self.kept).into_iter();
        kept.filter(|panic| !shown(&panic[0])).flatten().collect()
    }

    /// Adds the lines that belong to the message of the last panic; returns the rest.
    fn take<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let Some(panic) = self.kept.back_mut()
            && !bytes.is_empty()
        {
            let (line, below) = first_line(bytes);
            let ends = ENDS.iter().any(|end| line.starts_with(end));
            if ends || panic.len() == LINES {
                self.goes_on = false;
                break;
            }
            panic.push(shortened(line));
            bytes = below;
        }
        bytes
    }
}

fn first_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b'\n', bytes) {
        Some(newline) => (&bytes[..newline], &bytes[newline + 1..]),
        None => (bytes, &[]),
    }
}

fn shortened(line: &[u8]) -> Vec<u8> {
    line[..line.len().min(BYTES)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::{LINES, Panics};

    fn found(batches: &[&str]) -> Vec<String> {
        let mut panics = Panics::default();
        for batch in batches {
            panics.look(batch.as_bytes());
        }
        let lines = panics.beyond(|line| line.starts_with(b"thread 'shown'"));
        let text = lines
            .into_iter()
            .map(|line| String::from_utf8(line).unwrap());
        text.collect()
    }

    #[test]
    fn the_message_ends_where_the_backtrace_begins() {
        let text = "before\n\nthread 'main' (7) panicked at src/main.rs:61:5:\nassertion failed\n  left: 1\n\
                    stack backtrace:\n   0: one\n   1: two\n";
        let expected = [
            "thread 'main' (7) panicked at src/main.rs:61:5:",
            "assertion failed",
            "  left: 1",
        ];
        assert_eq!(found(&[text]), expected);
        // Line by line, as from a slow pipe.
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        assert_eq!(found(&lines), expected);
        assert_eq!(
            found(&[&text.replace("stack backtrace:", "note: run with")]),
            expected
        );
    }

    #[test]
    fn the_last_two_are_kept_and_only_so_much_of_them() {
        let panic = |name: &str| format!("thread '{name}' panicked at a.rs:1:1:\nwhy {name}\n");
        let all = ["a", "b", "c"].map(panic);
        let last = [
            "thread 'b' panicked at a.rs:1:1:",
            "why b",
            "thread 'c' panicked at a.rs:1:1:",
            "why c",
        ];
        assert_eq!(found(&[&all.concat()]), last);
        assert_eq!(found(&all.each_ref().map(String::as_str)), last);
        let long = format!("{}{}", panic("d"), "more\n".repeat(100));
        assert_eq!(found(&[&long]).len(), LINES);
        assert_eq!(found(&[&panic("shown")]), [""; 0]);
    }

    #[test]
    fn what_only_sounds_like_a_panic_is_none() {
        assert_eq!(
            found(&["he panicked at noon\n", "a thread 'x' that panicked at y\n"]),
            [""; 0]
        );
        // In the middle of other lines.
        let both =
            "he panicked at noon\nthread 'x' panicked at y:\nwhy\nnote: that panicked at noon\n";
        assert_eq!(found(&[both]), ["thread 'x' panicked at y:", "why"]);
    }
}
