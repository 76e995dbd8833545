//! The starter's own signals: Ctrl-C and its kin become requests to the job.

use std::io;

use rustix::process::Signal as Raw;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::proc::Masks;
use crate::request::Request;
use crate::signal::Signal;
use crate::suspend::remember_the_last;

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
    let own = Masks::of(None);
    if !own.ignore(Raw::TSTP) {
        // Before the request is sent: whoever gets it asks which signal was the last.
        remember_the_last()?;
    }
    for (raw, request) in FORWARDED {
        if own.ignore(raw) {
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
