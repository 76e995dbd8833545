//! Runs the conformance suite on one backend and prints the table.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::mpi::Mpi;
use crate::process::{cargo, with_cfg, workspace_root};

/// Says what to run, on which backend.
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
    /// Draw the random programs from SEED on
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// With `--backend mpi`: run with one MPI library instead of both; with `--backend factory`: run with it, too
    #[arg(long, value_name = "MPI", value_enum)]
    mpi: Option<Mpi>,
    /// With `--backend shm`: wait without futex, pidfd and /proc, as other systems do
    #[arg(long)]
    portable_wait: bool,
    /// Also run calls of more than 4 GiB, where there is memory for them
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

/// Runs the suite; the exit code is its own: 0 all passed, 1 something failed, 2 wrong arguments.
pub(crate) fn run(arguments: &Conformance) -> ExitCode {
    let known = backends(&workspace_root());
    let Some(backend) = known.iter().find(|known| known.name == arguments.backend) else {
        let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
        eprintln!(
            "error: there is no backend '{}'; there are: {}. For more information, try '--help'.",
            arguments.backend,
            names.join(", ")
        );
        return ExitCode::from(2);
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
    for Run { what, cargo, test } in runs(backend, arguments) {
        if !what.is_empty() {
            println!("==> {what}");
        }
        let code = match cargo {
            Ok(cargo) => suite(cargo, test, arguments),
            Err(advice) => {
                eprintln!("error: {advice}");
                1
            }
        };
        worst = worst.max(code);
    }
    ExitCode::from(worst)
}

/// Describes one pass of the suite.
struct Run {
    /// What sets it apart from the others; empty if there are none.
    what: &'static str,
    /// The cargo that builds it, or what to install first.
    cargo: Result<Command, String>,
    test: &'static str,
}

/// Lists the passes: one for most backends, one per library for MPI, one per feature for the factory.
fn runs(backend: &Backend, arguments: &Conformance) -> Vec<Run> {
    let package = backend.package.as_str();
    let with_mpi = |mpi: Mpi, features: &[&str], test| Run {
        what: mpi.name(),
        cargo: mpi.tool().obtain().map(|()| {
            let mut cargo = mpi.cargo("test", package);
            cargo.args(features);
            cargo
        }),
        test,
    };
    let plain = |what, more: &[&str], test| Run {
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
                plain("shm", &features, "conformance_shm"),
                plain("tcp", &features, "conformance_tcp"),
            ];
            if arguments.world.is_empty() || arguments.world.contains(&1) {
                runs.insert(0, plain("local", &[], "conformance"));
            }
            let mpi = arguments.mpi.into_iter();
            runs.extend(mpi.map(|mpi| with_mpi(mpi, &["--features", "mpi"], "conformance_mpi")));
            runs
        }
        _ if arguments.portable_wait => vec![Run {
            what: "",
            cargo: Ok(with_cfg(
                "comm_portable_wait",
                &["test", "--package", package],
            )),
            test: backend.test,
        }],
        _ => vec![plain("", &[], backend.test)],
    }
}

/// Runs the suite of one backend and gives its exit code.
fn suite(mut cargo: Command, test: &str, arguments: &Conformance) -> u8 {
    let status = cargo
        .args(["--quiet", "--test", test, "--"])
        .args(arguments.flags())
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
    /// Gives the arguments of the suite itself.
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

/// Names a test that holds the suite for one backend.
#[derive(Debug, PartialEq, Eq)]
struct Backend {
    name: String,
    package: String,
    test: &'static str,
}

/// Finds the backends that have joined the suite, in alphabetical order.
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
        package: "comm-conformance".to_owned(),
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
            packages.contains(&("reference", "comm-conformance")),
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
            let runs = runs(factory, &arguments("factory", world));
            runs.iter().map(|run| run.test).collect::<Vec<_>>()
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
