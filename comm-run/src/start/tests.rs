//! Ranks as they start: their arguments, variables, folder, signals and program.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::{Leader, Start};
use crate::start::environment::Variables;

fn start(program: &str, args: &[&str]) -> Start {
    Start {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        variables: Variables::from([("PATH".into(), "/usr/bin:/bin".into())]),
        folder: None,
        null: Arc::new(std::fs::File::open("/dev/null").unwrap().into()),
        passed: Vec::new(),
        processor: None,
        limit: None,
        warden: None,
    }
}

/// Returns the output of a rank and its exit code.
fn run(start: &Start) -> io::Result<(String, i32)> {
    let Leader { pid, pipes } = start.spawn()?;
    let mut text = String::new();
    std::fs::File::from(pipes.0).read_to_string(&mut text)?;
    let status = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)?.unwrap();
    Ok((text, status.exit_status().unwrap_or(-1)))
}

fn kind(start: &Start) -> io::ErrorKind {
    run(start).unwrap_err().kind()
}

#[test]
fn words_variables_and_folder_reach_the_program() {
    let mut echo = start(
        "sh",
        &["-c", "echo \"$0|$1|$NAME\"; pwd; exit 3", "a b", ""],
    );
    echo.variables.insert("NAME".into(), "value = x".into());
    echo.folder = Some("/usr".into());
    assert_eq!(run(&echo).unwrap(), ("a b||value = x\n/usr\n".into(), 3));
    let ids = start("sh", &["-c", "echo $$; cut -d' ' -f5 /proc/$$/stat"]);
    let (ids, _) = run(&ids).unwrap();
    let (pid, group) = ids.trim().split_once('\n').unwrap();
    assert_eq!(pid, group, "it leads a group");
}

#[test]
fn a_program_is_found_as_a_shell_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, mode: u32| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, "echo script $1\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    // A script that names no interpreter in its first line is run by a shell.
    let script = write("script", 0o755);
    let by_path = start(script.to_str().unwrap(), &["one"]);
    assert_eq!(run(&by_path).unwrap(), ("script one\n".into(), 0));
    let mut by_name = start("script", &["two"]);
    let path = format!("/no/such:{}", folder.path().display());
    by_name.variables.insert("PATH".into(), path.into());
    assert_eq!(run(&by_name).unwrap().0, "script two\n");
    // A file that may not be executed is a more helpful error than "not found".
    write("forbidden", 0o644);
    let mut forbidden = start("forbidden", &[]);
    forbidden.variables = by_name.variables;
    assert_eq!(kind(&forbidden), io::ErrorKind::PermissionDenied);
    for missing in ["no-such-program", "/no/such/program", ""] {
        assert_eq!(kind(&start(missing, &[])), io::ErrorKind::NotFound);
    }
    let mut nowhere = start("true", &[]);
    nowhere.folder = Some("/no/such/folder".into());
    assert_eq!(kind(&nowhere), io::ErrorKind::NotFound);
    assert_eq!(kind(&start("true\0", &[])), io::ErrorKind::InvalidInput);
}

#[test]
fn it_starts_with_the_signals_of_a_fresh_program() {
    // This program ignores SIGPIPE, as Rust does, and has handlers, as tokio does.
    let show = start("sed", &["-n", "/^Sig[BIC]/p", "/proc/self/status"]);
    let (masks, _) = run(&show).unwrap();
    let mask = |name: &str| {
        let line = masks.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    };
    assert_eq!((mask("SigBlk:"), mask("SigCgt:")), (0, 0), "{masks}");
    assert_eq!(mask("SigIgn:") >> 12 & 1, 0, "SIGPIPE: {masks}");
}

#[test]
fn threads_start_processes_side_by_side() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for code in 0..20 {
                    let exit = start("sh", &["-c", &format!("exit {code}")]);
                    assert_eq!(run(&exit).unwrap(), (String::new(), code));
                }
            });
        }
    });
}
