//! Which command lines are accepted, and which are rejected.

use std::time::Duration;

use clap::{CommandFactory, Parser};
use comm_run::Backend;

use super::arguments::{Arguments, address};
use super::{MOST_SHM_RANKS, Options, Request, request};

fn parse(line: &str) -> Option<Options> {
    let arguments = Arguments::try_parse_from(line.split(' ')).ok()?;
    match request(arguments).ok()? {
        Request::Run(options) => Some(options),
        _ => None,
    }
}

fn ask(line: &str) -> Option<Request> {
    request(Arguments::try_parse_from(line.split(' ')).ok()?).ok()
}

#[test]
fn mpi_is_handed_over_and_the_words_behind_the_program_are_its_own() {
    let Some(Request::Mpi(handover)) = ask("comm-run -n 3 --backend mpi -- x --timeout 3") else {
        panic!("not handed over");
    };
    assert_eq!((handover.ranks, handover.dry_run), (3, false));
    assert_eq!(handover.command, ["x", "--timeout", "3"]);
}

/// Tries every option of the definition, so that a new option must either work or be rejected and listed.
#[test]
fn the_readme_lists_what_is_refused_with_mpi() {
    const MACHINES: &str = "--nnodes 2 --node-rank 0 --coordinator h:1 --secret-file k";
    let mut refused = Vec::new();
    for option in Arguments::command().get_arguments() {
        let name = match option.get_long() {
            // The last three belong to --nnodes.
            None | Some("ranks" | "backend" | "node-rank" | "coordinator" | "secret-file") => {
                continue;
            }
            Some(name) => format!("--{name}"),
        };
        let value = match option.get_value_names().map(|names| names[0].as_str()) {
            Some("TO") => "core",
            Some("NAME=VALUE") => "A=b",
            Some(_) if option.get_action().takes_values() => "1",
            _ => "",
        };
        let words = if name == "--nnodes" {
            MACHINES.to_owned()
        } else {
            format!("{name} {value}").trim_end().to_owned()
        };
        let line = format!("comm-run -n 3 --backend mpi {words} -- x");
        let arguments = Arguments::try_parse_from(line.split(' '));
        let arguments = arguments.unwrap_or_else(|error| panic!("{line}: {error}"));
        if let Err(error) = request(arguments) {
            let message = error.to_string();
            assert!(message.contains(&format!("so {name} cannot")), "{message}");
            refused.push(name);
        }
    }
    let readme = include_str!("../../README.md");
    let (before, _) = readme.split_once(" are refused with it.").unwrap();
    let sentence = &before[before.rfind(". ").unwrap()..];
    let listed: Vec<_> = sentence.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, refused);
}

#[test]
fn checks_are_asked_for_by_a_variable() {
    let variables = |more: &str| match ask(&format!("comm-run -n 3 --backend mpi {more} -- x")) {
        Some(Request::Mpi(handover)) => handover.variables,
        other => panic!("not handed over: {other:?}"),
    };
    let check = |value: &str| ("COBRE_COMM_CHECK".into(), value.into());
    assert_eq!(variables(""), []);
    assert_eq!(variables("--check"), [check("1")]);
    // The last one counts.
    let both = variables("--check --env COBRE_COMM_CHECK=0");
    assert_eq!(both, [check("0"), check("1")]);
    // These backends always check.
    for backend in ["shm", "tcp"] {
        let line = format!("comm-run -n 3 --backend {backend} --check -- x");
        assert_eq!(parse(&line).expect("accepted").variables, []);
    }
}

#[test]
fn subcommands_stand_alone_and_programs_may_have_their_names() {
    assert_eq!(ask("comm-run explain"), Some(Request::Explain));
    let doctor = |clean| Some(Request::Doctor { clean });
    assert_eq!(ask("comm-run doctor"), doctor(false));
    assert_eq!(ask("comm-run doctor --clean"), doctor(true));
    assert_eq!(ask("comm-run doctor now"), None);
    assert_eq!(ask("comm-run doctor -n 2"), None);
    assert_eq!(
        ask("comm-run completions fish"),
        Some(Request::Completions(clap_complete::Shell::Fish))
    );
    assert_eq!(ask("comm-run completions"), None);
    assert_eq!(ask("comm-run completions sh"), None);
    for name in ["explain", "doctor", "completions"] {
        for line in [
            format!("comm-run -n 2 {name}"),
            format!("comm-run -n 2 -- {name}"),
        ] {
            assert_eq!(parse(&line).unwrap().program, name, "{line}");
        }
    }
}

/// The launcher depends on no backend, so the number appears in both crates.
#[test]
fn shared_memory_is_as_large_as_its_backend_says() {
    let config = include_str!("../../../comm-shm/src/config.rs");
    let most = format!("const MOST_RANKS: usize = {MOST_SHM_RANKS};");
    assert!(config.contains(&most), "{most}");
    let tcp = parse("comm-run -n 4096 --backend tcp -- x").unwrap();
    assert_eq!(tcp.ranks, 4096);
}

