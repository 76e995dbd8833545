//! Builds the Python package, installs it into an empty environment, and tests it.
//!
//! Everything is below `target`: the environment with the tools in `target/python/tools`, the package in `target/wheels`. Only the
//! launcher is among the sources for a while, where the packer finds it; git ignores it there.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::{Terminal, apart, cargo, programs, workspace_root};
use crate::report::{Outcome, StepTable};
use crate::tools::PYTHON;

pub(crate) mod environment;

use environment::Environment;

/// Build the Python package and test it.
#[derive(Debug, Clone, Copy, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each flag of the command"
)]
pub(crate) struct Python {
    /// Build without optimisation, which is faster
    #[arg(long, conflicts_with = "bench")]
    unoptimised: bool,
    /// Kill a random rank of a job this often, and check that nothing is left behind
    #[arg(long, value_name = "N", default_value_t = 20)]
    kills: u32,
    /// Only build the package
    #[arg(long, conflicts_with = "bench")]
    wheel: bool,
    /// Compare the speed with mpi4py on MPICH and Open MPI, and with Rust, instead of testing
    #[arg(long)]
    bench: bool,
    /// First install jax, pandas and the kernel of notebooks, so that their tests run, too
    #[arg(long, conflicts_with_all = ["bench", "wheel"])]
    others: bool,
    /// Run every contender of the benchmark this often, in turns
    #[arg(long, value_name = "N", default_value_t = 9, requires = "bench")]
    rounds: u32,
}

/// The descriptions of the steps of `cargo xtask test`.
pub(crate) const WHAT: &str = "cargo xtask python --unoptimised";
pub(crate) const LINT: &str = "mypy and ruff on comm-python";

/// Runs the stages, prints a summary, and returns whether nothing failed.
pub(crate) fn run(arguments: &Python) -> bool {
    let mut report = StepTable::default();
    if let Err(advice) = PYTHON.obtain() {
        report.step("python", WHAT, |_| Outcome::Failed(advice));
        return false;
    }
    each(stages(*arguments), |stage| {
        report.step(stage.name, stage.what, |terminal| (stage.work)(terminal))
    });
    println!("{report}");
    report.succeeded(true)
}

/// Runs the tests, as a step of `cargo xtask test`.
pub(crate) fn outcome(terminal: &Terminal) -> Outcome {
    as_one(terminal, vec![build_once(), install(), tests(20, false)])
}

/// Runs the checks that start no rank, as a step of `cargo xtask test` on another lane. The step that starts first builds the common parts.
pub(crate) fn lint(terminal: &Terminal) -> Outcome {
    let mut stages = vec![build_once(), hello()];
    stages.extend(checks());
    as_one(terminal, stages)
}

/// Runs stages as one step, and names the failed ones.
fn as_one(terminal: &Terminal, stages: Vec<Stage>) -> Outcome {
    let mut failed = Vec::new();
    each(stages, |stage| {
        let reason = stage.failure(terminal);
        let passed = reason.is_none();
        failed.extend(reason);
        passed
    });
    match failed[..] {
        [] => Outcome::Passed,
        _ => Outcome::Failed(failed.join("; ")),
    }
}

/// Runs stages in order, and stops when one fails that the others need. The needed stages come first and run in one process at a time,
/// because two steps share their results.
fn each(stages: Vec<Stage>, mut run: impl FnMut(&Stage) -> bool) {
    let mut alone = environment::alone();
    for stage in stages {
        if !stage.needed {
            alone = None;
        }
        if !run(&stage) && stage.needed {
            break;
        }
    }
    drop(alone);
}

/// One stage; if a `needed` stage fails, those after it are skipped.
struct Stage {
    name: &'static str,
    what: &'static str,
    needed: bool,
    work: Box<dyn Fn(&Terminal) -> Outcome>,
}

fn stage(
    name: &'static str,
    what: &'static str,
    needed: bool,
    work: impl Fn(&Terminal) -> Outcome + 'static,
) -> Stage {
    let work = Box::new(work);
    Stage {
        name,
        what,
        needed,
        work,
    }
}

impl Stage {
    /// Runs the stage; if it fails, returns its name and the reason.
    fn failure(&self, terminal: &Terminal) -> Option<String> {
        match (self.work)(terminal) {
            Outcome::Passed => None,
            Outcome::Failed(reason) | Outcome::NotRun(reason) => {
                Some(format!("{}: {reason}", self.name))
            }
        }
    }
}

fn stages(arguments: Python) -> Vec<Stage> {
    let mut stages = build(!arguments.unoptimised);
    if arguments.wheel {
        return stages;
    }
    stages.push(install());
    if arguments.bench {
        let rounds = arguments.rounds.to_string();
        stages.push(stage("bench", "measure in turns", false, move |terminal| {
            bench(terminal, &rounds)
        }));
        return stages;
    }
    if arguments.others {
        let others = "requirements-others.txt";
        stages.push(stage(
            "others",
            "install other libraries",
            true,
            |terminal| Environment::tools().prepare(terminal, others),
        ));
    }
    stages.push(tests(arguments.kills, arguments.others));
    stages.extend(checks());
    stages
}

/// Lists the stages that build the package.
fn build(release: bool) -> Vec<Stage> {
    vec![
        stage("tools", "install the tools", true, |terminal| {
            Environment::tools().prepare(terminal, "requirements.txt")
        }),
        stage("launcher", "build comm-run", true, move |terminal| {
            launcher(terminal, release)
        }),
        stage("wheel", "pack with maturin", true, move |terminal| {
            pack(terminal, release)
        }),
    ]
}

