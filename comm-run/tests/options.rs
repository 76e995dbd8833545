//! The options of `comm-run`, without a backend.
#![cfg(target_os = "linux")]

mod common;

use std::process::{Command, Stdio};

use common::trial::{unshare, works};
use common::{Folder, Key, Starter, node};

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn the_listener_reaches_rank_0_and_nobody_else() {
    let script = "echo $COBRE_TCP_COORDINATOR $MASTER_ADDR ${COBRE_TCP_SECRET:+secret} \
                  ${COBRE_TCP_LISTEN_FD:+listener}; \
                  [ $COBRE_TCP_PORT = $MASTER_PORT ] || echo ports differ; \
                  for fd in /proc/$$/fd/*; do case $(readlink $fd) in socket:*) echo socket;; esac; done";
    let ended = Starter::new(&["-n", "3", "--backend", "tcp", "--", "sh", "-c", script]).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let expected = [
        "[0] 127.0.0.1 127.0.0.1 secret listener",
        "[0] socket",
        "[1] 127.0.0.1 127.0.0.1 secret",
        "[2] 127.0.0.1 127.0.0.1 secret",
    ];
    assert_eq!(sorted(ended.stdout), expected);
}

#[test]
fn verbose_says_which_ranks_start_where_and_over_what() {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let ended = Starter::new(&["-n", "2", "--verbose", "--", "true"]).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.says(&format!("shm: 2 ranks on {host}")), "{ended:?}");
    let ended = Starter::new(&["-n", "1", "-v", "--backend", "tcp", "--", "true"]).end();
    assert!(ended.says(&format!("tcp: 1 rank on {host}")), "{ended:?}");

    let key = Key::new("secret", 0o600);
    let mut args = node("1", "127.0.0.1:29500", key.path());
    args.extend(["--verbose", "--", "true"]);
    let ended = Starter::new(&args).end();
    let wanted = format!("tcp: 4 ranks, of which 2-3 on {host}");
    assert!(ended.says(&wanted), "{ended:?}");

    let ended = Starter::new(&["-n", "2", "--", "true"]).end();
    assert!(!ended.says("ranks on"), "{ended:?}");
}

#[test]
fn an_unknown_backend_is_wrong_usage_and_the_known_ones_are_listed() {
    let ended = Starter::new(&["-n", "2", "--backend", "smoke", "--", "true"]).end();
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(
        ended.says("smoke") && ended.says("shm, tcp, mpi"),
        "{ended:?}"
    );
}

#[test]
fn a_failure_on_the_second_machine_carries_its_number_in_the_whole_job() {
    let key = Key::new("secret", 0o600);
    let mut args = node("1", "127.0.0.1:29500", key.path());
    let script = "echo $LOCAL_RANK/$LOCAL_WORLD_SIZE $RANK/$WORLD_SIZE; [ $RANK = 2 ] || exit 6";
    args.extend(["--", "sh", "-c", script]);
    let ended = Starter::new(&args).end();
    assert_eq!(ended.code(), 6, "{ended:?}");
    assert_eq!(sorted(ended.stdout.clone()), ["[2] 0/2 2/4", "[3] 1/2 3/4"]);
    assert!(ended.says("rank 3 exited with code 6"), "{ended:?}");
    assert!(ended.says("  [3] 1/2 3/4"), "{ended:?}");
}

#[test]
fn a_secret_that_nobody_or_everybody_can_read_is_refused_and_a_groups_is_warned_of() {
    let (open, empty) = (Key::new("secret", 0o644), Key::new(" \n", 0o600));
    let long = Key::new(&"s".repeat(65_537), 0o600);
    let keys = [&empty, &long, &open].map(Key::path);
    for file in ["/nonexistent/key", "/", "/dev/zero"]
        .into_iter()
        .chain(keys)
    {
        let mut args = node("0", "127.0.0.1:29500", file);
        args.extend(["--", "true"]);
        let ended = Starter::new(&args).end();
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.says("secret file") && ended.says(file), "{ended:?}");
    }
    let group = Key::new("secret", 0o640);
    for (key, code) in [(&open, 2), (&group, 0)] {
        let mut args = node("0", "127.0.0.1:29500", key.path());
        args.extend(["--", "true"]);
        let ended = Starter::new(&args).end();
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(
            ended.says(&format!("chmod 600 {}", key.path())),
            "{ended:?}"
        );
    }
}

