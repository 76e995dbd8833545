//! The starter's own signals: Ctrl-C and its kin become requests to the job.

use std::io;

use rustix::process::Signal as Raw;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::request::Request;
use crate::signal::Signal;

/// Every signal that is passed on, and what it asks for.
const FORWARDED: [(Raw, Request); 7] = [
    (Raw::INT, Request::Stop(Signal::Interrupt)),
    (Raw::TERM, Request::Stop(Signal::Terminate)),
    (Raw::HUP, Request::Stop(Signal::Hangup)),
    (Raw::QUIT, Request::Stop(Signal::Quit)),
    (Raw::TSTP, Request::Suspend),
    // A scheduler that was told to warns a program with one of these before its time is up.
    (Raw::USR1, Request::Pass(Raw::USR1)),
    (Raw::USR2, Request::Pass(Raw::USR2)),
];

/// Turns signals into requests, except where this process ignores them. Needs the runtime.
///
/// The terminal sends Ctrl-C to the starter's group only; the ranks, each in a group of its own,
/// hear of it from here.
pub(crate) fn forward_signals(requests: &mpsc::UnboundedSender<Request>) -> io::Result<()> {
    let ignored = ignored_signals();
    for (raw, request) in FORWARDED {
        if ignored & (1 << (raw.as_raw() - 1)) != 0 {
            continue;
        }
        let mut arrivals = signal(SignalKind::from_raw(raw.as_raw()))?;
        let requests = requests.clone();
        tokio::spawn(async move {
            while arrivals.recv().await.is_some() && requests.send(request).is_ok() {}
        });
    }
    Ok(())
}

/// Returns a mask of the signals this process ignores, as `nohup` and shells without job control
/// arrange it. Empty where the system does not tell without unsafe code.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_ignored(&status)
}

fn parse_ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::parse_ignored;

    #[test]
    fn the_mask_is_found_or_empty() {
        let status =
            "Name:\tsh\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000001\nSigCgt:\t0\n";
        assert_eq!(parse_ignored(status), 1);
        assert_eq!(parse_ignored(""), 0);
        assert_eq!(parse_ignored("SigIgn:\tnonsense"), 0);
    }
}
