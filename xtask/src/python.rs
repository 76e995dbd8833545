//! Builds the Python package, installs it into an empty environment, and tests it.
//!
//! Everything lies below `target`: the environment with the tools in `target/python/tools`, the empty one in `target/python/empty`, the
//! package in `target/wheels`. Only the launcher lies among the sources for a while, where the packer finds it; git ignores it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::process::{Terminal, cargo, workspace_root};
use crate::report::{Outcome, Report};
use crate::tools::PYTHON;

mod environment;

use environment::Environment;

/// Holds how to build the package and how long to test it.
#[derive(Debug, Clone, Copy, clap::Args)]
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
    /// Let every contender of the benchmark run this often, in turns
    #[arg(long, value_name = "N", default_value_t = 9, requires = "bench")]
    rounds: u32,
}

/// What the step of `cargo xtask test` does.
pub(crate) const WHAT: &str = "cargo xtask python --unoptimised";

/// Runs the stages, prints a summary, and returns whether nothing failed.
pub(crate) fn run(arguments: &Python) -> bool {
    let mut report = Report::default();
    if let Err(advice) = PYTHON.obtain() {
        report.step("python", WHAT, || Outcome::Failed(advice));
        return false;
    }
    let terminal = Terminal::default();
    for stage in stages(*arguments) {
        let passed = report.step(stage.name, stage.what, || (stage.work)(&terminal));
        if !passed && stage.needed {
            break;
        }
    }
    println!("{report}");
    report.succeeded(true)
}

/// Runs the stages as one step, and names those that failed.
pub(crate) fn outcome(terminal: &Terminal) -> Outcome {
    let arguments = Python {
        unoptimised: true,
        kills: 20,
        wheel: false,
        bench: false,
        rounds: 0,
    };
    let mut failed = Vec::new();
    for stage in stages(arguments) {
        match (stage.work)(terminal) {
            Outcome::Passed => {}
            Outcome::Failed(reason) | Outcome::NotRun(reason) => {
                failed.push(format!("{}: {reason}", stage.name));
                if stage.needed {
                    break;
                }
            }
        }
    }
    match failed[..] {
        [] => Outcome::Passed,
        _ => Outcome::Failed(failed.join("; ")),
    }
}

/// Prepares the checks of the native half, which is no default member of the workspace.
pub(crate) fn lint() -> Vec<Command> {
    let clippy = ["clippy", "--package", "comm-python", "--", "-D", "warnings"];
    let mut doc = cargo(&["doc", "--no-deps", "--package", "comm-python"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    vec![cargo(&clippy), doc]
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

fn stages(arguments: Python) -> Vec<Stage> {
    let release = !arguments.unoptimised;
    let mut stages = vec![
        stage("tools", "install the tools", true, |terminal| {
            Environment::tools().prepare(terminal, "requirements.txt")
        }),
        stage("launcher", "build comm-run", true, move |terminal| {
            launcher(terminal, release)
        }),
        stage("wheel", "pack with maturin", true, move |terminal| {
            pack(terminal, release)
        }),
    ];
    if arguments.wheel {
        return stages;
    }
    stages.push(stage("install", "install the package", true, |terminal| {
        Environment::tools().install_wheel(terminal, &["--no-deps"])
    }));
    if arguments.bench {
        let rounds = arguments.rounds.to_string();
        stages.push(stage("bench", "measure in turns", true, move |terminal| {
            bench(terminal, &rounds)
        }));
        return stages;
    }
    let kills = format!("--kills={}", arguments.kills);
    stages.extend([
        stage("empty", "run in an empty environment", false, empty),
        stage("pytest", "run the tests", false, move |terminal| {
            build_example(terminal, "hello", false, &|terminal| {
                let mut tests = Environment::tools().python(&["-m", "pytest", &kills]);
                terminal.run(tests.env("COBRE_COMM_TARGET", target()))
            })
        }),
        stage("mypy", "check the types", false, |terminal| {
            terminal.run(&mut Environment::tools().python(&["-m", "mypy"]))
        }),
        stage("ruff", "check the style", false, |terminal| {
            let ruff = |arguments: &[&str]| Environment::tools().program("ruff", arguments);
            terminal.run_all(vec![ruff(&["check"]), ruff(&["format", "--check"])])
        }),
    ]);
    stages
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
        &["--profile", "dev"]
    });
    match terminal.run(&mut maturin) {
        Outcome::Passed => wheel().map_or_else(Outcome::Failed, |_| Outcome::Passed),
        failed => failed,
    }
}

/// Installs the package alone into a new environment and runs the examples there, without Rust in the path.
fn empty(terminal: &Terminal) -> Outcome {
    let empty = Environment::empty();
    match empty.create(terminal) {
        Outcome::Passed => {}
        failed => return failed,
    }
    match empty.install_wheel(terminal, &[]) {
        Outcome::Passed => {}
        failed => return failed,
    }
    let path = format!("{}:/usr/bin:/bin", empty.folder().join("bin").display());
    let alone = |mut command: Command| {
        command.env("PATH", &path);
        command
    };
    let started = ["-m", "cobre_comm.run", "-n", "4", "examples/hello.py"];
    terminal.run_all(vec![
        alone(empty.python(&started)),
        alone(empty.program(
            "comm-run",
            &["-n", "2", "--backend", "tcp", "examples/hello.py"],
        )),
        alone(empty.python(&["examples/kmeans.py"])),
        alone(empty.python(&["examples/two_jobs.py"])),
    ])
}

/// Measures in turns with mpi4py and Rust.
fn bench(terminal: &Terminal, rounds: &str) -> Outcome {
    let peers = Environment::tools().prepare(terminal, "requirements-bench.txt");
    if peers != Outcome::Passed {
        return peers;
    }
    build_example(terminal, "timings", true, &|terminal| {
        let mut script = Environment::tools().python(&["bench/compare.py", "--rounds", rounds]);
        terminal.run(script.env("COMM_TIMINGS", target().join("release/examples/timings")))
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
    if release {
        build.arg("--release");
    }
    match terminal.run(&mut build) {
        Outcome::Passed => then(terminal),
        failed => failed,
    }
}

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
