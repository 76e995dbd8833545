//! Lists the steps. To add a step, add a row.
//!
//! A crate that is needed with other features is compiled again, with everything that depends on it. The packages are therefore built in a
//! few groups: [`SHARED`] has most of them; the launcher, this program and the factory, once for each of its features, are built on top.

use std::process::Command;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Lane::{Beside, Front, Shared};
use super::{Lane, TestStep, Work};
use crate::book;
use crate::docs;
use crate::features;
use crate::mpi::Mpi;
use crate::new_backend::check;
use crate::process::{Terminal, cargo, command, with_portable_wait, workspace_root};
use crate::python;
use crate::report::Outcome;
use crate::tidy;
use crate::tools::{CARGO_DENY, GLOO, MDBOOK, PYTHON, SHELLCHECK, Tool};

/// Selects the backend whose tests wait most, and the exact sums: together, because the tests of the exact sums need more features of common
/// dependencies, which would otherwise be compiled twice.
const NETWORK: [&str; 4] = ["--package", "comm-tcp", "--package", "comm-exact"];
/// Leaves out worlds of eight threads, which wait like eight processes and like four threads; `cargo xtask conformance` runs all worlds.
const SUITES: [&str; 3] = ["--no-fail-fast", "--", "--skip=/8-threads"];
/// Selects the packages whose features do not depend on other packages. The others depend on an MPI library or on features of the factory, or
/// have dependencies with features that these do not need.
const SHARED: [&str; 21] = [
    "--workspace",
    "--exclude",
    "cobre-comm",
    "--exclude",
    "comm-factory",
    "--exclude",
    "comm-mpi",
    "--exclude",
    "comm-mpi-probe",
    "--exclude",
    "comm-python",
    "--exclude",
    "comm-run",
    "--exclude",
    "comm-shm-models",
    "--exclude",
    "fixture-twins",
    "--exclude",
    "sddp",
    "--exclude",
    "xtask",
];
/// Selects the models. Their checker needs more features of common dependencies.
const MODELS: [&str; 2] = ["--package", "comm-shm-models"];
/// Selects the factory without a backend, and the programs that are compared in that case.
const BARE: [&str; 4] = ["--package", "comm-factory", "--package", "fixture-twins"];
/// Selects the factory with the backends that need nothing installed.
const FACTORY: [&str; 4] = ["--package", "comm-factory", "--features", "shm,tcp"];
/// Selects the backend that waits without Linux-only features.
const PORTABLE: [&str; 4] = ["test", "--package", "comm-shm", "--tests"];
/// Leaves out worlds: one rank, as many ranks as processors of a small machine, and twice as many cover all ways of waiting, and threads
/// wait like processes; `cargo xtask conformance --backend shm --portable-wait` runs all worlds.
const PORTABLE_WORLDS: [&str; 4] = ["--", "--skip=/3", "--skip=/8", "--skip=-threads"];
/// Selects the interface of 0.18 on the backends that need nothing installed.
const FACADE: [&str; 4] = ["--package", "cobre-comm", "--features", "shared-memory"];
/// Selects the solver with the backends that need nothing installed.
const SOLVER: [&str; 4] = ["--package", "sddp", "--features", "shm,tcp"];

/// MPI keeps a processor busy per rank, so larger worlds take minutes on machines with few processors; `cargo xtask conformance --backend mpi`
/// runs them.
const MPI_WORLDS: [&str; 6] = ["--", "--table", "--world", "1", "--world", "2"];
/// The enum of the factory adds only one match to a backend that has passed its own suite, so small worlds are enough;
/// `cargo xtask conformance --backend factory` runs all of them.
const FACTORY_WORLDS: [&str; 6] = ["--", "--table", "--world", "1", "--world", "2"];
/// Two and three ranks cover all paths of bytes; the code above the links does not depend on encryption.
const SEALED_WORLDS: [&str; 6] = ["--", "--table", "--world", "2", "--world", "3"];
/// A few seconds of faults.
const CHAOS: [&str; 12] = [
    // Together, because alone the first would be compiled again with fewer features of its dependencies. The last one has no suite.
    "--package",
    "comm-shm",
    "--package",
    "comm-tcp",
    "--package",
    "comm-exact",
    "--test",
    "conformance",
    "--",
    "--chaos",
    "--rounds",
    "25",
];

/// Lists the steps that need no compiled code.
pub(super) fn before_build() -> Vec<TestStep> {
    let deny = [
        "deny",
        "--workspace",
        "check",
        "bans",
        "licenses",
        "sources",
    ];
    let shellcheck = command("shellcheck", &[".ci/run", "xtask/portable-wait"]);
    vec![
        step("format", Front, cargo(&["fmt", "--all", "--check"])),
        function("tidy", Front, "cargo xtask tidy", |_| {
            tidy::outcome(&workspace_root())
        }),
        function("commits", Front, "the subjects of commits", |_| {
            tidy::commits::outcome(&workspace_root())
        }),
        step("shellcheck", Front, shellcheck).with(&SHELLCHECK),
        step("deny", Front, cargo(&deny)).with(&CARGO_DENY),
    ]
}

