//! The hook gets the exit code, in every way in which a process can exit.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::process::{Command, ExitCode, exit};
use std::thread;

use comm_kit::exit::{on_exit, on_main_thread};

/// Makes this test the process that exits, and selects how.
const WAY: &str = "COMM_KIT_EXIT";

/// A destructor of a thread-local, which runs before the hook.
struct Early;

impl Drop for Early {
    fn drop(&mut self) {
        println!("early");
    }
}

thread_local! {
    static EARLY: Early = const { Early };
}

fn end(way: &str) -> ExitCode {
    assert!(on_exit(|code| println!("hook {code}")));
    assert!(!on_exit(|_| println!("second hook")), "there is one");
    EARLY.with(|_| ());
    match way {
        "exit" => exit(7),
        "exit 256" => exit(256),
        "exit of a thread" => {
            let thread = thread::spawn(|| -> () { exit(9) });
            let _ = thread.join();
        }
        "panic" => panic!("on purpose"),
        _ => {}
    }
    ExitCode::from(if way == "return" { 5 } else { 0 })
}

fn main() -> ExitCode {
    if let Ok(way) = std::env::var(WAY) {
        return end(&way);
    }
    assert_eq!(on_main_thread(), Some(true));
    let elsewhere = thread::spawn(on_main_thread).join();
    assert_eq!(elsewhere.ok(), Some(Some(false)));
    for (way, code, printed) in [
        ("return", 5, "early\nhook 5\n"),
        ("return 0", 0, "early\nhook 0\n"),
        ("exit", 7, "early\nhook 7\n"),
        ("exit 256", 0, "early\nhook 0\n"),
        ("exit of a thread", 9, "hook 9\n"),
        ("panic", 101, "early\nhook 101\n"),
    ] {
        let program = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.env(WAY, way).output()
        });
        let output = program.unwrap_or_else(|error| panic!("{way}: {error}"));
        assert_eq!(output.status.code(), Some(code), "{way}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{way}");
    }
    println!("6 ways to end");
    ExitCode::SUCCESS
}
