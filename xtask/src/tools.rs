//! The programs that the checks need in addition to Rust, and how to get them.
//!
//! As root with apt (containers, CI), installs missing Debian packages. Everywhere else it does not change the
//! system: the step does not run, and its reason tells what to install.

use std::sync::OnceLock;

use crate::process::{command, run, succeeds};
use crate::report::Outcome;

/// An external program.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// The command that succeeds if the tool is installed.
    probe: &'static [&'static str],
    source: Source,
    purpose: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    /// Packages of Debian and its descendants, separated by blanks.
    Debian(&'static str),
    /// A crate to build; that takes minutes, so it is installed only on request.
    Cargo(&'static str),
}

pub(crate) const SHELLCHECK: Tool = Tool {
    name: "shellcheck",
    probe: &["shellcheck", "--version"],
    source: Source::Debian("shellcheck"),
    purpose: "finds mistakes in shell scripts",
};

pub(crate) const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    probe: &["cargo-deny", "--version"],
    source: Source::Cargo("cargo-deny"),
    purpose: "checks the dependencies against deny.toml",
};

pub(crate) const CARGO_MUTANTS: Tool = Tool {
    name: "cargo-mutants",
    probe: &["cargo", "mutants", "--version"],
    source: Source::Cargo("cargo-mutants"),
    purpose: "changes the code to check that the tests notice",
};

pub(crate) const CARGO_SEMVER_CHECKS: Tool = Tool {
    name: "cargo-semver-checks",
    probe: &["cargo", "semver-checks", "--version"],
    source: Source::Cargo("cargo-semver-checks"),
    purpose: "compares an interface with that of the last release",
};

pub(crate) const MDBOOK: Tool = Tool {
    name: "mdbook",
    probe: &["mdbook", "--version"],
    source: Source::Cargo("mdbook"),
    purpose: "makes a book of the documents",
};

pub(crate) const MPICH: Tool = Tool {
    name: "MPICH",
    probe: &["sh", "-c", "mpicc.mpich -show && mpiexec.mpich --version"],
    source: Source::Debian("mpich libmpich-dev"),
    purpose: "an MPI library for comm-mpi",
};

pub(crate) const OPEN_MPI: Tool = Tool {
    name: "Open MPI",
    probe: &[
        "sh",
        "-c",
        "mpicc.openmpi --showme && mpiexec.openmpi --version",
    ],
    source: Source::Debian("openmpi-bin libopenmpi-dev"),
    purpose: "an MPI library for comm-mpi",
};

pub(crate) const GLOO: Tool = Tool {
    name: "Gloo",
    probe: &[
        "sh",
        "-c",
        "printf '#include <gloo/barrier.h>\\nint main() {}' | c++ -std=c++17 -x c++ - -lgloo -o /dev/null",
    ],
    source: Source::Debian("libgloo-dev g++"),
    purpose: "a library for collectives over sockets, to compare with",
};

pub(crate) const PYTHON: Tool = Tool {
    name: "Python",
    probe: &[
        "python3",
        "-c",
        "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))",
    ],
    source: Source::Debian("python3 python3-venv"),
    purpose: "from version 3.11 on, for the package cobre_comm",
};

pub(crate) const CMAKE: Tool = Tool {
    name: "CMake",
    probe: &["sh", "-c", "cmake --version && c++ --version"],
    source: Source::Debian("cmake g++"),
    purpose: "compiles the linear programming of the solver cobre",
};

/// The result of refreshing the package lists, which happens only once.
static APT_UPDATE: OnceLock<Outcome> = OnceLock::new();

/// The time limit of one call of apt-get, so that a dead mirror cannot block the checks.
const APT_SECONDS: &str = "300";

impl Tool {
    /// Finds the tool or installs it.
    ///
    /// # Errors
    ///
    /// Returns one line for the user, with what is missing and how to get it.
    pub(crate) fn obtain(&self) -> Result<(), String> {
        match self.plan(self.is_present(), may_install()) {
            Plan::Use => Ok(()),
            Plan::Install(package) => self.install(package),
            Plan::Tell(advice) => Err(advice),
        }
    }

    /// Returns what to install if the tool is missing; installs nothing.
    pub(crate) fn missing(&self) -> Option<String> {
        (!self.is_present()).then(|| self.advice())
    }

