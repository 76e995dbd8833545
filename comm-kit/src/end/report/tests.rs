//! The pipe gets every report, and no other descriptor gets one.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read as _, pipe};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;

use super::*;

const LOST: What = What::Failed(FailureKind::PeerLost);

fn inode(of: impl AsFd) -> u64 {
    let file = File::from(of.as_fd().try_clone_to_owned().unwrap());
    file.metadata().unwrap().ino()
}

fn place(pipe: &PipeWriter) -> Pipe {
    Pipe {
        descriptor: pipe.as_raw_fd().cast_unsigned(),
        inode: inode(pipe),
        rank: 3,
    }
}

/// Returns everything in the pipe, once the write end is closed.
fn content(mut reader: PipeReader, writer: PipeWriter) -> String {
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn what_is_written_can_be_read() {
    for (_, what) in WORDS {
        for named in [None, Some(0), Some(4095)] {
            let report = Report {
                rank: 17,
                what,
                named,
                at: None,
            };
            let line = report.line().unwrap();
            assert!(line.len() < 64, "{line}");
            assert_eq!(Report::parse(line.trim_end().as_bytes()), Some(report));
        }
    }
    let mild = What::Failed(FailureKind::Application);
    assert_eq!(
        Report {
            rank: 0,
            what: mild,
            named: None,
            at: None,
        }
        .line(),
        None
    );
}

#[test]
fn the_place_of_the_call_comes_last() {
    let report = |at| Report {
        rank: 17,
        what: LOST,
        named: Some(4),
        at: Some(at),
    };
    for at in [
        Place::new("src/solver.rs", 88),
        Place::new("C:/my files/train.py", 1),
        Place::new(&"x".repeat(LONGEST_PLACE - 3), 7),
    ] {
        let line = report(at).line().unwrap();
        assert!(line.len() < 512, "{line}");
        assert_eq!(Report::parse(line.trim_end().as_bytes()), Some(report(at)));
    }
    for at in [
        Place::new("two\nlines.py", 1),
        Place::new(&"x".repeat(LONGEST_PLACE), 7),
    ] {
        let line = report(at).line().unwrap();
        assert_eq!(Report::parse(line.trim_end().as_bytes()).unwrap().at, None);
    }
}

/// The launcher gives a lost rank time to print its last output, and blames that rank.
#[test]
fn who_left_aborted_or_refused_is_lost_and_who_is_late_or_differs_is_not() {
    let lost = ["lost", "aborted", "refused"];
    for (word, what) in WORDS {
        let report = |named| Report {
            rank: 17,
            what,
            named,
            at: None,
        };
        let wanted = lost.contains(&word).then_some(4);
        assert_eq!(report(Some(4)).lost(), wanted, "{word}");
        assert_eq!(report(None).lost(), None, "{word}");
    }
}

#[test]
fn other_lines_are_no_reports() {
    for line in [
        "",
        "cobre-report",
        "cobre-report 1 lost",
        "cobre-report 1 lost 2 ",
        "cobre-report 1 lost 2 3",
        "cobre-report 1 lost 2 a.rs:",
        "cobre-report 1 lost 2 a.rs:-3",
        "cobre-report 1 lost 2 a.rs:99999999999",
        "cobre-report  1 lost 2",
        "cobre-report -1 lost 2",
        "cobre-report 1 lost +2",
        "cobre-report 1 bored 2",
        "cobre-report 99999999999999999999 lost 2",
        "report 1 lost 2",
        "\u{fffd}",
    ] {
        assert_eq!(Report::parse(line.as_bytes()), None, "{line:?}");
    }
    assert_eq!(Report::parse(b"cobre-report 1 lost \xff"), None);
}

#[test]
fn a_place_is_three_numbers_above_the_standard_streams() {
    let place = Pipe {
        descriptor: 7,
        inode: 12345,
        rank: 2,
    };
    assert_eq!(Pipe::parse(&place.to_string()), Some(place));
    for text in [
        "",
        "7",
        "7:1",
        "7:1:2:3",
        "2:1:0",
        "0:1:0",
        "-7:1:2",
        "+7:1:2",
        "7:x:2",
        "7::2",
        "4294967296:1:2",
        " 7:1:2",
        "7:1:2\n",
        "../7:1:2",
    ] {
        assert_eq!(Pipe::parse(text), None, "{text:?}");
    }
}

#[test]
fn the_pipe_gets_one_line() {
    let (reader, writer) = pipe().unwrap();
    assert_eq!(write(place(&writer), LOST, Some(1), None), Some(()));
    assert_eq!(content(reader, writer), "cobre-report 3 lost 1\n");
}

#[test]
fn another_pipe_under_that_number_gets_nothing() {
    let (_other, expected) = pipe().unwrap();
    let (reader, writer) = pipe().unwrap();
    let wrong = Pipe {
        inode: inode(&expected),
        ..place(&writer)
    };
    assert_eq!(write(wrong, LOST, Some(1), None), None);
    assert_eq!(content(reader, writer), "");
}

#[test]
fn a_file_with_that_inode_gets_nothing() {
    let path = std::env::temp_dir().join(format!("comm-kit-report-{}", std::process::id()));
    let file = File::create(&path).unwrap();
    let place = Pipe {
        descriptor: file.as_raw_fd().cast_unsigned(),
        inode: inode(&file),
        rank: 3,
    };
    assert_eq!(write(place, LOST, Some(1), None), None);
    let length = file.metadata().unwrap().len();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(length, 0);
}

#[test]
fn a_number_that_is_not_open_gets_nothing() {
    let place = Pipe {
        descriptor: 1_000_000,
        inode: 1,
        rank: 0,
    };
    assert_eq!(write(place, LOST, Some(1), None), None);
}

#[test]
fn a_full_pipe_stops_nobody() {
    comm_testing::watchdog();
    let (reader, writer) = pipe().unwrap();
    let place = place(&writer);
    let mut written = 0;
    while write(place, LOST, Some(1), None).is_some() {
        written += 1;
        assert!(written < 1_000_000, "the pipe never fills");
    }
    let lines = content(reader, writer);
    assert_eq!(lines.lines().count(), written, "whole lines only");
    assert!(lines.lines().all(|line| line == "cobre-report 3 lost 1"));
}

#[test]
fn a_launcher_that_is_gone_does_no_harm() {
    let (reader, writer) = pipe().unwrap();
    let place = place(&writer);
    drop(reader);
    assert_eq!(write(place, LOST, Some(1), None), None);
}
