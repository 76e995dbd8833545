//! Times the start of all ranks: from the start of the launcher to its end, after one barrier.

use std::process::Command;
use std::time::{Duration, Instant};

use super::book::median;
use super::figure::Figure;
use super::row::{Op, Row};
use super::watch;

/// The row that the measuring programs run.
pub(super) const ROW: Row = Row::new(Op::StartUp, 0);

/// More starts than this do not improve the figure.
const MOST: usize = 5;

/// Starts the program once, and again while there is time; returns the median.
///
/// # Errors
///
/// One line about how a start failed.
pub(super) fn time(
    mut prepare: impl FnMut() -> Command,
    seconds: f64,
    limit: Duration,
) -> Result<Figure, String> {
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.is_empty() || (times.len() < MOST && begin.elapsed().as_secs_f64() < seconds) {
        let start = Instant::now();
        watch::run(prepare(), 0, limit, |_| {})?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Figure {
        row: ROW,
        calls: times.len(),
        p99: times.iter().copied().fold(0.0, f64::max),
        median: median(times).unwrap_or_default(),
        span: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    fn timed(script: &str, seconds: f64, limit: Duration) -> Result<Figure, String> {
        time(|| command("sh", &["-c", script]), seconds, limit)
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn the_time_is_that_of_the_whole_program_and_one_start_is_enough() {
        let figure = timed("sleep 0.3", 0.001, LONG).unwrap();
        assert_eq!((figure.row, figure.calls), (ROW, 1));
        assert!(figure.median >= 300_000.0, "{figure}");
        assert_eq!(timed("exit 0", 50.0, LONG).unwrap().calls, MOST);
    }

    #[test]
    fn a_start_that_fails_or_hangs_has_no_time() {
        let failed = timed("echo no such host >&2; exit 3", 0.001, LONG);
        assert_eq!(failed, Err("exit status: 3: no such host".to_owned()));
        let hangs = timed("exec sleep 100", 0.001, Duration::from_millis(300));
        assert!(hangs.is_err_and(|why| why.contains("watchdog")));
    }
}