    /// Finds the tool, or builds it from its crate on request.
    ///
    /// # Errors
    ///
    /// Returns one line with what is missing, or why cargo could not build it.
    pub(crate) fn obtain_by_cargo(&self) -> Result<(), String> {
        let Source::Cargo(package) = self.source else {
            return self.obtain();
        };
        if self.is_present() {
            return Ok(());
        }
        println!("{} is missing, cargo builds the crate {package}", self.name);
        match run(&mut command("cargo", &["install", "--locked", package])) {
            Outcome::Passed if self.is_present() => Ok(()),
            Outcome::Passed => Err(format!(
                "{package} was installed, but {} does not run; is ~/.cargo/bin in PATH?",
                self.probe.join(" ")
            )),
            Outcome::Failed(why) | Outcome::NotRun(why) => {
                Err(format!("{} (cargo gave up: {why})", self.advice()))
            }
        }
    }

    fn is_present(&self) -> bool {
        self.probe
            .split_first()
            .is_some_and(|(program, arguments)| succeeds(program, arguments))
    }

    fn plan(&self, present: bool, may_install: bool) -> Plan {
        match self.source {
            _ if present => Plan::Use,
            Source::Debian(package) if may_install => Plan::Install(package),
            Source::Debian(_) | Source::Cargo(_) => Plan::Tell(self.advice()),
        }
    }

    fn advice(&self) -> String {
        let Self { name, purpose, .. } = self;
        match self.source {
            Source::Debian(package) => {
                format!("{name} ({purpose}) is missing: apt-get install {package}")
            }
            Source::Cargo(package) => {
                format!("{name} ({purpose}) is missing: cargo install --locked {package}")
            }
        }
    }

    fn install(&self, package: &str) -> Result<(), String> {
        println!("{} is missing, installing the package {package}", self.name);
        let update = APT_UPDATE.get_or_init(|| apt(&["update"]));
        let outcome = match update {
            Outcome::Passed => {
                let mut arguments = vec!["install", "-y", "--no-install-recommends"];
                arguments.extend(package.split(' '));
                apt(&arguments)
            }
            failed => failed.clone(),
        };
        match outcome {
            Outcome::Passed if self.is_present() => Ok(()),
            Outcome::Passed => Err(format!(
                "{package} was installed, but {} does not run",
                self.probe.join(" ")
            )),
            Outcome::Failed(why) | Outcome::NotRun(why) => {
                Err(format!("{} (apt-get gave up: {why})", self.advice()))
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Use,
    Install(&'static str),
    Tell(String),
}

/// Runs apt-get without questions; `timeout` first lets it end cleanly, then kills it.
fn apt(arguments: &[&str]) -> Outcome {
    let bounded = [
        "--kill-after=10",
        APT_SECONDS,
        "apt-get",
        "-qq",
        "-o",
        "DPkg::Lock::Timeout=60",
        "-o",
        "Dpkg::Use-Pty=0",
    ];
    run(command("timeout", &bounded)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Returns whether this program may install packages: as root, on a system with apt.
fn may_install() -> bool {
    let root = command("id", &["-u"])
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    root && succeeds("apt-get", &["--version"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_present_tool_is_used() {
        assert_eq!(SHELLCHECK.plan(true, false), Plan::Use);
        assert_eq!(CARGO_DENY.plan(true, true), Plan::Use);
    }

    #[test]
    fn root_with_apt_installs() {
        assert_eq!(SHELLCHECK.plan(false, true), Plan::Install("shellcheck"));
    }

    #[test]
    fn others_are_told_what_to_install() {
        let Plan::Tell(advice) = SHELLCHECK.plan(false, false) else {
            panic!("the system would be touched")
        };
        assert_eq!(
            advice,
            "shellcheck (finds mistakes in shell scripts) is missing: apt-get install shellcheck"
        );
    }

    #[test]
    fn crates_are_never_installed_for_the_user() {
        let Plan::Tell(advice) = CARGO_DENY.plan(false, true) else {
            panic!("the system would be touched")
        };
        assert!(
            advice.ends_with("cargo install --locked cargo-deny"),
            "{advice}"
        );
    }

    #[test]
    fn a_probe_that_cannot_run_means_missing() {
        let tool = Tool {
            probe: &["no-such-program"],
            ..SHELLCHECK
        };
        assert!(!tool.is_present());
        assert!(
            !Tool {
                probe: &[],
                ..SHELLCHECK
            }
            .is_present()
        );
    }
}
