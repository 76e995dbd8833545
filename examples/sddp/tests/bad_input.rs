//! Every rank reports wrong input at once, with an exit code other than 0, and leaves no damage.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use comm_run::{Exit, Line, Signal};
use libtest_mimic::Trial;

use super::job::{RANK, Ran, Transport, policy, prepare, run, scratch};
use super::matrix::CASE;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("bad_input::out_of_range", || Ok(out_of_range()?)),
        Trial::test("bad_input::checkpoints", || Ok(checkpoints()?)),
        Trial::test("bad_input::no_folder", || Ok(no_folder()?)),
        Trial::test(
            "bad_input::killed_and_resumed",
            || Ok(killed_and_resumed()?),
        ),
        Trial::test("bad_input::failed_before_its_first_checkpoint", || {
            Ok(failed_before_its_first_checkpoint()?)
        }),
        Trial::test("bad_input::killed_and_restarted, shm x 3", || {
            Ok(killed_and_restarted(Transport::Shm(3))?)
        }),
        Trial::test("bad_input::killed_and_restarted, tcp x 2", || {
            Ok(killed_and_restarted(Transport::Tcp(2))?)
        }),
    ];
    for transport in transports() {
        let name = |what: &str| format!("bad_input::{what}, {}", transport.name());
        trials.push(Trial::test(name("infeasible"), move || {
            Ok(infeasible(transport)?)
        }));
        trials.push(Trial::test(name("solver_error"), move || {
            Ok(solver_error(transport)?)
        }));
    }
    trials
}

fn transports() -> Vec<Transport> {
    vec![
        Transport::Shm(4),
        Transport::Tcp(4),
        #[cfg(feature = "mpi")]
        Transport::Mpi(4),
    ]
}

/// Checks that every rank ended with this code and printed these words.
fn all_say(ran: &Ran, transport: Transport, code: i32, words: &str) -> Result<(), String> {
    let say = |rank: usize| {
        let start = format!("[{rank}] ");
        let mut lines = ran.lines.iter();
        lines.any(|line| line.starts_with(&start) && line.contains(words))
    };
    let ranks = ran.outcome.ranks.len();
    // Under mpiexec the lines of all ranks come from one process.
    let said = if ranks == transport.ranks() {
        (0..ranks).all(say)
    } else {
        ran.text().matches(words).count() >= transport.ranks()
    };
    let wanted = Some(Exit::Code(code));
    let ended = ran.outcome.ranks.iter().all(|rank| rank.exit == wanted);
    if said && ended && !ran.outcome.timed_out {
        return Ok(());
    }
    Err(format!(
        "{}: not all ranks ended with {code} and '{words}': {:?}\n{}",
        transport.name(),
        ran.outcome.ending,
        ran.text()
    ))
}

fn out_of_range() -> Result<(), String> {
    for (arguments, words) in [
        ("--stages 1", "1 is not in 2..=600"),
        ("--plants 0", "0 is not in 1..=200"),
        ("--threads 0", "0 is not in 1..=256"),
        ("--scenarios 0", "0 is not in 1..=100000"),
        ("--openings many", "invalid digit"),
        ("--tolerance 2", "2 is not in 0..=1"),
        ("--tolerance NaN", "NaN is not in 0..=1"),
        ("--deficit-limit -1", "-1 is not in 0..=100"),
        ("--resume", "--checkpoint <FILE>"),
        (
            "--stages 600 --plants 200 --openings 100000",
            "12000000000 inflows, more than",
        ),
    ] {
        let ran = run(prepare(Transport::Shm(2), RANK, arguments)?)?;
        all_say(&ran, Transport::Shm(2), 2, words)?;
    }
    Ok(())
}

fn infeasible(transport: Transport) -> Result<(), String> {
    let ran = run(prepare(transport, RANK, "--deficit-limit 0")?)?;
    let words = "there is no dispatch that serves 100.0000 % of the demand; raise --deficit-limit";
    all_say(&ran, transport, 1, words)
}

