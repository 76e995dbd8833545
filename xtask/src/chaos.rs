//! Runs random programs under faults on one backend.

use std::process::ExitCode;

use crate::conformance::{Pass, find, plain, portable, start};

/// Run random programs under faults on one backend.
///
/// Each round starts real processes that run a random program, and injects faults: SIGKILL to one, some or all ranks, SIGSTOP,
/// floods of signals, strangers at the ports, ranks that exit, panic, abort, leave or are late, dump core or have no file
/// descriptor left, a job that is suspended as a whole, logs that block, slow links. The survivors must get an error in time,
/// and all must blame the same rank, which really died; no rank may get wrong data; the same job must be able to start again at once;
/// nothing may be left behind. A round that fails prints what happened and the command that repeats it.
#[derive(Debug, clap::Args)]
pub(crate) struct Chaos {
    /// The backend: the NAME of a folder comm-NAME with a tests/conformance.rs; it must report deaths
    #[arg(long, value_name = "NAME")]
    backend: String,
    /// Run worlds of N ranks, in turn, instead of 2, 3, 4 and 8, and sometimes 32 or 64; may be repeated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    world: Vec<u32>,
    /// Generate the rounds from SEED on
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Run N rounds [default: 50, unless --minutes is given]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Run until M minutes have passed; may be a fraction
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// Inject only one kind of fault: kill-one, kill-several, kill-in-turn, kill-at-end, kill-all, leave, leave-and-kill, stop,
    /// stop-and-kill, flood, flood-and-kill, knock, knock-and-kill, suspend, suspend-and-kill, no-descriptors,
    /// no-descriptors-and-kill, dump-core, block-log-and-kill, slow-link, storm-at-start, late-start, stop-at-start,
    /// kill-at-start, kill-all-at-start
    #[arg(long, value_name = "KIND")]
    fault: Option<String>,
    /// Continue after a round that failed
    #[arg(long)]
    keep_going: bool,
    /// With `--backend shm`: wait without futex, pidfd and /proc, as other systems do
    #[arg(long)]
    portable_wait: bool,
}

/// Runs the rounds; the exit code is 0 if all passed, 1 if one failed, 2 for wrong arguments.
pub(crate) fn run(arguments: &Chaos) -> ExitCode {
    let backend = match find(&arguments.backend) {
        Ok(backend) => backend,
        Err(code) => return code,
    };
    if arguments.portable_wait && backend.name != "shm" {
        eprintln!(
            "error: '--portable-wait' goes with '--backend shm'. For more information, try '--help'."
        );
        return ExitCode::from(2);
    }
    let Pass { cargo, test, .. } = if arguments.portable_wait {
        portable(&backend)
    } else {
        plain(&backend)
    };
    match cargo {
        Ok(cargo) => ExitCode::from(start(cargo, test, &arguments.flags())),
        Err(advice) => {
            eprintln!("error: {advice}");
            ExitCode::FAILURE
        }
    }
}

impl Chaos {
    /// Returns the arguments of the test binary.
    fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--chaos".to_owned()];
        let mut add = |flag: &str, value: String| flags.extend([flag.to_owned(), value]);
        for world in &self.world {
            add("--world", world.to_string());
        }
        add("--seed", self.seed.to_string());
        if let Some(rounds) = self.rounds {
            add("--rounds", rounds.to_string());
        }
        if let Some(minutes) = self.minutes {
            add("--minutes", minutes.to_string());
        }
        if let Some(fault) = &self.fault {
            add("--fault", fault.clone());
        }
        if self.keep_going {
            flags.push("--keep-going".to_owned());
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the table of the documentation with the faults themselves.
    #[test]
    fn the_help_lists_every_fault_of_the_documentation() {
        use clap::Args;
        let document = include_str!("../../conformance/README.md");
        let rows = document.lines().skip_while(|line| *line != "| fault | |");
        let rows: Vec<&str> = rows.skip(2).take_while(|line| !line.is_empty()).collect();
        let names = rows
            .iter()
            .flat_map(|row| row.split('`').skip(1).step_by(2));
        let mut help = Chaos::augment_args(clap::Command::new("chaos"));
        let help = help.render_long_help().to_string();
        let listed = |name: &str| help.split([' ', ',', '\n']).any(|word| word == name);
        assert!(names.clone().count() > 20);
        assert!(names.clone().all(listed), "{help}");
    }

    #[test]
    fn flags_are_passed_on() {
        let arguments = Chaos {
            backend: "shm".to_owned(),
            world: vec![2, 8],
            seed: 7,
            rounds: Some(3),
            minutes: Some(0.5),
            fault: Some("stop".to_owned()),
            keep_going: true,
            portable_wait: false,
        };
        let expected = "--chaos --world 2 --world 8 --seed 7 --rounds 3 --minutes 0.5 --fault stop --keep-going";
        assert_eq!(arguments.flags().join(" "), expected);
    }
}
