//! The driver: starts a job for each case and checks how it ended.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::{checked, mpiexec};

/// Selects the case of a rank.
pub(crate) const CASE: &str = "COMM_MPI_CASE";

/// The file in which the ranks of a job write their process ids, one per line.
pub(crate) const PIDS: &str = "COMM_MPI_PIDS";

/// The beginning of the line in which a rank prints when it left, in milliseconds of the system's clock.
pub(crate) const LEFT_AT: &str = "left at ";

/// What a rank prints that is killed while the segment of its region has a name.
pub(crate) const NAMED: &str = "the segment has a name";

/// What a rank prints that returns an error from `main`.
pub(crate) const REASON: &str = "no feasible solution";

/// How long a job may continue after a rank has left. The backend promises 2 s; this machine may be busy.
const PROMPT: Duration = Duration::from_secs(5);

/// The maximum duration of a job, whatever happens in it.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A waiting rank uses a whole core.
    arguments.test_threads.get_or_insert(1);
    let good = [
        "several_communicators_live_side_by_side",
        "different_configurations_are_refused",
        "another_thread_may_use_and_drop_it",
        "another_thread_may_initialise",
        "native_sums_are_sums",
        "a_region_outlives_mpi",
        "a_forked_child_is_refused",
        "a_region_against_a_barrier_is_a_mismatch",
        "a_refusal_ends_the_split_of_the_others",
        "a_forked_child_leaves_the_comparison_alone",
        "adversarial_floats_have_the_bits_of_the_fold",
        "splits_that_come_and_go_leave_room_for_more",
        "an_exit_with_0_ends_in_peace",
        "an_mpi_that_others_started_or_ended_is_an_error",
    ];
    let bad = [
        ("a_panic_ends_the_job", "panicked on purpose"),
        ("a_killed_rank_ends_the_job", ""),
        ("an_exit_ends_the_job", ""),
        ("a_return_from_main_ends_the_job", ""),
        ("an_exit_with_0_and_the_communicator_alive_ends_the_job", ""),
        ("an_exit_with_0_after_an_error_ends_the_job", ""),
        (
            "an_exit_with_0_of_a_thread_that_cannot_finalize_ends_the_job",
            "",
        ),
        ("a_communicator_dropped_after_an_error_ends_the_job", ""),
    ];
    let coded = [
        ("an_error_from_main_ends_the_job_with_its_code", REASON),
        ("an_exit_after_the_drop_ends_the_job_with_its_code", ""),
        ("an_exit_of_another_thread_ends_the_job_with_its_code", ""),
        ("an_exit_beside_a_call_ends_the_job_with_its_code", ""),
        (
            "an_error_of_a_thread_that_initialised_ends_the_job_with_its_code",
            "",
        ),
    ];
    let mut trials: Vec<Trial> = Vec::new();
    for case in good {
        trials.push(Trial::test(case, move || ends_well(case)));
    }
    for (case, words) in bad {
        trials.push(Trial::test(case, move || ends_badly(case, words)));
    }
    for (case, words) in coded {
        trials.push(Trial::test(case, move || ends_with_the_code(case, words)));
    }
    for case in checked::WELL {
        trials.push(Trial::test(case, move || ends_well(case)));
    }
    for (case, missing, said) in checked::ABSENT {
        trials.push(Trial::test(case, move || absent(case, missing.len(), said)));
    }
    for (case, code) in [
        ("an_abort_ends_a_larger_job_with_its_code", 7),
        ("a_panic_ends_a_larger_job_with_its_code", 101),
    ] {
        trials.push(Trial::test(case, move || larger_ends_with(case, code)));
    }
    trials.push(Trial::test(
        "sums_of_three_ranks_have_the_bits_of_the_fold",
        || well(&Job::of(3, "adversarial_floats_have_the_bits_of_the_fold")?.end()),
    ));
    let case = "a_failed_exchange_names_the_rank_of_the_world";
    trials.push(Trial::test(case, move || failed_exchange(case)));
    for (name, case) in [
        (
            "a_refusal_on_one_of_two_nodes_is_heard_on_both",
            "a_refusal_ends_the_split_of_the_others",
        ),
        (
            "a_mismatch_on_one_of_two_nodes_is_an_error_on_both",
            "a_region_of_one_rank_is_a_mismatch_for_all",
        ),
    ] {
        trials.push(Trial::test(name, move || well(&on_two_nodes(case)?)));
    }
    trials.push(Trial::test(
        "what_a_job_killed_while_it_made_a_region_left_is_removed_by_the_next",
        stale_segments,
    ));
    trials.push(Trial::test("another_mpis_launcher_is_found_out", strangers));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// All ranks end with 0, and nothing is left behind.
fn ends_well(case: &str) -> Result<(), Failed> {
    well(&Job::launch(case)?)
}