/// All ranks name the rank that fails, and the checkpoint of the iteration before is still usable.
fn solver_error(transport: Transport) -> Result<(), String> {
    let (folder, file) = scratch()?;
    let words = format!("{CASE} --inject-error 2 --checkpoint {}", file.display());
    let ran = run(prepare(transport, RANK, &words)?)?;
    let error = "error: rank 2: solver error injected by --inject-error in iteration 2";
    all_say(&ran, transport, 1, error)?;
    whole(folder.path())?;
    let (_other, straight) = scratch()?;
    let resumed = policy(transport, &format!("{CASE} --resume"), &file)?;
    if resumed == policy(Transport::Local, CASE, &straight)? {
        Ok(())
    } else {
        Err("the policy after the error differs from that of an undisturbed run".to_owned())
    }
}

/// Checks that a folder holds the checkpoint and no part of another.
fn whole(folder: &Path) -> Result<(), String> {
    let names = fs::read_dir(folder)
        .map_err(|why| why.to_string())?
        .flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    if names == ["policy"] {
        Ok(())
    } else {
        Err(format!("there is {names:?} instead of one checkpoint"))
    }
}

fn checkpoints() -> Result<(), String> {
    let (folder, file) = scratch()?;
    let good = policy(
        Transport::Local,
        &CASE.replace("--iterations 40", "--iterations 2"),
        &file,
    )?;
    let mut flipped = good.clone();
    flipped[100] ^= 1;
    let (missing, other) = (folder.path().join("missing"), format!("{CASE} --seed 2"));
    let cases: [(&str, Option<&[u8]>, &str); 7] = [
        (
            CASE,
            Some(b"hello, this is no checkpoint"),
            "it is not a checkpoint",
        ),
        (CASE, Some(b""), "it is empty"),
        (
            CASE,
            Some(&good[..good.len() - 3]),
            "it is damaged or cut off",
        ),
        (CASE, Some(&good[..64]), "it is damaged or cut off"),
        (CASE, Some(&flipped), "it is damaged or cut off"),
        (
            &other,
            Some(&good),
            "it belongs to another case; use the options",
        ),
        (CASE, None, "missing cannot be read: No such file"),
    ];
    for (case, bytes, words) in cases {
        let path = if bytes.is_some() { &file } else { &missing };
        if let Some(bytes) = bytes {
            fs::write(path, bytes).map_err(|why| why.to_string())?;
        }
        let arguments = format!("{case} --resume --checkpoint {}", path.display());
        let ran = run(prepare(Transport::Shm(3), RANK, &arguments)?)?;
        all_say(&ran, Transport::Shm(3), 1, words)?;
        if fs::read(path).ok().as_deref() != bytes {
            return Err(format!("{words}: the file was touched"));
        }
    }
    Ok(())
}

fn no_folder() -> Result<(), String> {
    let (folder, _) = scratch()?;
    let file = folder.path().join("nowhere").join("policy");
    let arguments = format!("{CASE} --checkpoint {}", file.display());
    let ran = run(prepare(Transport::Shm(2), RANK, &arguments)?)?;
    all_say(&ran, Transport::Shm(2), 1, "error: rank 0: the checkpoint ")?;
    all_say(
        &ran,
        Transport::Shm(2),
        1,
        "cannot be written: No such file or directory",
    )
}

/// A rank is killed while it works: the others name it, and the last checkpoint is complete.
fn killed_and_resumed() -> Result<(), String> {
    let (folder, file) = scratch()?;
    let case = CASE.replace(
        "--iterations 40 --tolerance 1e-3",
        "--iterations 60 --tolerance 0",
    );
    let arguments = format!("{case} --checkpoint {}", file.display());
    let (sender, lines) = mpsc::channel();
    let job = prepare(Transport::Shm(3), RANK, &arguments)?.sink(move |line: Line<'_>| {
        // The receiver is gone after the end.
        let _ = sender.send(String::from_utf8_lossy(line.bytes).into_owned());
        Ok(())
    });
    let running = job.start().map_err(|why| why.to_string())?;
    let mut said = String::new();
    let limit = Duration::from_secs(30);
    while !said.trim_start().starts_with("4 ") {
        said = lines
            .recv_timeout(limit)
            .map_err(|_| "no fourth iteration")?;
    }
    running
        .handle()
        .signal(1, Signal::Kill)
        .map_err(|why| why.to_string())?;
    let outcome = running.wait();
    let text = lines.iter().collect::<Vec<_>>().join("\n");
    let killed = outcome.ranks[1].exit == Some(Exit::Signal(9));
    let named = text.matches("rank 1").count() >= 2;
    let ended = [0, 2].map(|rank| outcome.ranks[rank].exit == Some(Exit::Code(1)));
    if !killed || !named || ended != [true; 2] {
        return Err(format!(
            "rank 1 is not the cause on all others:\n{text}\n{outcome:?}"
        ));
    }
    // An incomplete checkpoint may be beside it; it is never taken for a checkpoint.
    drop(fs::remove_file(folder.path().join("policy.new")));
    whole(folder.path())?;
    let (_other, straight) = scratch()?;
    let resumed = policy(Transport::Tcp(2), &format!("{case} --resume"), &file)?;
    if resumed == policy(Transport::Local, &case, &straight)? {
        Ok(())
    } else {
        Err("the policy after the kill differs from that of an undisturbed run".to_owned())
    }
}

