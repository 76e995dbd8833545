//! `comm-run explain`: which backend a program would choose here, and why.

use std::fmt::Write as _;

use comm_factory::{Name, Selection, Variables, environment, select};

/// The explanation, and whether a program with every backend would get a communicator.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Explanation {
    pub(crate) text: String,
    pub(crate) usable: bool,
}

/// Explains the choice of programs that start with the variables of this process.
pub(crate) fn here() -> Explanation {
    let mut explanation = match environment() {
        Ok(variables) => explain(&variables),
        Err(error) => Explanation {
            text: format!("any program: error: {error}\n"),
            usable: false,
        },
    };
    for unknown in comm_kit::variables::unknown_here() {
        let _ = writeln!(explanation.text, "warning: {unknown}");
    }
    explanation
}

/// Explains the choice of a program with every backend, then that of a program without the chosen backend,
/// and so on: `comm-run` does not know which backends a program was compiled with.
pub(crate) fn explain(variables: &Variables) -> Explanation {
    let mut compiled = Name::ALL.to_vec();
    let mut text = String::new();
    let mut usable = true;
    loop {
        let absent: Vec<_> = Name::ALL
            .iter()
            .filter(|name| !compiled.contains(name))
            .map(ToString::to_string)
            .collect();
        let condition = if absent.is_empty() {
            String::from("a program with every backend")
        } else {
            format!("a program without {}", absent.join(", "))
        };
        match select(variables, &compiled) {
            Ok(selection) => {
                let _ = writeln!(text, "{condition}: {}", selection.backend);
                let complete = reasons(&selection, variables, &mut text);
                usable &= complete || !absent.is_empty();
                if selection.backend == Name::Local {
                    break;
                }
                compiled.retain(|&name| name != selection.backend);
            }
            Err(error) => {
                let _ = writeln!(text, "{condition}: error: {error}");
                usable &= !absent.is_empty();
                break;
            }
        }
    }
    Explanation { text, usable }
}

/// Writes why this backend was chosen and which values it uses; returns whether it has all that it needs.
fn reasons(selection: &Selection, variables: &Variables, text: &mut String) -> bool {
    match &selection.decided_by {
        Some(name) => {
            let value = variables.get(name).map_or("", |value| value.trim());
            let _ = writeln!(text, "  decided by {name}={value}");
        }
        None => {
            let _ = writeln!(text, "  no variable selects another backend");
        }
    }
    for filled in &selection.filled {
        let _ = writeln!(
            text,
            "  {}={} is taken from {}",
            filled.variable, filled.value, filled.from
        );
    }
    let missing = &selection.missing;
    if !missing.is_empty() {
        let _ = writeln!(text, "  still missing: {}", missing.join(", "));
    }
    missing.is_empty()
}

#[cfg(test)]
mod tests {
    use super::explain;

    fn of(pairs: &[(&str, &str)]) -> (Vec<String>, bool) {
        let pairs = pairs.iter();
        let variables = pairs.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let explanation = explain(&variables.collect());
        let lines = explanation.text.lines().map(str::to_owned).collect();
        (lines, explanation.usable)
    }

    #[test]
    fn alone_is_local() {
        let expected = [
            "a program with every backend: local",
            "  no variable selects another backend",
        ];
        assert_eq!(of(&[]), (expected.map(str::to_owned).to_vec(), true));
    }

    #[test]
    fn every_step_down_is_explained() {
        let (lines, usable) = of(&[
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "4"),
            ("COBRE_TCP_COORDINATOR", "h"),
        ]);
        assert!(usable);
        let expected = [
            "a program with every backend: mpi",
            "  decided by PMI_RANK=1",
            "a program without mpi: tcp",
            "  decided by COBRE_TCP_COORDINATOR=h",
            "  COBRE_TCP_RANK=1 is taken from PMI_RANK",
            "  COBRE_TCP_SIZE=4 is taken from PMI_SIZE",
        ];
        assert_eq!(lines[..6], expected);
        // Without this error, four programs would each run as a job of one rank.
        assert!(
            lines[6].starts_with("a program without mpi, tcp: error: "),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn what_is_missing_is_listed_and_counts() {
        let (lines, usable) = of(&[("COBRE_SHM_NAME", "x"), ("COBRE_SHM_RANK", " ")]);
        assert!(!usable);
        assert_eq!(lines[2], "  still missing: COBRE_SHM_RANK, COBRE_SHM_SIZE");
    }

    #[test]
    fn a_contradiction_is_an_error() {
        let (lines, usable) = of(&[
            ("COBRE_COMM_BACKEND", "tcp"),
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
            ("PMI_RANK", "0"),
        ]);
        assert!(!usable && lines.len() == 1, "{lines:?}");
        assert!(lines[0].contains("disagree"), "{lines:?}");
    }
}
