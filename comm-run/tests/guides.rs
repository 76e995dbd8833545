//! Runs the code blocks of the guides exactly as they are in `docs/guides`.
//!
//! A comment above every block tells how to run it, `<!-- run: NAME RANKS -->`, or what it needs that is missing here.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;
#[path = "../../comm-factory/tests/hello/mod.rs"]
mod hello;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use common::trial::{unshare, works};
use common::{Ended, Folder, Starter, fresh_mark};

/// One code block of a guide.
struct Block {
    mark: String,
    language: String,
    text: String,
}

fn guide(name: &str) -> Vec<Block> {
    let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides");
    blocks(&fs::read_to_string(guides.join(format!("{name}.md"))).unwrap())
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    let mut before = "";
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(Block {
                mark: before.to_owned(),
                language: language.to_owned(),
                text: body.join("\n"),
            });
        }
        before = line;
    }
    blocks
}

/// Returns the blocks of a guide with this name, each with the number of ranks it starts.
fn runnable(name: &str) -> Vec<(String, usize)> {
    let mark = format!("<!-- run: {name} ");
    let ranks = |block: &Block| {
        let ranks = block.mark.strip_prefix(&mark)?.strip_suffix(" -->")?;
        let cores = || std::thread::available_parallelism().unwrap().get();
        Some(ranks.parse().unwrap_or_else(|_| cores()))
    };
    let found = guide(name).into_iter();
    found
        .filter_map(|block| Some((block.text.clone(), ranks(&block)?)))
        .collect()
}

/// A folder with the program of the guides in it.
fn workplace() -> Folder {
    static HELLO: OnceLock<String> = OnceLock::new();
    let program = hello::once(&HELLO, || hello::build("shm,tcp"));
    let folder = Folder::new();
    std::os::unix::fs::symlink(program, folder.join("hello")).unwrap();
    folder
}

/// Runs a program there, with the folder and `comm-run` in `PATH`, as on a user's machine.
fn run(folder: &Folder, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let launcher = Path::new(env!("CARGO_BIN_EXE_comm-run")).parent().unwrap();
    let mut path: Vec<PathBuf> = vec![folder.join(""), launcher.to_path_buf()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mark = fresh_mark();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .current_dir(folder.join(""))
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", folder.join(""))
        .env("COMM_RUN_TEST_MARK", &mark)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Starter::of(command, mark).end()
}

/// Checks that the job succeeded and that the ranks printed their lines; `comm-run` puts their number in front.
fn check(ended: &Ended, ranks: usize) {
    assert_eq!(ended.code(), 0, "{ended:?}");
    let bare = |line: &String| match line.split_once("] ") {
        Some((_, rest)) => rest.to_owned(),
        None => line.clone(),
    };
    let mut printed: Vec<String> = ended.stdout.iter().map(bare).collect();
    printed.sort();
    assert_eq!(printed, hello::lines(0..ranks, ranks), "{ended:?}");
}

/// Finds a free port that no other test uses, in the range that the guide computes from the number of a job.
fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + u16::try_from(std::process::id() % 9_000).unwrap();
    let mut ports = (start..30_000).map(|_| start + GIVEN.fetch_add(1, Ordering::Relaxed));
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).unwrap()
}

#[test]
fn every_block_says_what_becomes_of_it() {
    for name in [
        "laptop",
        "slurm",
        "kubernetes",
        "docker",
        "python",
        "server",
    ] {
        let found = guide(name);
        assert!(!found.is_empty(), "{name}");
        for Block {
            mark,
            language,
            text,
        } in found
        {
            let run = format!("<!-- run: {name} ");
            let needs = ["<!-- needs a cluster -->", "<!-- needs Docker -->"];
            // The tests of the Python package run these, and compare what they print.
            let package = ["<!-- run: package", "<!-- output -->"];
            let package = package.iter().any(|start| mark.starts_with(start));
            let known = mark.starts_with(&run) || package || needs.contains(&mark.as_str());
            assert!(
                known && !language.is_empty(),
                "{name}: {mark:?} above\n{text}"
            );
        }
    }
}

#[test]
fn laptop() {
    let found = runnable("laptop");
    assert_eq!(found.len(), 5);
    let folder = workplace();
    for (script, ranks) in found {
        check(&run(&folder, &["sh", "-euc", &script], &[]), ranks);
    }
}