#[test]
fn ranks_are_bound_only_when_asked() {
    let bind = |option: &str| parse(&format!("comm-run -n 2 {option}-- x")).unwrap().bind;
    assert_eq!(
        ["", "--bind none ", "--bind core "].map(bind),
        [false, false, true]
    );
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn the_programs_own_options_are_left_to_it() {
    for line in [
        "comm-run -n 2 -- prog -n 3 --timeout 4",
        "comm-run -n 2 prog -n 3 --timeout 4",
    ] {
        let options = parse(line).unwrap();
        assert_eq!((options.ranks, options.timeout), (2, None), "{line}");
        assert_eq!(options.program, "prog");
        assert_eq!(options.args, ["-n", "3", "--timeout", "4"]);
    }
}

#[test]
fn times_may_be_fractions_and_zero_means_no_timeout() {
    let timeout =
        |text: &str| parse(&format!("comm-run -n 1 --timeout {text} -- x")).map(|o| o.timeout);
    assert_eq!(timeout("1.5"), Some(Some(Duration::from_millis(1500))));
    assert_eq!(timeout("0"), Some(None));
    // Rounds to 0, but does not disable the timeout.
    assert_eq!(timeout("1e-10"), Some(Some(Duration::from_nanos(1))));
    for wrong in ["-1", "x", "nan", "inf", ""] {
        assert_eq!(timeout(wrong), None, "{wrong}");
    }
}

#[test]
fn wrong_usage_is_refused() {
    for line in [
        "comm-run",
        "comm-run -n 2",
        "comm-run -n 2 --",
        "comm-run -n 0 -- x",
        "comm-run -n x -- x",
        "comm-run -n -1 -- x",
        "comm-run -- x",
        "comm-run --what -n 2 -- x",
        "comm-run -n 1000000 -- x",
        "comm-run -n 4097 -- x",
        "comm-run -n 1025 -- x",
        "comm-run -n 2000 --backend shm -- x",
        "comm-run -n 2 --bind socket -- x",
        "comm-run -n 99999999999999999999999 -- x",
        "comm-run -n 2 --backend smoke -- x",
        "comm-run -n 2 --nnodes 2 -- x",
        "comm-run -n 2 --node-rank 0 -- x",
        "comm-run -n 2 --secret-file k -- x",
        "comm-run -n 2 --nnodes 2 --node-rank 0 --coordinator h:1 -- x",
        "comm-run -n 2 --nnodes 2 --node-rank 2 --coordinator h:1 --secret-file k -- x",
        "comm-run -n 2 --nnodes 0 --node-rank 0 --coordinator h:1 --secret-file k -- x",
        "comm-run -n 2 --nnodes 2 --node-rank 0 --coordinator h --secret-file k -- x",
        "comm-run -n auto --nnodes 2 --node-rank 0 --coordinator h:1 --secret-file k -- x",
        "comm-run -n 4000 --nnodes 2 --node-rank 0 --coordinator h:1 --secret-file k -- x",
        "comm-run -n 2 --backend shm --nnodes 2 --node-rank 0 --coordinator h:1 --secret-file k -- x",
    ] {
        assert_eq!(parse(line), None, "{line}");
    }
    assert!(parse("comm-run -n auto -- x").is_some_and(|options| options.ranks > 0));
    // The most ranks of a job.
    let line = "comm-run -n 2048 --nnodes 2 --node-rank 0 --coordinator h:1 --secret-file k -- x";
    assert!(parse(line).is_some_and(|options| options.ranks == 2048));
}

#[test]
fn many_machines_are_tcp_and_number_their_ranks_in_turn() {
    let line = "comm-run -n 4 --nnodes 3 --node-rank 2 --coordinator h:1 --secret-file k -- x";
    let options = parse(line).unwrap();
    assert_eq!((options.backend, options.first_rank()), (Backend::Tcp, 8));
    let topology = options.topology();
    assert_eq!(topology.size, 12);
    assert_eq!(topology.hosts[0].ranks, [8, 9, 10, 11]);
    let node = options.node.unwrap();
    assert_eq!((node.coordinator.as_str(), node.port), ("h", 1));
    assert!(node.secret_file.is_absolute());
    assert_eq!(
        parse("comm-run -n 1024 -- x").unwrap().backend,
        Backend::Shm
    );
}

#[test]
fn addresses_have_a_host_and_a_port() {
    for (text, host) in [("h:1", "h"), ("10.0.0.1:1", "10.0.0.1"), ("[::1]:1", "::1")] {
        assert_eq!(address(text), Ok((host.to_owned(), 1)), "{text}");
    }
    for wrong in [
        "",
        "h",
        "h:",
        ":1",
        "h:0",
        "h:65536",
        "::1",
        "fd00::1:1",
        "[]:1",
        "a b:1",
    ] {
        assert!(address(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_script_is_started_with_the_interpreter_and_other_programs_without() {
    let started = |line: &str| {
        let options = parse(line).unwrap();
        let words = std::iter::once(options.program).chain(options.args);
        words.map(|word| word.into_string().unwrap()).collect()
    };
    let words: Vec<String> = started("comm-run --python python3 -n 2 a.py b.py");
    assert_eq!(words, ["python3", "a.py", "b.py"]);
    let words: Vec<String> = started("comm-run -n 2 --python python3 -- ./a b.py");
    assert_eq!(words, ["./a", "b.py"]);
    let words: Vec<String> = started("comm-run -n 2 -- a.py");
    assert_eq!(words, ["a.py"]);
}

#[test]
fn grace_and_restarts() {
    let options = parse("comm-run -n 2 -- x").unwrap();
    assert_eq!((options.grace, options.max_restarts), (None, 0));
    let options = parse("comm-run -n 2 --grace 0.5 --max-restarts 3 -- x").unwrap();
    let half = Duration::from_millis(500);
    assert_eq!((options.grace, options.max_restarts), (Some(half), 3));
    for wrong in ["--grace", "--grace -1", "--grace soon", "--max-restarts -1"] {
        assert_eq!(
            parse(&format!("comm-run -n 2 {wrong} -- x")),
            None,
            "{wrong}"
        );
    }
    // The other machines would not notice a restart.
    let node = "--nnodes 2 --node-rank 0 --coordinator h:1 --secret-file k";
    assert_eq!(
        parse(&format!("comm-run -n 2 --max-restarts 1 {node} -- x")),
        None
    );
    assert!(parse(&format!("comm-run -n 2 --grace 9 {node} -- x")).is_some());
}