#[test]
fn half_a_description_of_many_machines_is_wrong_usage() {
    for args in [
        &["-n", "2", "--nnodes", "2", "--", "true"][..],
        &["-n", "2", "--node-rank", "0", "--", "true"],
        &["-n", "2", "--coordinator", "h:1", "--", "true"],
        &[&node("2", "h:1", "key")[..], &["--", "true"]].concat(),
        &[&node("0", "h", "key")[..], &["--", "true"]].concat(),
    ] {
        let ended = Starter::new(args).end();
        assert_eq!(ended.code(), 2, "{args:?}: {ended:?}");
        assert!(!ended.stderr.is_empty(), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_million_ranks_are_refused() {
    for ranks in ["1000000", "4097", "99999999999999999999"] {
        let ended = Starter::new(&["-n", ranks, "--", "true"]).end();
        assert_eq!(ended.code(), 2, "{ended:?}");
    }
    let ended = Starter::new(&["-n", "1000000", "--", "true"]).end();
    assert!(ended.says("at most 4096 ranks"), "{ended:?}");
    let ended = Starter::new(&["-n", "2000", "--backend", "shm", "--", "true"]).end();
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(
        ended.says("2000 ranks are too many for shared memory") && ended.says("--backend tcp"),
        "{ended:?}"
    );
}

#[test]
fn no_program_and_no_ranks_are_wrong_usage() {
    for (args, says) in [
        (&["-n", "2"][..], "PROGRAM"),
        (&["-n", "2", "--"], "PROGRAM"),
        (&["-n", "0", "--", "true"], "at least one rank"),
        (&["--", "true"], "-n"),
        (&[], "-n"),
    ] {
        let ended = Starter::new(args).end();
        assert_eq!(ended.code(), 2, "{args:?}: {ended:?}");
        assert!(ended.says(says), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_dry_run_shows_everything_but_the_secret_and_starts_nothing() {
    let folder = Folder::new();
    let trace = folder.join("trace");
    let script = format!("touch '{}'", trace.display());
    let args = ["-n", "2", "--backend", "tcp", "--dry-run"];
    let args = [&args[..], &["--", "sh", "-c", &script]].concat();
    let mark = common::fresh_mark();
    let mut command = common::comm_run(&args, &mark);
    command.env("PMI_RANK", "3");
    let ended = Starter::of(command, mark).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let has = |line: &str| ended.stdout.iter().filter(|l| l.trim() == line).count();
    for (line, times) in [
        ("rank 0:", 1),
        ("rank 1:", 1),
        ("rank 2:", 0),
        ("COBRE_COMM_BACKEND=tcp", 2),
        ("COBRE_TCP_RANK=1", 1),
        ("COBRE_TCP_SIZE=2", 2),
        ("COBRE_TCP_SECRET='(redacted)'", 2),
        ("RANK=0", 1),
        ("not passed on: PMI_RANK", 1),
    ] {
        assert_eq!(has(line), times, "{line}: {ended:?}");
    }
    let commands = ended.stdout.iter().filter(|l| l.starts_with("  sh -c "));
    assert_eq!(commands.count(), 2, "{ended:?}");
    assert!(!trace.exists(), "something was started");
}

#[test]
fn logs_hold_every_stream_byte_for_byte() {
    let folder = Folder::new();
    let logs = folder.join("new/logs");
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::write(logs.join("rank-1.err"), "from an older job").unwrap();
    let script = r"printf 'out %s\r\n\377\nno newline' $RANK; [ $RANK = 0 ] && echo oops >&2; :";
    let args = ["-n", "2", "--log-dir", logs.to_str().unwrap()];
    let ended = Starter::new(&[&args[..], &["--", "sh", "-c", script]].concat()).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    for (name, expected) in [
        ("rank-0.out", &b"out 0\r\n\xff\nno newline"[..]),
        ("rank-1.out", b"out 1\r\n\xff\nno newline"),
        ("rank-0.err", b"oops\n"),
        ("rank-1.err", b""),
    ] {
        let content = std::fs::read(logs.join(name)).unwrap();
        assert_eq!(content, expected, "{name}");
    }
    assert!(
        ended.stdout.contains(&"[1] no newline".to_owned()),
        "{ended:?}"
    );
    assert!(ended.says("[0] oops"), "{ended:?}");
}

#[test]
fn logs_that_cannot_be_written_are_wrong_usage_and_start_nothing() {
    for folder in ["/dev/null/logs", "/proc/logs"] {
        let args = ["-n", "2", "--log-dir", folder, "--", "echo", "started"];
        let ended = Starter::new(&args).end();
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.stdout.is_empty() && ended.says(folder), "{ended:?}");
    }
}

#[test]
fn explain_shows_the_backend_and_the_variable_that_decides() {
    let explain = |variables: &[(&str, &str)]| {
        let mark = common::fresh_mark();
        let mut command = common::comm_run(&["explain"], &mark);
        command.env_clear().envs(variables.iter().copied());
        Starter::of(command, mark).end()
    };
    let alone = explain(&[]);
    assert_eq!(alone.code(), 0, "{alone:?}");
    assert_eq!(alone.stdout[0], "a program with every backend: local");
    let torch = explain(&[
        ("COBRE_COMM_BACKEND", "tcp"),
        ("RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("MASTER_ADDR", "h"),
    ]);
    assert_eq!(torch.code(), 0, "{torch:?}");
    for line in [
        "a program with every backend: tcp",
        "  decided by COBRE_COMM_BACKEND=tcp",
        "  COBRE_TCP_RANK=1 is taken from RANK",
        "  COBRE_TCP_COORDINATOR=h is taken from MASTER_ADDR",
    ] {
        assert!(torch.stdout.iter().any(|l| l == line), "{line}: {torch:?}");
    }
    let lost = explain(&[("RANK", "1"), ("WORLD_SIZE", "2")]);
    assert_eq!(lost.code(), 1, "{lost:?}");
}

/// A program would reject this value, so `explain` reports the error instead of a backend.
#[test]
fn explain_names_a_variable_that_is_not_utf_8() {
    use std::os::unix::ffi::OsStrExt;

    let mark = common::fresh_mark();
    let mut command = common::comm_run(&["explain"], &mark);
    command.env("COBRE_SHM_NAME", std::ffi::OsStr::from_bytes(b"job-\xff"));
    let ended = Starter::of(command, mark).end();
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(
        ended.stdout[0].contains("COBRE_SHM_NAME is not UTF-8"),
        "{ended:?}"
    );
}

#[test]
fn explain_agrees_with_what_a_rank_gets() {
    let run = env!("CARGO_BIN_EXE_comm-run");
    for backend in ["shm", "tcp"] {
        let args = ["-n", "1", "--backend", backend, "--", run, "explain"];
        let ended = Starter::new(&args).end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let expected = format!("[0] a program with every backend: {backend}");
        assert_eq!(ended.stdout[0], expected);
    }
}

#[test]
fn the_doctor_looks_at_everything_and_finds_what_hinders() {
    let ended = Starter::new(&["doctor"]).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    for what in [
        "shared memory",
        "segments",
        "open files",
        "processes",
        "processors",
        "memory",
        "MPI",
        "loopback",
        "port",
        "clock",
    ] {
        let about = |line: &&String| line[9..].starts_with(&format!("{what}: "));
        assert_eq!(
            ended.stdout.iter().filter(about).count(),
            1,
            "{what}: {ended:?}"
        );
    }
    let levels = ["ok       ", "warning  "];
    let well_formed = |line: &String| levels.iter().any(|level| line.starts_with(level));
    assert!(ended.stdout.iter().all(well_formed), "{ended:?}");
}

#[test]
fn the_doctor_lists_segments_left_under_our_names() {
    let name = format!("cobre-doctor-{}", common::fresh_mark());
    let path = std::path::Path::new("/dev/shm").join(&name);
    std::fs::write(&path, "").unwrap();
    let ended = Starter::new(&["doctor"]).end();
    std::fs::remove_file(&path).unwrap();
    let found = |line: &String| line.starts_with("warning  segments: ") && line.contains(&name);
    assert!(ended.stdout.iter().any(found), "{ended:?}");
}

#[test]
fn the_doctor_removes_the_segments_of_killed_jobs_only() {
    let mark = common::fresh_mark();
    let folder = comm_kit::segments::folder();
    let [killed, living, strange] = ["killed", "living", "strange"].map(|what| {
        let path = folder.join(format!("cobre-doctor-{what}-{mark}"));
        std::fs::write(&path, comm_kit::segments::MAGIC).unwrap();
        path
    });
    std::fs::write(&strange, "no segment").unwrap();
    let file = std::fs::File::open(&living).unwrap();
    file.try_lock().unwrap();
    let ended = Starter::new(&["doctor", "--clean"]).end();
    let stayed = [&killed, &living, &strange].map(|path| path.exists());
    for path in [&killed, &living, &strange] {
        let _ = std::fs::remove_file(path);
    }
    assert_eq!(stayed, [false, true, true], "{ended:?}");
    let name = killed.file_name().unwrap().to_string_lossy();
    let said = |line: &String| line.starts_with("ok       clean: removed") && line.contains(&*name);
    assert!(ended.stdout.iter().any(said), "{ended:?}");
    let left = |line: &String| line.contains("segments: ") && line.contains("-strange-");
    assert!(ended.stdout.iter().any(left), "{ended:?}");
}

#[test]
fn the_doctor_fails_where_no_job_can_run() {
    let run = env!("CARGO_BIN_EXE_comm-run");
    let doctor = |mut command: Command| {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Starter::of(command, common::fresh_mark()).end()
    };
    let script = format!("ulimit -n 19; exec '{run}' doctor");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]);
    let ended = doctor(shell);
    assert_eq!(ended.code(), 1, "{ended:?}");
    let about = |what: &str| ended.stdout.iter().any(|line| line.starts_with(what));
    assert!(about("problem  open files: hard limit 19"), "{ended:?}");

    // Without shared memory, and in a new network namespace, in which loopback is down.
    let namespaces = ["--net", "--mount"];
    let prepare = "mount -t tmpfs -o ro none /dev/shm";
    if !works(&mut unshare(&namespaces, &["sh", "-c", prepare])) {
        return;
    }
    let script = format!("{prepare} && exec '{run}' doctor");
    let ended = doctor(unshare(&namespaces, &["sh", "-c", &script]));
    assert_eq!(ended.code(), 1, "{ended:?}");
    for what in ["problem  shared memory: ", "problem  loopback: "] {
        let about = |line: &String| line.starts_with(what);
        assert!(ended.stdout.iter().any(about), "{what}: {ended:?}");
    }
}

#[test]
fn a_full_disk_under_the_logs_ends_the_job_and_is_named() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("/dev/full", folder.join("rank-1.out")).unwrap();
    let logs = folder.join("");
    let args = ["-n", "2", "--log-dir", logs.to_str().unwrap(), "--"];
    let ended =
        Starter::new(&[&args[..], &["sh", "-c", "echo hi; exec sleep 1000"]].concat()).end();
    assert_eq!(ended.code(), 141, "{ended:?}");
    assert!(ended.says("rank-1.out"), "{ended:?}");
}
