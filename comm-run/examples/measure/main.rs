//! Compares `comm-run` with the launchers of MPI on this machine: the time of a job of many short ranks, the throughput of output
//! with the rank in front, and the cost of waiting for ranks.
//!
//! ```sh
//! cargo build --release --package comm-run --bin comm-run --example measure
//! target/release/examples/measure target/release/comm-run
//! ```
//!
//! You can name several builds of `comm-run`. The launchers take turns, and each figure is the median of its rounds.
#![allow(clippy::print_stdout, reason = "a program that prints a table")]

mod idle;
mod launcher;

use std::error::Error;
use std::io::{self, BufWriter, Read, Write};
use std::process::Stdio;
use std::time::Instant;

use launcher::Launcher;

/// How often each figure is measured: the slow ones less often.
const ROUNDS_OF_STARTS: usize = 9;
const ROUNDS_OF_OUTPUT: usize = 5;
const ROUNDS_OF_WAITING: usize = 1;
/// How many ranks are started at once.
const STARTS: [usize; 4] = [2, 8, 32, 64];
/// How many ranks write, how many lines each writes, and how many bytes each line has.
const WRITERS: usize = 2;
const LINES: usize = 1 << 20;
const LINE: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--write") {
        return Ok(write()?);
    }
    let own = std::env::current_exe()?;
    let own = own
        .to_str()
        .ok_or("the path of this program is not UTF-8")?;
    let launchers = Launcher::all(&words);
    println!("| what | {} |", names(&launchers).join(" | "));
    println!("|---|{}", "---|".repeat(launchers.len()));
    for ranks in STARTS {
        let name = format!("start and end of {ranks} ranks, ms");
        row(&name, ROUNDS_OF_STARTS, &launchers, |launcher| {
            let since = Instant::now();
            let has_ended = launcher.run(ranks, &["/bin/true"])?;
            Ok(has_ended.then(|| since.elapsed().as_secs_f64() * 1e3))
        })?;
    }
    let name = format!("output of {WRITERS} ranks into a pipe, lines of {LINE} bytes, MB/s");
    row(&name, ROUNDS_OF_OUTPUT, &launchers, |launcher| {
        output(launcher, own).map(Some)
    })?;
    row(
        "4 ranks that sleep for 5 s, ms of processor time",
        ROUNDS_OF_WAITING,
        &launchers,
        |launcher| idle::cost(launcher).map(Some),
    )?;
    Ok(())
}

fn names(launchers: &[Launcher]) -> Vec<&str> {
    launchers.iter().map(|launcher| &*launcher.name).collect()
}

/// Measures all launchers in turns and prints their medians.
fn row(
    name: &str,
    rounds: usize,
    launchers: &[Launcher],
    measure: impl Fn(&Launcher) -> io::Result<Option<f64>>,
) -> io::Result<()> {
    let mut figures = vec![Vec::new(); launchers.len()];
    for _ in 0..rounds {
        for (launcher, figures) in launchers.iter().zip(&mut figures) {
            figures.extend(measure(launcher)?);
        }
    }
    let medians = figures.iter_mut().map(|figures| {
        figures.sort_by(f64::total_cmp);
        let hung = match rounds - figures.len() {
            0 => String::new(),
            hung => format!(" ({hung} of {rounds} hung)"),
        };
        let median = figures.get(figures.len() / 2);
        median.map_or("-".to_owned(), |median| format!("{median:.1}")) + &hung
    });
    println!("| {name} | {} |", medians.collect::<Vec<_>>().join(" | "));
    Ok(())
}

/// Returns how many megabytes of the ranks' output a launcher passes on in a second, without the prefixes.
fn output(launcher: &Launcher, own: &str) -> io::Result<f64> {
    let mut command = launcher.command(WRITERS, true, &[own, "--write"]);
    let since = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut piece = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        match stdout.read(&mut piece)? {
            0 => break,
            size => total += size,
        }
    }
    let status = child.wait()?;
    let seconds = since.elapsed().as_secs_f64();
    let expected = WRITERS * LINES * LINE;
    if !status.success() || total <= expected {
        return Err(io::Error::other(format!(
            "{}: {total} bytes of {expected} and the prefixes, {status}",
            launcher.name
        )));
    }
    #[expect(clippy::cast_precision_loss, reason = "a few hundred million")]
    Ok(expected as f64 / 1e6 / seconds)
}

/// Acts as a rank that writes lines.
fn write() -> io::Result<()> {
    let mut line = vec![b'x'; LINE - 1];
    line.push(b'\n');
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    for _ in 0..LINES {
        out.write_all(&line)?;
    }
    out.flush()
}
