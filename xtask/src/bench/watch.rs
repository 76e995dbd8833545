//! Runs a measuring program under a watchdog.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::figure::Figure;

/// How long a program may take to end its ranks after a signal, and its last output to arrive.
const FAREWELL: Duration = Duration::from_secs(5);

enum Event {
    Said(String),
    Complained(String),
    Ended(io::Result<ExitStatus>),
}

/// Runs the program to its end. Each figure must arrive within `limit` of the one before, and after the last figure the program
/// must end soon: some libraries hang at their end.
///
/// # Errors
///
/// One line about how the program failed, or that the watchdog ended it.
pub(super) fn run(
    mut command: Command,
    figures: usize,
    limit: Duration,
    mut tell: impl FnMut(Figure),
) -> Result<(), String> {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| format!("{} cannot start: {why}", command.get_program().display()))?;
    let pid = Pid::from_child(&child);
    let events = listen(child);
    let mut complaints = Vec::new();
    let mut left = figures;
    let mut end = None;
    let mut signals = [Signal::TERM, Signal::KILL].into_iter();
    let mut overdue = false;
    let mut deadline = Instant::now() + limit;
    loop {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Said(line)) => {
                // comm-run puts the rank in front.
                let line = line.strip_prefix("[0] ").unwrap_or(&line);
                if let Ok(figure) = line.parse() {
                    tell(figure);
                    left = left.saturating_sub(1);
                    if !overdue && end.is_none() {
                        deadline = Instant::now() + if left == 0 { FAREWELL } else { limit };
                    }
                }
            }
            Ok(Event::Complained(line)) => complaints.push(line),
            Ok(Event::Ended(status)) => {
                end = Some(status);
                deadline = Instant::now() + FAREWELL;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            // The program has ended, but a process that it started still holds its pipes; do not wait for that.
            Err(RecvTimeoutError::Timeout) if end.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {
                overdue = true;
                let Some(signal) = signals.next() else {
                    break;
                };
                // The program may end at this very moment, and then there is no process to signal.
                let _ = kill_process(pid, signal);
                deadline = Instant::now() + FAREWELL;
            }
        }
    }
    if overdue && left == 0 {
        return Err("ended by the watchdog, as it did not end by itself".to_owned());
    }
    if overdue {
        let seconds = limit.as_secs_f64();
        return Err(format!("ended by the watchdog, no figure for {seconds} s"));
    }
    match end {
        Some(Ok(status)) if status.success() => Ok(()),
        Some(Ok(status)) => Err(last_words(&status.to_string(), &complaints)),
        Some(Err(why)) => Err(format!("it cannot be waited for: {why}")),
        None => Err("its end is unknown".to_owned()),
    }
}

/// Follows both streams and the end of the program, each in its own thread. The channel closes when all threads have ended.
fn listen(mut child: Child) -> Receiver<Event> {
    let (sender, events) = channel();
    if let Some(output) = child.stdout.take() {
        follow(output, sender.clone(), Event::Said);
    }
    if let Some(errors) = child.stderr.take() {
        follow(errors, sender.clone(), Event::Complained);
    }
    // The receiver is gone once the program was given up.
    thread::spawn(move || sender.send(Event::Ended(child.wait())));
    events
}

fn follow(pipe: impl Read + Send + 'static, sender: Sender<Event>, event: fn(String) -> Event) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if sender.send(event(line)).is_err() {
                break;
            }
        }
    });
}

/// Combines the exit status with the beginning of the error output, which contains the cause.
fn last_words(status: &str, complaints: &[String]) -> String {
    let lines = complaints.iter().map(|line| line.trim());
    let mut told: Vec<&str> = lines
        .filter(|line| line.chars().any(char::is_alphanumeric))
        .collect();
    // All ranks may print the same line.
    told.dedup();
    match told[..] {
        [] => status.to_owned(),
        [only] => format!("{status}: {only}"),
        [first, second] => format!("{status}: {first} / {second}"),
        [first, second, ..] => format!("{status}: {first} / {second} / .."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Vec<Figure>, Result<(), String>) {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::null());
        let mut figures = Vec::new();
        let end = run(shell, 5, limit, |figure| figures.push(figure));
        (figures, end)
    }

    const LONG: Duration = Duration::from_mins(1);
    const SHORT: Duration = Duration::from_millis(300);

    #[test]
    fn figures_are_told_and_other_lines_are_not() {
        let (figures, end) = shell(
            "echo hello; for who in '' '[0] ' '[1] '; do echo \"${who}timing,barrier,0,7,1.0,2.0,\"; done",
            LONG,
        );
        assert_eq!((figures.len(), end), (2, Ok(())));
    }

    #[test]
    fn a_failure_comes_with_what_was_said_about_it() {
        let (figures, end) = shell(
            "echo ----- >&2; echo 'no such host' >&2; echo 'no such host' >&2; exit 3",
            LONG,
        );
        assert!(figures.is_empty());
        assert_eq!(end, Err("exit status: 3: no such host".to_owned()));
    }

    #[test]
    fn a_program_that_hangs_is_ended_and_keeps_its_figures() {
        let start = Instant::now();
        let (figures, end) = shell("echo timing,barrier,0,7,1.0,2.0,; exec sleep 100", SHORT);
        assert_eq!(figures.len(), 1);
        assert!(end.is_err_and(|why| why.contains("watchdog")));
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn a_program_that_ignores_the_signal_is_killed() {
        let start = Instant::now();
        let (_, end) = shell("trap '' TERM; while :; do :; done", SHORT);
        assert!(end.is_err_and(|why| why.contains("watchdog")));
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn a_program_that_has_said_all_does_not_get_the_whole_limit_to_end() {
        let start = Instant::now();
        let script =
            "for i in 1 2 3 4 5; do echo timing,barrier,0,7,1.0,2.0,; done; exec sleep 100";
        let (figures, end) = shell(script, LONG);
        assert_eq!(figures.len(), 5);
        assert!(end.is_err_and(|why| why.contains("did not end by itself")));
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn a_figure_buys_time_for_the_next() {
        let script = "for i in 1 2 3 4 5; do sleep 0.8; echo timing,barrier,0,7,1.0,2.0,; done";
        let (figures, end) = shell(script, Duration::from_secs(3));
        assert_eq!((figures.len(), end), (5, Ok(())));
        let (none, end) = shell("sleep 2; echo timing,barrier,0,7,1.0,2.0,", SHORT);
        assert!(none.is_empty() && end.is_err());
    }

    #[test]
    fn a_program_that_is_not_there_is_said() {
        let missing = Command::new("no-such-program");
        let end = run(missing, 5, LONG, |_| {});
        assert!(end.is_err_and(|why| why.starts_with("no-such-program cannot start")));
    }
}