/// Like a single node, on two nodes with two ranks each: MPICH can be configured to see them, Open MPI sees
/// one node.
fn on_two_nodes(case: &str) -> Result<End, Failed> {
    let mut command = mpiexec::launcher(4)?.command();
    command.env("MPIR_CVAR_ODD_EVEN_CLIQUES", "1");
    Ok(Job::start(case, command)?.end())
}

/// Rank 3 is the second rank of its node, and the error has its world rank.
fn failed_exchange(case: &str) -> Result<(), Failed> {
    let end = on_two_nodes(case)?;
    end.expect(end.code == Some(9), "the job did not end with 9")?;
    let ranks = if is_open_mpi()? { 4 } else { 2 };
    let said = format!("Error on a node of {ranks} ranks: exchange: peer lost, rank 3:");
    badly(&end, &said)
}

fn well(end: &End) -> Result<(), Failed> {
    end.expect(end.code == Some(0), "the job did not end with 0")?;
    end.expect(end.left.is_empty(), "something stayed behind")
}

/// The job ends in bounded time, not with 0, and nothing is left behind: no rank keeps spinning.
fn ends_badly(case: &str, words: &str) -> Result<(), Failed> {
    badly(&Job::launch(case)?, words)
}

fn badly(end: &End, words: &str) -> Result<(), Failed> {
    end.expect(end.code != Some(0), "the job ended with 0")?;
    end.expect(end.code.is_some(), "the job did not end by itself")?;
    end.expect(end.output.contains(words), "nobody said why")?;
    end.expect(end.lag.is_none_or(|lag| lag < PROMPT), "it took long")?;
    end.expect(end.left.is_empty(), "something stayed behind")
}

/// All ranks of a job are killed while its leader waits for the others at the first region. No rank is left
/// to remove the name of its segment; the next job does.
fn stale_segments() -> Result<(), Failed> {
    let end = Job::launch("all_are_killed_at_the_first_region")?;
    end.expect(end.code.is_some_and(|code| code != 0), "nobody was killed")?;
    // Checked by the job itself: another job on this machine may have removed it by now.
    end.expect(end.output.contains(NAMED), "the region had no name yet")?;
    well(&Job::launch("a_region_outlives_mpi")?)?;
    let end = End {
        left: segments(&end.pids),
        ..end
    };
    end.expect(end.left.is_empty(), "the next job left it")
}

/// Like [`ends_badly`], with the code of the rank that left.
fn ends_with_the_code(case: &str, words: &str) -> Result<(), Failed> {
    let end = Job::launch(case)?;
    end.expect(end.code == Some(9), "the job did not end with 9")?;
    badly(&end, words)
}

/// Like [`ends_with_the_code`], with more ranks. If `MPI_Abort` ended only some of them, the code of the
/// launcher would depend on a race, so each world is started several times.
fn larger_ends_with(case: &str, code: i32) -> Result<(), Failed> {
    for ranks in [3, 3, 3, 4, 4, 4] {
        let end = Job::of(ranks, case)?.end();
        let what = format!("{ranks} ranks did not end with {code}");
        end.expect(end.code == Some(code), &what)?;
        badly(&end, "")?;
    }
    Ok(())
}

/// Some ranks never enter a call of two others, which report that and their own calls, and end the job.
fn absent(case: &str, missing: usize, said: [&str; 2]) -> Result<(), Failed> {
    let end = Job::of(2 + missing, case)?.end();
    end.expect(end.code == Some(9), "the job did not end with 9")?;
    said.iter().try_for_each(|words| badly(&end, words))
}

/// Starts a rank with its own folder for temporary files. Under another MPI's launcher, each rank is a job of
/// one to Open MPI, and jobs that share a folder interfere, see [`Job::start`].
const APART: &str = r#"TMPDIR="$TMPDIR/$$" exec "$0""#;

fn is_open_mpi() -> Result<bool, Failed> {
    Ok(ferrompi::Mpi::library_version()?.starts_with("Open MPI"))
}

