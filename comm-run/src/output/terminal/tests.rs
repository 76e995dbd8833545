//! Lines, and the bytes that a terminal sink writes for them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek};

use super::{Target, Terminal};
use crate::output::{Line, LineEnd, Sink, Stream};

use LineEnd::{Limit, Missing, Newline};
use Stream::{Stderr, Stdout};

/// Writes the lines and returns the contents of both files; with `shared`, of the one file.
fn written(
    terminal: bool,
    shared: bool,
    lines: &[(usize, Stream, &str, LineEnd)],
) -> (String, String) {
    let [mut out, mut err] = [0, 1].map(|_| tempfile::tempfile().unwrap());
    let target = |file: &File| Target {
        file: file.try_clone().unwrap(),
        colour: false,
        terminal,
        gathered: Vec::new(),
        prefix: (None, Vec::new()),
    };
    let mut sink = Terminal {
        stdout: target(&out),
        stderr: target(if shared { &out } else { &err }),
        shared,
        open: [None; 2],
        torn: BTreeSet::new(),
    };
    for &(rank, stream, text, end) in lines {
        let bytes = text.as_bytes();
        let line = Line {
            rank,
            stream,
            bytes,
            end,
        };
        sink.line(line).unwrap();
    }
    sink.flush().unwrap();
    let text = |file: &mut File| {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    (text(&mut out), text(&mut err))
}

/// Writes lines of stdout to a file.
fn plain(lines: &[(usize, &str, LineEnd)]) -> String {
    let lines = lines
        .iter()
        .map(|&(rank, text, end)| (rank, Stdout, text, end));
    written(false, false, &lines.collect::<Vec<_>>()).0
}

/// Writes lines of stdout to a terminal.
fn shown(lines: &[(usize, &str, LineEnd)]) -> String {
    let lines = lines
        .iter()
        .map(|&(rank, text, end)| (rank, Stdout, text, end));
    written(true, true, &lines.collect::<Vec<_>>()).0
}

#[test]
fn an_unfinished_line_goes_on_where_it_stopped() {
    let open = LineEnd::Open;
    let lines = [(0, "a", open), (0, "b", open), (0, "c", Newline)];
    assert_eq!(plain(&lines), "[0] abc\n");
    assert_eq!(
        plain(&[(0, "a", open), (0, "", Newline), (0, "", Newline)]),
        "[0] a\n[0] \n"
    );
    assert_eq!(plain(&[(0, "a", open), (0, "", Missing)]), "[0] a\n");
    assert_eq!(plain(&[(0, "a", Limit), (0, "b", Newline)]), "[0] ab\n");
}

#[test]
fn another_rank_in_between_starts_a_new_line_and_no_line_is_empty() {
    let open = LineEnd::Open;
    let lines = [(0, "a", open), (1, "x", Newline), (0, "b", Newline)];
    assert_eq!(plain(&lines), "[0] a\n[1] x\n[0] b\n");
    let lines = [(0, "a", open), (1, "x", Newline), (0, "", Newline)];
    assert_eq!(plain(&lines), "[0] a\n[1] x\n");
    let lines = [(0, "a", open), (1, "x", open), (0, "", Missing)];
    assert_eq!(plain(&lines), "[0] a\n[1] x");
    // A line that was cut because of its length is marked.
    let lines = [(0, "a", Limit), (1, "x", Newline), (0, "b", Newline)];
    let expected = "[0] a [comm-run: this line goes on]\n[1] x\n[0] b\n";
    assert_eq!(plain(&lines), expected);
}

#[test]
fn streams_tear_each_other_only_in_one_file() {
    let lines = [
        (0, Stdout, "a", LineEnd::Open),
        (0, Stderr, "x", Newline),
        (0, Stdout, "b", Newline),
    ];
    let (out, err) = written(false, false, &lines);
    assert_eq!((&*out, &*err), ("[0] ab\n", "[0] x\n"));
    let (out, _) = written(false, true, &lines);
    assert_eq!(out, "[0] a\n[0] x\n[0] b\n");
}

#[test]
fn a_bar_on_a_terminal_keeps_its_rank_and_bytes_elsewhere_are_untouched() {
    let open = LineEnd::Open;
    let bar = [
        (0, "\r10%", open),
        (0, "\r20%", open),
        (0, "\rdone", Newline),
    ];
    assert_eq!(shown(&bar), "[0] \r[0] 10%\r[0] 20%\r[0] done\n");
    assert_eq!(plain(&bar), "[0] \r10%\r20%\rdone\n");
    let behind = [(0, "10%\r", open), (0, "20%\r", open), (0, "", Newline)];
    assert_eq!(shown(&behind), "[0] 10%\r[0] 20%\r\n");
    // The line ending of another system.
    assert_eq!(shown(&[(0, "text\r", Newline)]), "[0] text\r\n");
}

#[test]
fn bars_of_many_ranks_take_turns_on_one_line_and_lines_leave_them() {
    let open = LineEnd::Open;
    let bars = [
        (0, "\r10%", open),
        (1, "\r30%", open),
        (0, "\r20%", open),
        (1, "x", Newline),
    ];
    let expected = "[0] \r[0] 10%\r[1] \r[1] 30%\r[0] \r[0] 20%\n[1] x\n";
    assert_eq!(shown(&bars), expected);
    // A prompt is not overwritten.
    let prompt = [(0, "name? ", open), (1, "\r30%", open)];
    assert_eq!(shown(&prompt), "[0] name? \n[1] \r[1] 30%");
}

#[test]
fn a_line_of_megabytes_is_written_whole() {
    let long = "x".repeat(3 << 20);
    let lines = [(0, "a", Newline), (1, &*long, Newline), (0, "b", Newline)];
    assert!(plain(&lines) == format!("[0] a\n[1] {long}\n[0] b\n"));
}
