//! Runs the conformance suite on one backend and prints the table.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::mpi::Mpi;
use crate::process::{cargo, with_portable_wait, workspace_root};

/// Run the conformance suite on one backend and print its table.
#[derive(Debug, clap::Args)]
pub(crate) struct Conformance {
    /// The backend: the NAME of a folder comm-NAME with a tests/conformance.rs, or `reference`
    #[arg(long, value_name = "NAME")]
    backend: String,
    /// Run worlds of N ranks instead of 1, 2, 3, 4 and 8; may be repeated
    #[arg(long, value_name = "N", value_parser = world)]
    world: Vec<usize>,
    /// Run the cases whose name contains PATTERN
    #[arg(long, value_name = "PATTERN")]
    case: Option<String>,
    /// Run N random programs per job
    #[arg(long, value_name = "N")]
    random: Option<usize>,
    /// Generate the random programs from SEED on
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// With `--backend mpi`: run with this MPI library instead of both; with `--backend factory`: also run with this one
    #[arg(long, value_name = "MPI", value_enum)]
    mpi: Option<Mpi>,
    /// With `--backend shm`: wait without futex, pidfd and /proc, as other systems do
    #[arg(long)]
    portable_wait: bool,
    /// Also run calls of more than 4 GiB, if there is enough memory
    #[arg(long)]
    big: bool,
}

fn world(argument: &str) -> Result<usize, String> {
    match argument.parse() {
        Ok(0) => Err("a world has at least one rank".to_owned()),
        Ok(ranks) => Ok(ranks),
        Err(reason) => Err(format!("{reason}")),
    }
}

/// Runs the suite, and returns its exit code: 0 if all cases passed, 1 if one failed, 2 for wrong arguments.
pub(crate) fn run(arguments: &Conformance) -> ExitCode {
    let backend = match find(&arguments.backend) {
        Ok(backend) => backend,
        Err(code) => return code,
    };
    for (given, flag, of) in [
        (arguments.mpi.is_some(), "--mpi", &["mpi", "factory"][..]),
        (arguments.portable_wait, "--portable-wait", &["shm"]),
    ] {
        if given && !of.contains(&&*backend.name) {
            let of = of.join(" or ");
            eprintln!(
                "error: '{flag}' goes with '--backend {of}'. For more information, try '--help'."
            );
            return ExitCode::from(2);
        }
    }
    let mut worst = 0;
    for Pass { what, cargo, test } in passes(&backend, arguments) {
        if !what.is_empty() {
            println!("==> {what}");
        }
        let code = match cargo {
            Ok(cargo) => start(cargo, test, &arguments.flags()),
            Err(advice) => {
                eprintln!("error: {advice}");
                1
            }
        };
        worst = worst.max(code);
    }
    ExitCode::from(worst)
}

/// Finds a backend by its name, or returns a message with all names.
pub(crate) fn find(name: &str) -> Result<Backend, ExitCode> {
    let known = backends(&workspace_root());
    let names: Vec<String> = known.iter().map(|known| known.name.clone()).collect();
    let found = known.into_iter().find(|known| known.name == name);
    found.ok_or_else(|| {
        eprintln!(
            "error: there is no backend '{name}'; there are: {}. For more information, try '--help'.",
            names.join(", ")
        );
        ExitCode::from(2)
    })
}

/// One pass of the suite.
pub(crate) struct Pass {
    /// Its difference from the other passes; empty if it is the only one.
    what: &'static str,
    /// The cargo that builds it, or what to install first.
    pub(crate) cargo: Result<Command, String>,
    pub(crate) test: &'static str,
}

/// Returns the one pass of most backends.
pub(crate) fn plain(backend: &Backend) -> Pass {
    Pass {
        what: "",
        cargo: Ok(cargo(&["test", "--package", &backend.package])),
        test: backend.test,
    }
}

/// Returns the pass without Linux-only features.
pub(crate) fn portable(backend: &Backend) -> Pass {
    let test = ["test", "--package", &backend.package];
    Pass {
        cargo: Ok(with_portable_wait(&test)),
        ..plain(backend)
    }
}

