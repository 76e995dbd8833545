//! One program gives the same answer on every backend and on several machines.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;
#[path = "../../comm-factory/tests/hello/mod.rs"]
mod hello;

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::trial::attempt;
use common::{Key, Starter, comm_run, fresh_mark, node};
use hello::prefixed;

/// Builds the example of comm-factory with every backend that this test starts, once.
fn hello() -> &'static str {
    static HELLO: OnceLock<String> = OnceLock::new();
    hello::once(&HELLO, || hello::build("shm,tcp"))
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn the_same_alone_and_on_every_backend() {
    let hello = hello();
    let alone = Command::new(hello).env_clear().output().unwrap();
    assert_eq!(hello::sorted(&alone.stdout), hello::lines(0..1, 1));
    for backend in [&[][..], &["--backend", "shm"], &["--backend", "tcp"]] {
        for (ranks, size) in [("1", 1), ("3", 3)] {
            let args = [backend, &["-n", ranks, "--", hello]].concat();
            let ended = Starter::new(&args).end();
            assert_eq!(ended.code(), 0, "{args:?}: {ended:?}");
            assert_eq!(sorted(ended.stdout), prefixed(0..size, size), "{args:?}");
        }
    }
}

#[test]
fn what_the_environment_gets_wrong_is_said_in_one_line() {
    let said = |variables: &[(&str, &str)]| {
        let mut command = Command::new(hello());
        let output = command.env_clear().envs(variables.iter().copied());
        let output = output.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let backend = |name| said(&[("COBRE_COMM_BACKEND", name)]);
    for (said, parts) in [
        // This program is built without MPI.
        (
            backend("mpi"),
            &["not compiled in", "tcp, shm, local", "feature \"mpi\""][..],
        ),
        (
            backend("smh"),
            &["no backend \"smh\"", "did you mean \"shm\""],
        ),
        (
            backend("shm"),
            &["COBRE_SHM_NAME, COBRE_SHM_RANK, COBRE_SHM_SIZE", "comm-run"],
        ),
        (
            backend("tcp"),
            &["COBRE_TCP_COORDINATOR, COBRE_TCP_RANK, COBRE_TCP_SIZE"],
        ),
        (
            said(&[("PMI_RANK", "0"), ("PMI_SIZE", "4")]),
            &["feature \"mpi\""],
        ),
        // The message names the variables that announce ranks and those that are missing to connect them.
        (
            said(&[("RANK", "0"), ("WORLD_SIZE", "2")]),
            &[
                "RANK=0 WORLD_SIZE=2 announces ranks",
                "not set: COBRE_TCP_COORDINATOR",
            ],
        ),
        // The message lists wrong variables as well as missing ones.
        (
            said(&[("COBRE_TCP_RANK", "x")]),
            &[
                "COBRE_TCP_RANK=\"x\" is not a number",
                "not set: COBRE_TCP_COORDINATOR, COBRE_TCP_SIZE",
            ],
        ),
        (
            said(&[("COBRE_COMM_BACKEND", "shm"), ("COBRE_SHM_RANK", "x")]),
            &[
                "COBRE_SHM_NAME, COBRE_SHM_SIZE not set",
                "COBRE_SHM_RANK is \"x\"",
            ],
        ),
    ] {
        assert_eq!(said.lines().count(), 1, "{said}");
        for part in parts {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}

/// Some users write the name as `shm_open` wants it.
#[test]
fn a_slash_in_front_of_the_name_of_a_segment_makes_no_difference() {
    let hello = hello();
    let name = format!("comm-run-test-{}", fresh_mark());
    let start = |rank: &str, name: &str| {
        let mut command = Command::new(hello);
        command.env_clear().env("COBRE_SHM_NAME", name);
        command
            .env("COBRE_SHM_RANK", rank)
            .env("COBRE_SHM_SIZE", "2");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let ranks = [start("0", &format!("/{name}")), start("1", &name)];
    for rank in ranks {
        let output = rank.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn many_tcp_jobs_at_once_do_not_disturb_each_other() {
    let hello = hello();
    let args = ["-n", "2", "--backend", "tcp", "--", hello];
    let jobs: Vec<_> = (0..8).map(|_| Starter::new(&args)).collect();
    for job in jobs {
        let ended = job.end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert_eq!(sorted(ended.stdout), prefixed(0..2, 2));
    }
}

#[test]
fn two_launchers_form_one_job() {
    let hello = hello();
    let key = Key::new("correct horse battery staple\n", 0o600);
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let coordinator = format!("127.0.0.1:{}", free.local_addr().unwrap().port());
    drop(free);
    let start = |rank: &str| {
        let mut args = node(rank, &coordinator, key.path());
        args.extend(["--", hello]);
        Starter::new(&args)
    };
    // Starts the second machine first: it waits for the coordinator.
    let second = start("1");
    let first = start("0");
    for (launcher, ranks) in [(first, 0..2), (second, 2..4)] {
        let ended = launcher.end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(ended.stderr.is_empty(), "{ended:?}");
        assert_eq!(sorted(ended.stdout), prefixed(ranks, 4));
    }
}

/// Two network namespaces that act as machines with a cable between them.
struct Machines(String);

impl Machines {
    /// Creates them, which needs root and iproute2, or returns why it cannot.
    fn build() -> Option<Self> {
        let machines = Self(format!("ccr{}", fresh_mark()));
        match machines.wire() {
            Ok(()) => Some(machines),
            Err(reason) => {
                comm_testing::not_run(format_args!(
                    "network namespaces cannot be created here: {reason}"
                ));
                None
            }
        }
    }

    fn wire(&self) -> Result<(), String> {
        let [first, second] = self.names();
        ip(&format!("netns add {first}"))?;
        ip(&format!("netns add {second}"))?;
        let cable = format!("-n {first} link add eth0 type veth peer name eth0 netns {second}");
        ip(&cable)?;
        for (machine, address) in [(first, "10.98.0.1/24"), (second, "10.98.0.2/24")] {
            ip(&format!("-n {machine} link set lo up"))?;
            ip(&format!("-n {machine} addr add {address} dev eth0"))?;
            ip(&format!("-n {machine} link set eth0 up"))?;
        }
        Ok(())
    }

    fn names(&self) -> [String; 2] {
        ["a", "b"].map(|end| format!("{}{end}", self.0))
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let tried = attempt(Command::new("ip").args(arguments.split_whitespace()));
    tried.map_err(|reason| format!("ip {arguments}: {reason}"))
}

#[test]
fn two_launchers_on_two_machines_form_one_job() {
    let hello = hello();
    let Some(machines) = Machines::build() else {
        return;
    };
    let key = Key::new("correct horse battery staple\n", 0o600);
    let start = |(rank, machine): (&str, String)| {
        let mark = fresh_mark();
        let mut args = node(rank, "10.98.0.1:29500", key.path());
        args.extend(["--", hello]);
        let inner = comm_run(&args, &mark);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &machine]);
        command.arg(inner.get_program()).args(inner.get_args());
        let variables = inner.get_envs();
        command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Starter::of(command, mark)
    };
    let names = machines.names();
    let launchers: Vec<_> = ["0", "1"].into_iter().zip(names).map(start).collect();
    for (launcher, ranks) in launchers.into_iter().zip([0..2, 2..4]) {
        let ended = launcher.end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert_eq!(sorted(ended.stdout), prefixed(ranks, 4));
    }
}