#[test]
fn python() {
    let found = runnable("python");
    assert_eq!(found.len(), 2);
    let folder = workplace();
    for (program, ranks) in found {
        let file = folder.join("guide.py");
        fs::write(&file, program).unwrap();
        check(&run(&folder, &["python3", "guide.py"], &[]), ranks);
    }
}

/// Stands in for `srun`: three tasks of one step, on one machine.
const SRUN: &str = "#!/bin/sh
for task in 0 1 2; do
  SLURM_PROCID=$task SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NODELIST=127.0.0.1 \"$@\" &
  tasks=\"$tasks $!\"
done
for task in $tasks; do wait $task || exit; done
";

#[test]
fn slurm() {
    let found = runnable("slurm");
    assert_eq!(found.len(), 1);
    let folder = workplace();
    let srun = folder.join("srun");
    fs::write(&srun, SRUN).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&srun, mode).unwrap();
    let job = (free_port() - 20_000).to_string();
    for (script, ranks) in found {
        // The variables of the batch script itself, which is not a step.
        let variables = [("SLURM_JOB_ID", &*job), ("SLURM_PROCID", "0")];
        check(&run(&folder, &["sh", "-euc", &script], &variables), ranks);
    }
    let left = fs::read_dir(folder.join("")).unwrap().count();
    assert_eq!(left, 2, "the secret is removed");
}

/// The variables of the manifest make a job; only the meeting point differs here.
#[test]
fn kubernetes() {
    let found = runnable("kubernetes");
    let (manifest, ranks) = found.first().unwrap();
    let lines: Vec<&str> = manifest.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter_map(|pair| {
        let name = pair[0].strip_prefix("- name: COBRE_")?;
        let value = pair[1].strip_prefix("value: \"")?.strip_suffix('"')?;
        Some((format!("COBRE_{name}"), value.to_owned()))
    });
    let mut pairs: Vec<(String, String)> = pairs.collect();
    assert_eq!(pairs.len(), 5, "{pairs:?}");
    let numbers = lines.iter().filter(|line| {
        let field = |name| {
            line.strip_prefix(name)
                .map(|rest: &str| rest.split(' ').next())
        };
        [field("completions: "), field("parallelism: ")].contains(&Some(Some(&*ranks.to_string())))
    });
    assert_eq!(numbers.count(), 2, "{manifest}");

    let folder = workplace();
    fs::write(folder.join("key"), "correct horse battery staple").unwrap();
    let key = folder.join("key").to_str().unwrap().to_owned();
    for (name, here) in [
        ("COBRE_TCP_COORDINATOR", "127.0.0.1"),
        ("COBRE_TCP_SECRET_FILE", &key),
    ] {
        pairs.iter_mut().find(|pair| pair.0 == name).unwrap().1 = here.to_owned();
    }
    pairs.push(("COBRE_TCP_PORT".to_owned(), free_port().to_string()));
    let pods = "for index in 0 1 2 3; do JOB_COMPLETION_INDEX=$index ./hello & pods=\"$pods $!\"; done; \
                for pod in $pods; do wait $pod || exit; done";
    let variables: Vec<_> = pairs.iter().map(|(a, b)| (&**a, &**b)).collect();
    check(&run(&folder, &["sh", "-c", pods], &variables), *ranks);
}

/// A container as Docker creates it: little shared memory, and processes numbered from 1.
#[test]
fn docker() {
    let command = guide("docker").remove(0).text;
    let (_, command) = command.split_once(" solver ").unwrap();
    assert_eq!(command, "comm-run -n 4 -- ./hello");
    let folder = workplace();
    let namespaces = ["--mount", "--pid", "--fork", "--mount-proc"];
    let mount = |size: &str| format!("mount -t tmpfs -o size={size} none /dev/shm");
    if !works(&mut unshare(&namespaces, &["sh", "-c", &mount("64m")])) {
        return;
    }
    let contained = |size: &str| {
        let script = format!("{} && {command}", mount(size));
        let unshare = [&["unshare", "--map-root-user"], &namespaces[..]].concat();
        let words = [&unshare[..], &["sh", "-c", &script]].concat();
        run(&folder, &words, &[])
    };
    check(&contained("64m"), 4);
    let tight = contained("1m");
    assert_ne!(tight.code(), 0, "{tight:?}");
    assert!(tight.code() < 128, "a signal: {tight:?}");
    assert!(
        tight.says("/dev/shm") || tight.says("available"),
        "{tight:?}"
    );
}
