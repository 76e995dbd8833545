//! Builds the Python package, installs it into an empty environment, and tests it.
//!
//! Everything lies below `target`: the environment with the tools in `target/python/tools`, the package in `target/wheels`. Only the launcher lies among the sources for a while, where the packer finds it; git ignores it.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::{Terminal, apart, cargo, programs, workspace_root};
use crate::report::{Outcome, StepTable};
use crate::tools::PYTHON;

pub(crate) mod environment;

use environment::Environment;

/// Holds how to build the package and how long to test it.
#[derive(Debug, Clone, Copy, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each flag of the command"
)]
pub(crate) struct Python {
    /// Build without optimisation, which is faster
    #[arg(long, conflicts_with = "bench")]
    unoptimised: bool,
    /// Kill a random rank of a job this often, and look for what is left
    #[arg(long, value_name = "N", default_value_t = 20)]
    kills: u32,
    /// Only build the package
    #[arg(long, conflicts_with = "bench")]
    wheel: bool,
    /// Measure beside mpi4py on MPICH and Open MPI, and beside Rust, instead of testing
    #[arg(long)]
    bench: bool,
    /// Install jax, pandas and the kernel of notebooks first, so that their tests run, too
    #[arg(long, conflicts_with_all = ["bench", "wheel"])]
    others: bool,
    /// Let every contender of the benchmark run this often, in turns
    #[arg(long, value_name = "N", default_value_t = 9, requires = "bench")]
    rounds: u32,
}

/// What the steps of `cargo xtask test` do.
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

/// Runs the tests as one step of all.
pub(crate) fn outcome(terminal: &Terminal) -> Outcome {
    as_one(terminal, vec![build_once(), install(), tests(20, false)])
}

/// Runs the checks that start no rank as one step of all, on another lane: what both need is built by the one that comes first.
pub(crate) fn lint(terminal: &Terminal) -> Outcome {
    let mut stages = vec![build_once(), hello()];
    stages.extend(checks());
    as_one(terminal, stages)
}

/// Runs stages as one step, and names those that failed.
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

/// Runs stages in their order, up to one that the others need and that fails. Those come first, one process at a time: two steps share
/// what they build.
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

/// One thing to do; without a `needed` one those that follow make no sense.
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
    /// Runs it; returns its name and what went wrong, if something did.
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

/// Lists what makes the package.
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

/// Makes the package, unless this process has: two steps need it, and after what clippy compiles in between maturin would have most of it
/// compiled again.
fn build_once() -> Stage {
    static BUILT: AtomicBool = AtomicBool::new(false);
    stage("package", "build the package", true, |terminal| {
        // One process at a time comes here, see `each`.
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

/// Builds what the tests compare with.
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

/// Lists the checks of what is written in Python.
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
        // Not over the old one: somebody may run it.
        .and_then(|()| fs::copy(&program, folder.join("comm-run.new")))
        .and_then(|_| fs::rename(folder.join("comm-run.new"), folder.join("comm-run")));
    match copied {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{}: {error}", folder.display())),
    }
}

/// Builds the library and packs it with the launcher; older packages go.
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
        // Nobody keeps it.
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

/// Builds an example of the factory, then goes on.
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

/// The folder of the examples that the package is compared with.
const PROGRAMS: &str = "python";

/// Returns the folder of what cargo builds.
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

/// Returns the one package that was built.
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
        .ok_or_else(|| format!("{} holds no package", folder.display()))
}
