//! Hosts in network namespaces, and faults of the links between them.

use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use comm_testing::{not_run, watchdog};

use super::{HOSTS, ROLE};

/// A switch and hosts around it.
pub(crate) struct Network {
    name: String,
    _turn: Turn,
}

/// Lets tests run concurrently, since most of them wait; the test that measures the speed of the links runs
/// alone.
static TURNS: RwLock<()> = RwLock::new(());
static MADE: AtomicUsize = AtomicUsize::new(0);

#[expect(dead_code, reason = "held for as long as the network is there")]
enum Turn {
    Beside(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Network {
    /// Builds the network beside those of other tests, or returns why that is impossible.
    pub(crate) fn build() -> Option<Self> {
        let turn = TURNS.read().unwrap_or_else(PoisonError::into_inner);
        Self::built(Turn::Beside(turn))
    }

    /// Builds the only network, or returns why that is impossible.
    pub(crate) fn build_alone() -> Option<Self> {
        let turn = TURNS.write().unwrap_or_else(PoisonError::into_inner);
        Self::built(Turn::Alone(turn))
    }

    fn built(turn: Turn) -> Option<Self> {
        watchdog();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let network = Self {
            name: format!("cct{}-{number}", std::process::id()),
            _turn: turn,
        };
        match network.wire() {
            Ok(()) => Some(network),
            Err(reason) => {
                not_run(format_args!(
                    "network namespaces cannot be made here: {reason}"
                ));
                None
            }
        }
    }

    fn wire(&self) -> Result<(), String> {
        let switch = self.host("sw");
        ip(&format!("netns add {switch}"))?;
        ip(&format!("-n {switch} link add br0 type bridge"))?;
        ip(&format!("-n {switch} link set br0 up"))?;
        for rank in 0..HOSTS {
            let host = self.host(rank);
            ip(&format!("netns add {host}"))?;
            ip(&format!("-n {host} link set lo up"))?;
            // The link has a different number on each host.
            let index = 10 + rank;
            ip(&format!(
                "-n {host} link add eth0 index {index} type veth peer name p{rank} netns {switch}"
            ))?;
            ip(&format!("-n {switch} link set p{rank} master br0 up"))?;
            ip(&format!(
                "-n {host} addr add 10.99.0.{}/24 dev eth0",
                rank + 1
            ))?;
            ip(&format!("-n {host} link set eth0 up"))?;
        }
        Ok(())
    }

    pub(crate) fn host(&self, which: impl std::fmt::Display) -> String {
        format!("{}-{which}", self.name)
    }

    /// Limits every link at both ends.
    pub(crate) fn limit(&self, rate: &str) -> Result<(), String> {
        let limit = format!("root tbf rate {rate} burst 256kb latency 50ms");
        for rank in 0..HOSTS {
            run(
                "tc",
                &format!("-n {} qdisc add dev eth0 {limit}", self.host(rank)),
            )?;
            run(
                "tc",
                &format!("-n {} qdisc add dev p{rank} {limit}", self.host("sw")),
            )?;
        }
        Ok(())
    }

    /// Makes every link slow, in both directions.
    pub(crate) fn slow_down(&self, rate: &str) -> Result<(), String> {
        for rank in 0..HOSTS {
            let host = self.host(rank);
            let limit = format!("root tbf rate {rate} burst 8kb latency 400ms");
            run("tc", &format!("-n {host} qdisc add dev eth0 {limit}"))?;
        }
        Ok(())
    }

    /// Drops packets from one host to another; those of the other direction pass.
    pub(crate) fn cut_one_way(&self, from: usize, to: usize) {
        let (host, to) = (self.host(from), to + 1);
        let nobody = "lladdr 02:00:00:00:00:99 dev eth0 nud permanent";
        ip(&format!("-n {host} neigh replace 10.99.0.{to} {nobody}")).unwrap();
    }

    /// Drops all packets from one host; those to it pass.
    pub(crate) fn mute(&self, rank: usize) {
        let (host, nowhere) = (self.host(rank), "10.99.0.99 dev eth0");
        let nobody = "lladdr 02:00:00:00:00:99 nud permanent";
        ip(&format!("-n {host} neigh replace {nowhere} {nobody}")).unwrap();
        let route = format!("route replace 10.99.0.0/24 via {nowhere} onlink");
        ip(&format!("-n {host} {route}")).unwrap();
    }

    /// Cuts a host off: no packet passes any longer, and no host is notified.
    pub(crate) fn cut(&self, rank: usize) {
        ip(&format!("-n {} link set p{rank} down", self.host("sw"))).unwrap();
    }

    /// Lets the packets of a host that was cut off pass again.
    pub(crate) fn join(&self, rank: usize) {
        ip(&format!("-n {} link set p{rank} up", self.host("sw"))).unwrap();
    }

    /// Starts this program as a rank on every host.
    pub(crate) fn start(&self, role: &str, arguments: &[(&str, &str)]) -> Vec<Child> {
        self.start_on(HOSTS, role, arguments)
    }

    /// Starts this program as a rank on each of the first hosts.
    pub(crate) fn start_on(
        &self,
        hosts: usize,
        role: &str,
        arguments: &[(&str, &str)],
    ) -> Vec<Child> {
        let program = std::env::current_exe().unwrap();
        let start = |rank: usize| {
            Command::new("ip")
                .args(["netns", "exec", &self.host(rank)])
                .arg(&program)
                .args(["--exact", "one_rank", "--nocapture", "--test-threads", "1"])
                .env(ROLE, role)
                .env("COBRE_TCP_RANK", rank.to_string())
                .env("COBRE_TCP_SIZE", hosts.to_string())
                .envs(arguments.iter().copied())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        (0..hosts).map(start).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for rank in 0..HOSTS {
            let _ = ip(&format!("netns del {}", self.host(rank)));
        }
        let _ = ip(&format!("netns del {}", self.host("sw")));
    }
}

pub(crate) fn ip(arguments: &str) -> Result<(), String> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &str) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{program} {arguments}: {reason}"))
}

/// Waits for all ranks and returns the report of each.
pub(crate) fn reports(children: Vec<Child>) -> Vec<String> {
    let report = |output: Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "a rank failed: {text}");
        let line = text.lines().find_map(|line| line.split_once("report: "));
        line.map_or_else(
            || panic!("no report: {text}"),
            |(_, report)| report.to_owned(),
        )
    };
    children
        .into_iter()
        .map(|child| report(child.wait_with_output().unwrap()))
        .collect()
}