/// Builds the package, unless this process has already built it: two steps need it, and if clippy compiles in between, maturin would compile
/// most of it again.
fn build_once() -> Stage {
    static BUILT: AtomicBool = AtomicBool::new(false);
    stage("package", "build the package", true, |terminal| {
        // Only one process at a time runs this, see `each`.
        if BUILT.load(Ordering::Acquire) {
            return Outcome::Passed;
        }
        let mut stages = build(false).into_iter();
        if let Some(failure) = stages.find_map(|stage| stage.failure(terminal)) {
            return Outcome::Failed(failure);
        }
        BUILT.store(true, Ordering::Release);
        Outcome::Passed
    })
}

fn install() -> Stage {
    stage("install", "install the package", true, |terminal| {
        Environment::tools().install_wheel(terminal, &["--no-deps"])
    })
}

/// Builds the Rust program that the tests compare with.
fn hello() -> Stage {
    stage("hello", "build the twin in Rust", true, |terminal| {
        build_example(terminal, "hello", false, &|_| Outcome::Passed)
    })
}

fn tests(kills: u32, others: bool) -> Stage {
    let kills = format!("--kills={kills}");
    let others: &[&str] = if others {
        &["--other=jax", "--other=pandas", "--other=ipykernel"]
    } else {
        &[]
    };
    stage("pytest", "run the tests", false, move |terminal| {
        build_example(terminal, "hello", false, &|terminal| {
            let mut tests = Environment::tools().python(&["-m", "pytest", &kills]);
            terminal.run(tests.args(others).env("COBRE_COMM_TARGET", target()))
        })
    })
}

/// Lists the checks of the Python code.
fn checks() -> Vec<Stage> {
    vec![
        stage("mypy", "check the types", false, |terminal| {
            terminal.run(&mut Environment::tools().python(&["-m", "mypy"]))
        }),
        stage("ruff", "check the style", false, |terminal| {
            let ruff = |arguments: &[&str]| Environment::tools().program("ruff", arguments);
            terminal.run_all(vec![ruff(&["check"]), ruff(&["format", "--check"])])
        }),
    ]
}

fn profile(release: bool) -> &'static str {
    if release { "release" } else { "debug" }
}

/// Builds the launcher and puts it where the packer finds it.
fn launcher(terminal: &Terminal, release: bool) -> Outcome {
    let mut build = cargo(&["build", "--package", "comm-run", "--bin", "comm-run"]);
    if release {
        build.arg("--release");
    }
    let outcome = terminal.run(&mut build);
    if outcome != Outcome::Passed {
        return outcome;
    }
    let program = target().join(profile(release)).join("comm-run");
    let folder = workspace_root().join("comm-python/python/cobre_comm/_bin");
    let copied = fs::create_dir_all(&folder)
        // Does not overwrite the old file, because it may be running.
        .and_then(|()| fs::copy(&program, folder.join("comm-run.new")))
        .and_then(|_| fs::rename(folder.join("comm-run.new"), folder.join("comm-run")));
    match copied {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{}: {error}", folder.display())),
    }
}

/// Builds the library and packs it with the launcher; removes older packages.
fn pack(terminal: &Terminal, release: bool) -> Outcome {
    let folder = wheels();
    if let Err(error) = fs::remove_dir_all(&folder)
        && folder.exists()
    {
        return Outcome::Failed(format!("{}: {error}", folder.display()));
    }
    let tools = Environment::tools();
    let mut maturin = tools.program("maturin", &["build", "--out"]);
    maturin
        .arg(&folder)
        .arg("--interpreter")
        .arg(tools.interpreter());
    maturin.args(if release {
        &["--release", "--strip"][..]
    } else {
        // This package is only for the test.
        &["--profile", "dev", "--compression-level", "1"]
    });
    match terminal.run(&mut maturin) {
        Outcome::Passed => wheel().map_or_else(Outcome::Failed, |_| Outcome::Passed),
        failed => failed,
    }
}

/// Measures in turns with mpi4py and Rust.
fn bench(terminal: &Terminal, rounds: &str) -> Outcome {
    let peers = Environment::tools().prepare(terminal, "requirements-bench.txt");
    if peers != Outcome::Passed {
        return peers;
    }
    build_example(terminal, "timings", true, &|terminal| {
        let mut script = Environment::tools().python(&["bench/compare.py", "--rounds", rounds]);
        let timings = programs(&target(), PROGRAMS).join("release/examples/timings");
        terminal.run(script.env("COMM_TIMINGS", timings))
    })
}

/// Builds an example of the factory, then continues with `then`.
fn build_example(
    terminal: &Terminal,
    name: &str,
    release: bool,
    then: &dyn Fn(&Terminal) -> Outcome,
) -> Outcome {
    let mut build = cargo(&[
        "build",
        "--package",
        "comm-factory",
        "--features",
        "shm,tcp",
    ]);
    build.args(["--example", name]);
    apart(&mut build, &target(), PROGRAMS);
    if release {
        build.arg("--release");
    }
    match terminal.run(&mut build) {
        Outcome::Passed => then(terminal),
        failed => failed,
    }
}

/// The folder of the Rust examples that the package is compared with.
const PROGRAMS: &str = "python";

/// Returns the target folder of cargo.
fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR");
    chosen.map_or_else(
        || workspace_root().join("target"),
        |chosen| workspace_root().join(chosen),
    )
}

fn wheels() -> PathBuf {
    target().join("wheels")
}

/// Returns the path of the package that was built.
fn wheel() -> Result<PathBuf, String> {
    let folder = wheels();
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let mut found = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_wheel);
    found
        .next()
        .ok_or_else(|| format!("{} contains no package", folder.display()))
}
