//! Describes the machine and the run, which readers need to interpret the figures.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;

use crate::process::command;

/// Describes this machine and the run with the given heading.
pub(super) fn about(heading: &str) -> BTreeMap<String, String> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let machine = machine(&read("/proc/cpuinfo"), &read("/proc/meminfo"));
    let kernel = read("/proc/sys/kernel/osrelease");
    // The first two numbers; the suffix of a distribution means nothing elsewhere.
    let kernel: Vec<&str> = kernel.trim().split('.').take(2).collect();
    let entries = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("date", told("date", &["-u", "+%F"])),
        ("machine", machine),
        ("processors", cores.to_string()),
        ("system", format!("Linux {}", kernel.join("."))),
        ("compiler", told("rustc", &["--version"])),
        ("load", load(&read("/proc/loadavg"), cores)),
        ("run", heading.to_owned()),
    ];
    let entries = entries.map(|(name, value)| (name.to_owned(), value));
    entries.into()
}

fn told(program: &str, arguments: &[&str]) -> String {
    let output = command(program, arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|_| "unknown".to_owned())
}

/// Describes the load when the measurement began: on a busy machine figures mean less.
fn load(averages: &str, cores: usize) -> String {
    let average = averages
        .split(' ')
        .next()
        .and_then(|load| load.parse().ok());
    let average: f64 = average.unwrap_or(0.0);
    let cores = u32::try_from(cores).map_or(f64::INFINITY, f64::from);
    let kind = if average > cores / 4.0 {
        "busy"
    } else {
        "quiet"
    };
    format!("{kind} machine, load {average:.1} at the start")
}

/// Describes the processor, the memory, and whether the machine is virtual.
fn machine(processors: &str, memory: &str) -> String {
    let model = value(processors, "model name").unwrap_or("a processor without a name");
    let kilobytes = value(memory, "MemTotal").and_then(|total| total.split(' ').next());
    let kilobytes: u64 = kilobytes.and_then(|total| total.parse().ok()).unwrap_or(0);
    let flags = value(processors, "flags").unwrap_or_default();
    let guest = flags.split(' ').any(|flag| flag == "hypervisor");
    let kind = if guest { ", virtual machine" } else { "" };
    format!("{model}, {} GiB{kind}", (kilobytes + (1 << 19)) >> 20)
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
    Some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_by_what_the_system_says() {
        let processors = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor vme\n";
        let named = machine(processors, "MemTotal:       24673884 kB\n");
        assert_eq!(named, "AMD EPYC, 24 GiB, virtual machine");
        assert_eq!(machine("", ""), "a processor without a name, 0 GiB");
    }

    #[test]
    fn a_busy_machine_is_called_busy() {
        assert_eq!(
            load("3.25 1.00 1.00 1/99 1", 2),
            "busy machine, load 3.2 at the start"
        );
        assert_eq!(
            load("0.31 1.00 1.00 1/99 1", 2),
            "quiet machine, load 0.3 at the start"
        );
    }

    #[test]
    fn nothing_about_this_run_is_empty() {
        let about = about("2 processors");
        assert!(about.values().all(|value| !value.is_empty()), "{about:?}");
        assert_eq!(about["run"], "2 processors");
    }
}
