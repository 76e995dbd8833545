//! Advice on options that `comm-run` does not have, mostly those of other launchers.

use std::ffi::OsString;

use clap::{Arg, Command};

/// Options of mpiexec, srun and torchrun, and their equivalents here.
const ELSEWHERE: [(&[&str], &str); 7] = [
    (
        &[
            "-np",
            "--np",
            "-c",
            "--nproc-per-node",
            "--nproc_per_node",
            "--ntasks",
        ],
        "the number of ranks is -n N",
    ),
    (
        &["-x", "-e", "-env", "-genv", "--genv", "--export"],
        "variables are set with --env NAME=VALUE",
    ),
    (
        &[
            "-f",
            "-H",
            "-host",
            "-hosts",
            "--host",
            "--hosts",
            "--hostfile",
            "-hostfile",
            "--machinefile",
            "-machinefile",
            "--nodelist",
            "--nodes",
        ],
        "start one comm-run per machine: --nnodes M --node-rank K --coordinator HOST:PORT --secret-file FILE",
    ),
    (
        &["--bind-to", "-bind-to", "--map-by", "--cpu-bind"],
        "ranks are bound with --bind core",
    ),
    (
        &[
            "-l",
            "--label",
            "--tag-output",
            "-prepend-rank",
            "--prepend-rank",
        ],
        "leave it out: every line already starts with its rank",
    ),
    (
        &["--oversubscribe", "--use-hwthread-cpus"],
        "leave it out: a job may have more ranks than cores",
    ),
    (
        &[
            "--output-filename",
            "--output",
            "-outfile-pattern",
            "--log_dir",
            "--redirects",
        ],
        "the output of each rank goes to files with --log-dir DIR",
    ),
];

/// Finds the first option before the program that `command` does not have, and returns what to do instead.
///
/// The parser would treat that option as the program, and everything after it as the program's arguments.
pub(super) fn unknown_option(command: &Command, words: &[OsString]) -> Option<String> {
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        // Options are plain text; a word that is not UTF-8 is a program or a value.
        let word = word.to_str().filter(|word| word.starts_with('-'))?;
        if matches!(word, "-" | "--") {
            return None;
        }
        let name = word.split('=').next().unwrap_or(word);
        let known = known(command, name).filter(|_| advice(name).is_none());
        let Some(option) = known else {
            return Some(sentence(command, name));
        };
        let takes_value = option.get_action().takes_values();
        let value_inside = name != word || (!word.starts_with("--") && word.len() > 2);
        if takes_value && !value_inside {
            words.next();
        }
    }
    None
}

fn known<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let mut options = command.get_arguments();
    match name.strip_prefix("--") {
        Some(long) => options.find(|option| option.get_long() == Some(long)),
        // A value or more letters may follow the first one; the parser checks those.
        None => options.find(|option| option.get_short() == name.chars().nth(1)),
    }
}

fn advice(name: &str) -> Option<&'static str> {
    // Also matches -np4.
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let mut elsewhere = ELSEWHERE.iter();
    elsewhere.find_map(|(names, advice)| names.contains(&name).then_some(*advice))
}

fn sentence(command: &Command, name: &str) -> String {
    let options = command.get_arguments().filter_map(Arg::get_long);
    let longs: Vec<String> = options.map(|long| format!("--{long}")).collect();
    let nearest = comm_kit::nearest(name, longs.iter().map(String::as_str));
    let advice = match (advice(name), nearest) {
        (Some(advice), _) => advice.to_owned(),
        (None, Some(near)) => format!("did you mean {near}?"),
        (None, None) => String::from("--help lists them"),
    };
    format!("there is no option {name}; {advice} (the program and its own options go after --)")
}