/// Compiles the programs of most steps.
pub(super) fn build() -> TestStep {
    step("build", Front, test(&SHARED, &["--no-run"]))
}

/// Lists the steps that need a workspace that compiles.
pub(super) fn after_build() -> Vec<TestStep> {
    let run = ["--package", "comm-run"];
    let xtask = ["--package", "xtask"];
    let others = ["--exclude", "comm-tcp", "--exclude", "comm-exact"];
    let others = [&others, &SUITES[..]].concat();
    // Everything except the suites of its backends, which are separate steps.
    let some = [
        "conformance",
        "exact",
        "in_place",
        "pairs",
        "panics",
        "places",
        "select",
        "topology",
    ];
    let some = some.into_iter().flat_map(|name| ["--test", name]);
    let some: Vec<&str> = ["--no-fail-fast", "--lib"]
        .into_iter()
        .chain(some)
        .collect();
    let compiled = [&run[..], &xtask, &BARE, &FACTORY, &FACADE, &SOLVER, &MODELS];
    let compiled = compiled.map(|packages| test(packages, &["--no-run"]));
    let portable = |more: &[&str]| with_portable_wait(&[&PORTABLE, more].concat());
    let mut steps = vec![
        // Compiles the programs of the tests below while those above run.
        all("compile", Beside, compiled.into()),
        // It builds the package that the step `python` tests.
        function("python-lint", Beside, python::LINT, python::lint).with(&PYTHON),
        step("test", Shared, waiting(test(&SHARED, &others))),
        step("tcp", Shared, waiting(test(&NETWORK, &SUITES))),
        step("run", Front, waiting(test(&run, &["--no-fail-fast"]))),
        step("xtask", Shared, test(&xtask, &["--no-fail-fast"])),
        step("bare", Shared, test(&BARE, &["--no-fail-fast"])),
        step("factory", Shared, test(&FACTORY, &some)),
        step("factory-shm", Shared, factory_suite("conformance_shm")),
        step("factory-tcp", Shared, factory_suite("conformance_tcp")),
        step("facade", Shared, test(&FACADE, &["--no-fail-fast"])),
        function("python", Shared, python::WHAT, python::outcome).with(&PYTHON),
        step("portable", Shared, portable(&PORTABLE_WORLDS)),
        step("sealed-tcp", Shared, sealed_suite()),
        step("chaos", Shared, chaos()),
        step("sddp", Shared, test(&SOLVER, &[])),
        step("models", Shared, test(&MODELS, &[])),
        step("bench", Shared, benchmark(&["--no-peers"])),
        step("port-build", Beside, portable(&["--no-run"])),
    ];
    steps.extend(Mpi::ALL.into_iter().flat_map(mpi_steps));
    let gloo = benchmark(&["--backend", "tcp", "--peer", "gloo"]);
    // The code that depends on the features is the same with both libraries, and MPICH starts in a fraction of the time.
    let mpi = Mpi::Mpich;
    let mut mpi_clippy = mpi.cargo("clippy", "comm-mpi");
    mpi_clippy.args(["--all-targets", "--", "-D", "warnings"]);
    let through_factory = mpi_factory(mpi, "conformance_mpi", &MPI_WORLDS);
    steps.extend([
        step("gloo-bench", Front, gloo).with(&GLOO),
        step("factory-mpi", Front, through_factory).with(mpi.tool()),
        // Building the program outside the workspace takes longer than running it.
        step("heat-mpi", Shared, mpi_factory(mpi, "heat_mpi", &[])).with(mpi.tool()),
        step("facade-mpi", Front, mpi_facade(mpi)).with(mpi.tool()),
        function("clippy", Beside, "cargo clippy --all-targets", |terminal| {
            terminal.run(&mut clippy())
        }),
        step("clippy-mpi", Beside, mpi_clippy).with(mpi.tool()),
        function("docs", Beside, "cargo doc --no-deps", |terminal| {
            terminal.run(&mut docs::rustdoc(PYTHON.obtain().is_ok()))
        }),
        function("book", Beside, book::WHAT, book::outcome).with(&MDBOOK),
        all("sets", Beside, features::without_mpi()),
        all("sets-mpi", Beside, features::with_mpi(mpi)).with(mpi.tool()),
        function("scaffold", Beside, check::WHAT, check::outcome),
    ]);
    steps
}

/// Checks the default members, and the native half of the Python package if Python is installed.
fn clippy() -> Command {
    let mut clippy = cargo(&["clippy"]);
    clippy.args(docs::packages(PYTHON.obtain().is_ok()));
    clippy.args(["--all-targets", "--", "-D", "warnings"]);
    clippy
}