/// Lists the passes: one for most backends, one per library for MPI, one per feature for the factory.
fn passes(backend: &Backend, arguments: &Conformance) -> Vec<Pass> {
    let package = backend.package.as_str();
    let with_mpi = |mpi: Mpi, features: &[&str], test| Pass {
        what: mpi.name(),
        cargo: mpi.tool().obtain().map(|()| {
            let mut cargo = mpi.cargo("test", package);
            cargo.args(features);
            cargo
        }),
        test,
    };
    let with = |what, more: &[&str], test| Pass {
        what,
        cargo: Ok(cargo(&[&["test", "--package", package], more].concat())),
        test,
    };
    match backend.name.as_str() {
        "mpi" => {
            let libraries = arguments.mpi.map_or(Mpi::ALL.to_vec(), |mpi| vec![mpi]);
            let runs = libraries.into_iter();
            runs.map(|mpi| with_mpi(mpi, &[], backend.test)).collect()
        }
        "factory" => {
            let features = ["--features", "shm,tcp"];
            let mut runs = vec![
                with("shm", &features, "conformance_shm"),
                with("tcp", &features, "conformance_tcp"),
            ];
            if arguments.world.is_empty() || arguments.world.contains(&1) {
                runs.insert(0, with("local", &[], "conformance"));
            }
            let mpi = arguments.mpi.into_iter();
            runs.extend(mpi.map(|mpi| with_mpi(mpi, &["--features", "mpi"], "conformance_mpi")));
            runs
        }
        _ if arguments.portable_wait => vec![portable(backend)],
        _ => vec![plain(backend)],
    }
}

/// Runs the test of one backend with `flags` and returns its exit code.
pub(crate) fn start(mut cargo: Command, test: &str, flags: &[String]) -> u8 {
    let status = cargo
        .args(["--quiet", "--test", test, "--"])
        .args(flags)
        .status();
    match status.map(|status| status.code().map(u8::try_from)) {
        Ok(Some(Ok(code))) => code,
        Ok(_) => 1,
        Err(reason) => {
            eprintln!("error: cargo could not be started: {reason}");
            1
        }
    }
}

impl Conformance {
    /// Returns the arguments for the suite.
    fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--table".to_owned()];
        let mut add = |flag: &str, value: String| flags.extend([flag.to_owned(), value]);
        for world in &self.world {
            add("--world", world.to_string());
        }
        if let Some(case) = &self.case {
            add("--case", case.clone());
        }
        if let Some(random) = self.random {
            add("--random", random.to_string());
        }
        if let Some(seed) = self.seed {
            add("--seed", seed.to_string());
        }
        if self.big {
            flags.push("--big".to_owned());
        }
        flags
    }
}

/// A test that contains the suite for one backend.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) name: String,
    package: String,
    test: &'static str,
}

/// Finds the backends that run the suite, in alphabetical order.
fn backends(root: &Path) -> Vec<Backend> {
    let folders = fs::read_dir(root).into_iter().flatten().flatten();
    let mut backends: Vec<Backend> = folders
        .filter(|folder| folder.path().join("tests/conformance.rs").is_file())
        .filter_map(|folder| {
            let package = folder.file_name().into_string().ok()?;
            let name = package.strip_prefix("comm-")?.to_owned();
            Some(Backend {
                name,
                package,
                test: "conformance",
            })
        })
        .collect();
    backends.push(Backend {
        name: "reference".to_owned(),
        package: "comm-conformance-self-test".to_owned(),
        test: "reference",
    });
    backends.sort_by(|a, b| a.name.cmp(&b.name));
    backends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backends_of_the_workspace_are_found() {
        let found = backends(&workspace_root());
        let packages: Vec<_> = found.iter().map(|b| (&*b.name, &*b.package)).collect();
        assert!(packages.contains(&("local", "comm-local")), "{packages:?}");
        assert!(
            packages.contains(&("reference", "comm-conformance-self-test")),
            "{packages:?}"
        );
    }

    fn arguments(backend: &str, world: Vec<usize>) -> Conformance {
        Conformance {
            backend: backend.to_owned(),
            world,
            case: Some("fold".to_owned()),
            random: Some(10),
            seed: Some(7),
            mpi: None,
            portable_wait: false,
            big: true,
        }
    }

    #[test]
    fn the_factory_runs_as_each_backend_that_has_such_worlds() {
        let found = backends(&workspace_root());
        let factory = found.iter().find(|b| b.name == "factory").unwrap();
        let tests = |world| {
            let passes = passes(factory, &arguments("factory", world));
            passes.iter().map(|run| run.test).collect::<Vec<_>>()
        };
        let of_many = ["conformance_shm", "conformance_tcp"];
        assert_eq!(tests(vec![3]), of_many);
        assert_eq!(tests(vec![]), [&["conformance"][..], &of_many].concat());
    }

    #[test]
    fn flags_are_passed_on() {
        let arguments = arguments("shm", vec![2, 5]);
        let flags = arguments.flags().join(" ");
        let expected = "--table --world 2 --world 5 --case fold --random 10 --seed 7 --big";
        assert_eq!(flags, expected);
    }
}