/// Starts the ranks with the launcher of the other MPI, where that is installed.
fn strangers() -> Result<(), Failed> {
    let (stranger, flags): (_, &[&str]) = if is_open_mpi()? {
        ("mpiexec.mpich", &["-n", "2"])
    } else {
        (
            "mpiexec.openmpi",
            &["--allow-run-as-root", "--oversubscribe", "-n", "2"],
        )
    };
    let mut command = Command::new(stranger);
    command.args(flags).args(["sh", "-c", APART]);
    let end = match Job::start("a_stranger_starts_it", command) {
        Ok(job) => job.end(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("NOT RUN: {stranger} is not installed");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    // MPICH 5 ends such a job by itself, before the ranks can check anything.
    let by_mpi = end.output.contains("unsupported PMI version");
    end.expect(end.code == Some(0) || by_mpi, "the ranks did not find out")
}

struct Job {
    child: std::process::Child,
    mark: String,
    folder: PathBuf,
}

/// How a job ended.
struct End {
    /// The exit code of the launcher; `None` if it had to be killed.
    code: Option<i32>,
    output: String,
    left: Vec<String>,
    /// The processes of the ranks.
    pids: Vec<String>,
    /// How long the job continued after a rank printed that it leaves.
    lag: Option<Duration>,
}

impl Job {
    fn launch(case: &str) -> Result<End, Failed> {
        Ok(Self::of(2, case)?.end())
    }

    fn of(ranks: usize, case: &str) -> Result<Self, Failed> {
        Ok(Self::start(case, mpiexec::launcher(ranks)?.command())?)
    }

    /// Starts a job, with its own folder for temporary files.
    ///
    /// Open MPI keeps the files of all jobs of a user below one folder. A job creates that folder, then its
    /// own inside, and fails if another job that ends at that moment finds the outer folder empty and removes
    /// it.
    fn start(case: &str, mut command: Command) -> std::io::Result<Self> {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let own = std::process::id();
        let mark = format!("comm-mpi-life-{own}-{case}");
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("comm-mpi-life-{own}-{number}"));
        fs::create_dir(&folder)?;
        let pids = folder.join("pids");
        fs::write(&pids, "")?;
        let child = command
            .arg(std::env::current_exe()?)
            .env(CASE, case)
            .env("COMM_MPI_MARK", &mark)
            .env(PIDS, &pids)
            .env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        if child.is_err() {
            let _ = fs::remove_dir_all(&folder);
        }
        let child = child?;
        Ok(Self {
            child,
            mark,
            folder,
        })
    }

    fn end(mut self) -> End {
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let reader = |stream: Option<Box<dyn Read + Send>>| {
            thread::spawn(move || {
                let mut text = Vec::new();
                // The missing output of a killed job does not matter.
                let _ = stream.map(|mut stream| stream.read_to_end(&mut text));
                String::from_utf8_lossy(&text).into_owned()
            })
        };
        let out = reader(out.map(|out| Box::new(out) as _));
        let err = reader(err.map(|err| Box::new(err) as _));
        let start = Instant::now();
        let mut code = None;
        while start.elapsed() < LIMIT && code.is_none() {
            code = self
                .child
                .try_wait()
                .ok()
                .flatten()
                .and_then(|status| status.code());
            thread::sleep(Duration::from_millis(10));
        }
        let ended = SystemTime::now();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let pids = fs::read_to_string(self.folder.join("pids")).unwrap_or_default();
        let pids: Vec<String> = pids.lines().map(str::to_owned).collect();
        // A launcher may exit a moment before the processes it started.
        let mut left = processes(&self.mark);
        while !left.is_empty() && start.elapsed() < LIMIT {
            thread::sleep(Duration::from_millis(50));
            left = processes(&self.mark);
        }
        left.extend(segments(&pids));
        let _ = fs::remove_dir_all(&self.folder);
        let join = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
        let output = join(out) + &join(err);
        let lag = output.split_once(LEFT_AT).and_then(|(_, after)| {
            let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
            let since = Duration::from_millis(digits.parse().ok()?);
            ended.duration_since(SystemTime::UNIX_EPOCH + since).ok()
        });
        End {
            code,
            output,
            left,
            pids,
            lag,
        }
    }
}

fn list(folder: &str) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn shown(entry: &fs::DirEntry) -> String {
    entry.path().display().to_string()
}

/// Finds the processes of a job, by a mark that children inherit.
fn processes(mark: &str) -> Vec<String> {
    let is_marked = |entry: &fs::DirEntry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mut parts = environment.windows(mark.len());
        parts.any(|part| part == mark.as_bytes())
    };
    let found = list("/proc").filter(is_marked);
    found.map(|entry| shown(&entry)).collect()
}

/// Finds the segments that processes of this job created, ignoring those of others.
pub(crate) fn segments(pids: &[String]) -> Vec<String> {
    let is_ours = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let mut names = pids.iter().map(|pid| format!("cobre-mpi-{pid}-"));
        names.any(|start| name.starts_with(&start))
    };
    let found = list("/dev/shm").filter(is_ours);
    found.map(|entry| shown(&entry)).collect()
}

impl End {
    fn expect(&self, fine: bool, what: &str) -> Result<(), Failed> {
        let Self {
            code,
            output,
            left,
            lag,
            pids: _,
        } = self;
        if fine {
            return Ok(());
        }
        Err(Failed::from(format!(
            "{what}; code {code:?} after {lag:?}, left {left:?}, output:\n{output}"
        )))
    }
}