/// Lists the steps that need one MPI library.
fn mpi_steps(mpi: Mpi) -> Vec<TestStep> {
    let mpi_test = |arguments: &[&str]| {
        let mut test = mpi.cargo("test", "comm-mpi");
        test.args(arguments);
        test
    };
    let life = mpi_test(&["--lib", "--test", "life"]);
    let suite = mpi_test(&[&["--test", "conformance"], &MPI_WORLDS[..]].concat());
    let solver = |more: &[&str]| {
        let mut test = mpi.cargo("test", "sddp");
        test.args(["--features", "mpi,shm,tcp"]).args(more);
        test
    };
    let compiled = vec![
        mpi_test(&["--tests", "--no-run"]),
        mpi_factory(mpi, "everywhere", &["--no-run"]),
        solver(&["--no-run"]),
    ];
    let steps = vec![
        function(
            mpi.named(["mpich-build", "ompi-build"]),
            Beside,
            "compile the crates that depend on MPI",
            move |terminal| match mpi.prepare() {
                Ok(()) => terminal.run_all(compiled),
                Err(error) => Outcome::Failed(format!("{}: {error}", mpi.target())),
            },
        ),
        step(mpi.named(["mpich", "ompi"]), Front, life),
        step(mpi.named(["mpich-suite", "ompi-suite"]), Front, suite),
        step(
            mpi.named(["mpich-hello", "ompi-hello"]),
            Front,
            mpi_factory(mpi, "everywhere", &[]),
        ),
        step(
            mpi.named(["mpich-sddp", "ompi-sddp"]),
            Front,
            // MPICH keeps a processor busy per rank, so only the other library runs more ranks than processors.
            solver(&["--test", "sddp", "--", mpi.named(["mpi x 2", "mpi x"])]),
        ),
        step(
            mpi.named(["mpich-bench", "ompi-bench"]),
            Front,
            benchmark(&["--peer", mpi.name()]),
        ),
    ];
    let steps = steps.into_iter();
    steps.map(|step| step.with(mpi.tool())).collect()
}

/// Runs one test of the factory with all of its features.
fn mpi_factory(mpi: Mpi, name: &str, arguments: &[&str]) -> Command {
    let mut test = mpi.cargo("test", "comm-factory");
    test.args(["--features", "mpi,shm,tcp", "--test", name]);
    test.args(arguments);
    test
}

/// Runs the program for 0.18 with MPI, on the published crate and on ours.
fn mpi_facade(mpi: Mpi) -> Command {
    let mut test = mpi.cargo("test", "cobre-comm");
    test.args(["--features", "mpi,shared-memory", "--test", "published"]);
    test
}

/// Runs the suite through the factory.
fn factory_suite(name: &str) -> Command {
    test(&FACTORY, &[&["--test", name], &FACTORY_WORLDS[..]].concat())
}

/// Runs the suite over encrypted links; on loopback, links are encrypted only on request.
fn sealed_suite() -> Command {
    let mut suite = test(
        &NETWORK,
        &[&["--test", "conformance"], &SEALED_WORLDS[..]].concat(),
    );
    suite.env("COBRE_TCP_ENCRYPT", "1");
    suite
}

/// Injects other faults in every run; the summary and the headline show the command that repeats them. Within one run the seed stays the same,
/// so that a retry does not replace a failing seed.
fn chaos() -> Command {
    static SEED: OnceLock<String> = OnceLock::new();
    let seed = SEED.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |now| now.as_secs()).to_string()
    });
    test(&CHAOS, &["--seed", seed])
}

/// Runs the benchmark briefly, to check that the command works; the figures mean nothing.
fn benchmark(more: &[&str]) -> Command {
    let briefly = ["--rounds", "1", "--ranks", "2", "--seconds", "0.01"];
    let mut bench = cargo(&["run", "--quiet", "--package", "xtask", "--", "bench"]);
    bench.args(["--unoptimised", "--rows", "small"]);
    bench.args(briefly).args(more);
    bench
}

fn test(packages: &[&str], arguments: &[&str]) -> Command {
    cargo(&[&["test"], packages, arguments].concat())
}

/// Runs more tests at once than there are processors, because most of them wait.
fn waiting(mut test: Command) -> Command {
    test.env("RUST_TEST_THREADS", "6");
    test
}

fn step(name: &'static str, lane: Lane, command: Command) -> TestStep {
    all(name, lane, vec![command])
}

fn all(name: &'static str, lane: Lane, commands: Vec<Command>) -> TestStep {
    TestStep {
        name,
        tool: None,
        lane,
        work: Work::Run(commands),
    }
}

fn function(
    name: &'static str,
    lane: Lane,
    what: &'static str,
    function: impl FnOnce(&Terminal) -> Outcome + Send + 'static,
) -> TestStep {
    TestStep {
        name,
        tool: None,
        lane,
        work: Work::Call(what, Box::new(function)),
    }
}

impl TestStep {
    /// Sets the tools that must be installed.
    fn with(self, tool: &'static Tool) -> Self {
        let tool = Some(tool);
        Self { tool, ..self }
    }
}

#[cfg(test)]
mod tests;
