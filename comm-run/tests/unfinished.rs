//! Unfinished lines: when they are shown, where they continue, and how much memory they take.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use common::{Folder, PATIENCE, Starter, comm_run, eventually, fresh_mark, gone, marked, terminal};
use rustix::fs::{OFlags, fcntl_setfl};

/// Reads everything from a descriptor as it arrives.
struct Screen {
    pieces: Receiver<Vec<u8>>,
    text: String,
}

impl Screen {
    fn new(mut from: impl Read + Send + 'static) -> Self {
        let (sender, pieces) = channel();
        thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            // Reading a terminal returns an error when its last program has gone.
            while let Ok(size @ 1..) = from.read(&mut piece) {
                if sender.send(piece[..size].to_vec()).is_err() {
                    return;
                }
            }
        });
        let text = String::new();
        Self { pieces, text }
    }

    /// Waits until the output ends with `text`.
    fn shows(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.text.ends_with(text) {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(piece) = self.pieces.recv_timeout(left) else {
                panic!("{text:?} does not follow {:?}", self.text);
            };
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    /// Waits for the end, and returns everything.
    fn end(mut self) -> String {
        while let Ok(piece) = self.pieces.recv_timeout(PATIENCE) {
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
        self.text
    }
}

/// Waits for a file that the test creates: `go 1` in a script.
const GO: &str = "go() { while [ ! -e $NOTES/$1 ]; do sleep 0.01; done; }; ";

fn go(notes: &Folder, name: &str) {
    fs::write(notes.join(name), "").unwrap();
}

#[test]
fn a_prompt_is_shown_and_its_line_goes_on_where_it_stopped() {
    let (mark, notes) = (fresh_mark(), Folder::new());
    let script = format!("{GO}printf 'name? '; go 1; echo none; echo end");
    let mut command = comm_run(&["-n", "1", "--", "sh", "-c", &script], &mark);
    let mut child = command.env("NOTES", notes.join("")).spawn().unwrap();
    let mut screen = Screen::new(child.stdout.take().unwrap());
    screen.shows("[0] name? ");
    go(&notes, "1");
    assert_eq!(screen.end(), "[0] name? none\n[0] end\n");
    assert!(child.wait().unwrap().success());
    gone(&mark);
}

#[test]
fn others_get_lines_of_their_own_beside_an_unfinished_one() {
    let (mark, notes) = (fresh_mark(), Folder::new());
    let script = format!(
        "{GO}if [ $RANK = 0 ]; then printf 'half '; go 2; echo whole; \
         else go 1; echo other; fi"
    );
    let mut command = comm_run(&["-n", "2", "--", "sh", "-c", &script], &mark);
    let mut child = command.env("NOTES", notes.join("")).spawn().unwrap();
    let mut screen = Screen::new(child.stdout.take().unwrap());
    screen.shows("[0] half ");
    go(&notes, "1");
    screen.shows("[0] half \n[1] other\n");
    go(&notes, "2");
    assert_eq!(screen.end(), "[0] half \n[1] other\n[0] whole\n");
    assert!(child.wait().unwrap().success());
    gone(&mark);
}

/// Starts a rank whose launcher writes to a terminal.
fn on_terminal(script: &str, notes: &Folder, mark: &str) -> (Child, Screen) {
    let (screen, program) = terminal();
    let script = format!("{GO}{script}");
    let mut command = comm_run(&["-n", "1", "--", "sh", "-c", &script], mark);
    command.env("NOTES", notes.join("")).env("NO_COLOR", "1");
    command.stdout(program.try_clone().unwrap()).stderr(program);
    (command.spawn().unwrap(), Screen::new(screen))
}

#[test]
fn a_progress_bar_moves_on_a_terminal_behind_its_rank() {
    let (mark, notes) = (fresh_mark(), Folder::new());
    let script = "printf '\\r10%%'; go 1; printf '\\r20%%'; go 2; echo ' done'";
    let (mut child, mut screen) = on_terminal(script, &notes, &mark);
    screen.shows("[0] \r[0] 10%");
    go(&notes, "1");
    screen.shows("[0] 10%\r[0] 20%");
    go(&notes, "2");
    screen.shows("20% done\r\n");
    eventually("comm-run ends", || child.try_wait().unwrap().is_some());
    assert_eq!(screen.end(), "[0] \r[0] 10%\r[0] 20% done\r\n");
    gone(&mark);
}

#[test]
fn an_unfinished_line_of_a_rank_that_dies_is_ended_before_the_report() {
    let (mark, notes) = (fresh_mark(), Folder::new());
    let (mut child, mut screen) = on_terminal("printf half; go 1; exit 3", &notes, &mark);
    screen.shows("[0] half");
    go(&notes, "1");
    eventually("comm-run ends", || child.try_wait().unwrap().is_some());
    let text = screen.end();
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim_end_matches('\r'))
        .collect();
    assert_eq!(lines[0], "[0] half", "{text:?}");
    assert!(
        lines[1].starts_with("comm-run: rank 0 exited with code 3"),
        "{text:?}"
    );
    gone(&mark);
}

/// Returns the peak memory of a process, in bytes.
fn peak(pid: u32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes = line.trim().trim_end_matches(" kB");
    Some(kilobytes.parse::<usize>().ok()? << 10)
}

#[test]
fn long_lines_of_many_ranks_are_passed_on_before_they_fill_the_memory() {
    const RANKS: usize = 12;
    const LINE: usize = 40_000_000;
    let mark = fresh_mark();
    let script = format!("head -c {LINE} /dev/zero | tr '\\0' x; echo");
    let ranks = RANKS.to_string();
    let mut command = comm_run(&["-n", &ranks, "--", "sh", "-c", &script], &mark);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut piece = vec![0; 1 << 16];
    let (mut count, mut most) = (0, 0);
    loop {
        let size = stdout.read(&mut piece).unwrap();
        if size == 0 {
            break;
        }
        count += memchr::memchr_iter(b'x', &piece[..size]).count();
        most = most.max(peak(child.id()).unwrap_or(0));
    }
    assert_eq!(count, RANKS * LINE);
    assert!((1 << 20..220_000_000).contains(&most), "{most} bytes");
    assert!(child.wait().unwrap().success());
    gone(&mark);
}

#[test]
fn the_report_survives_a_full_pipe_that_does_not_block() {
    let mark = fresh_mark();
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 512]).is_ok() {}
    let notes = Folder::new();
    let script = ": > $NOTES/$RANK; exit 3";
    let mut command = comm_run(&["-n", "1", "--", "sh", "-c", script], &mark);
    command.env("NOTES", notes.join(""));
    command.stdout(Stdio::null()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    eventually("the rank ends", || notes.join("0").exists());
    // At most the launcher is left, and it is printing its report.
    eventually("the rank and the warden are gone", || {
        marked(&mark).len() <= 1
    });
    let text = Screen::new(reader).end();
    let report = text.trim_start_matches('.');
    assert!(
        report.starts_with("comm-run: rank ") && report.contains("exited with code 3"),
        "{report:?}"
    );
    eventually("comm-run ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    gone(&mark);
}

#[test]
fn a_report_that_nobody_reads_does_not_keep_a_stopped_job() {
    let mark = fresh_mark();
    let (_reader, mut writer) = std::io::pipe().unwrap();
    let mut command = comm_run(&["-n", "1", "--timeout", "0.1", "--", "sleep", "60"], &mark);
    // The pipe is full and blocks: a plain write would never return.
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 512]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    drop(command);
    eventually("comm-run ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(124));
    gone(&mark);
}

#[test]
fn logs_hold_an_unfinished_line_byte_for_byte() {
    let notes = Folder::new();
    let logs = notes.join("logs");
    let logs = logs.to_str().unwrap();
    let script = format!("{GO}printf 'a\\rb'; go 1; printf 'c\\nd'");
    let mark = fresh_mark();
    let args = ["-n", "1", "--log-dir", logs, "--", "sh", "-c", &script];
    let mut command = comm_run(&args, &mark);
    let mut child = command.env("NOTES", notes.join("")).spawn().unwrap();
    let mut screen = Screen::new(child.stdout.take().unwrap());
    screen.shows("[0] a\rb");
    go(&notes, "1");
    assert_eq!(screen.end(), "[0] a\rbc\n[0] d\n");
    assert!(child.wait().unwrap().success());
    let log = fs::read(notes.join("logs/rank-0.out")).unwrap();
    assert_eq!(log, b"a\rbc\nd");
}

#[test]
fn logs_of_the_last_job_stay_if_the_next_one_cannot_start() {
    let notes = Folder::new();
    let logs = notes.join("logs");
    let logs = logs.to_str().unwrap();
    let run = |words: &[&str]| {
        let args = [&["-n", "1", "--log-dir", logs, "--"], words].concat();
        Starter::new(&args).end()
    };
    let log = || fs::read_to_string(notes.join("logs/rank-0.out")).unwrap();
    assert_eq!(run(&["echo", "a long first line"]).code(), 0);
    assert_eq!(log(), "a long first line\n");
    assert_eq!(run(&["./no-such-program"]).code(), 127);
    assert_eq!(log(), "a long first line\n");
    // A job that started and wrote nothing empties the log; old lines would look like its output.
    assert_eq!(run(&["true"]).code(), 0);
    assert_eq!(log(), "");
}