/// A job that can be restarted removes the checkpoint of an earlier job when it first starts. If a rank fails before this job has written
/// its own, the restart must not continue from the policy of the other job.
fn failed_before_its_first_checkpoint() -> Result<(), String> {
    let (_folder, file) = scratch()?;
    policy(Transport::Local, CASE, &file)?;
    let case = CASE.replace("--iterations 40", "--iterations 0");
    let arguments = format!("{case} --checkpoint {}", file.display());
    let ran = run(prepare(Transport::Shm(2), RANK, &arguments)?.env("COBRE_RESTART", "0"))?;
    if ran.outcome.success() && !file.exists() {
        Ok(())
    } else {
        Err(format!(
            "it failed, or the checkpoint is still there:\n{}",
            ran.text()
        ))
    }
}

/// If a rank is killed in the middle of an iteration, the job is restarted, continues from its checkpoint, and ends with the bits of an
/// undisturbed job.
fn killed_and_restarted(transport: Transport) -> Result<(), String> {
    let (folder, file) = scratch()?;
    let case = CASE.replace(
        "--iterations 40 --tolerance 1e-3",
        "--iterations 120 --tolerance 0",
    );
    // A file of an earlier job must not be taken for a checkpoint of this one.
    fs::write(&file, "an old checkpoint").map_err(|why| why.to_string())?;
    let arguments = format!("{case} --checkpoint {}", file.display());
    let (sender, lines) = mpsc::channel();
    let job = prepare(transport, RANK, &arguments)?.sink(move |line: Line<'_>| {
        // The receiver is gone after the end.
        let _ = sender.send(String::from_utf8_lossy(line.bytes).into_owned());
        Ok(())
    });
    let started = Instant::now();
    let running = job.max_restarts(1).start().map_err(|why| why.to_string())?;
    let limit = Duration::from_secs(30);
    let next = || lines.recv_timeout(limit).map_err(|_| "no further line");
    // The job is restarted only after its first second; another iteration has begun by then.
    while !(started.elapsed() > Duration::from_millis(1200) && is_iteration(&next()?)) {}
    let kill = running.handle().signal(1, Signal::Kill);
    kill.map_err(|why| format!("it ended before it could be killed: {why}"))?;
    let outcome = running.wait();
    let text = lines.iter().collect::<Vec<_>>().join("\n");
    // Started from scratch, it would end with the same bits, too.
    let goes_on = text.contains("continuing after iteration");
    if outcome.restarts != 1 || !outcome.success() || !goes_on {
        return Err(format!("it did not continue:\n{text}\n{outcome:?}"));
    }
    drop(fs::remove_file(folder.path().join("policy.new")));
    whole(folder.path())?;
    let (_other, straight) = scratch()?;
    let restarted = fs::read(&file).map_err(|why| why.to_string())?;
    if restarted == policy(Transport::Local, &case, &straight)? {
        Ok(())
    } else {
        Err("the policy after the restart differs from that of an undisturbed run".to_owned())
    }
}

/// Returns whether a line reports an iteration: it begins with the number.
fn is_iteration(line: &str) -> bool {
    let first = line.split_whitespace().next();
    first.is_some_and(|word| word.parse::<u32>().is_ok())
}
