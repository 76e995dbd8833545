//! Decides whether a job passed: from the reports of the ranks and the exits of their processes.

use comm_run::Exit;

use crate::orders::Placement;
use crate::report::{Account, Leaving};

/// What is known about a job that has ended.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) world: usize,
    pub(super) placement: Placement,
    pub(super) name: &'a str,
    pub(super) accounts: Vec<Option<Account>>,
    /// Whether a launcher started the ranks: it exits like the ranks, and their own exits are unknown.
    pub(super) launched: bool,
    /// How each process ended: one per rank, or one for all.
    pub(super) exits: Vec<Option<Exit>>,
    pub(super) timed_out: bool,
}

/// Lists what is wrong; an empty list is a pass.
pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    if evidence.timed_out {
        problems.push("the job did not end in time and was ended by the driver".to_owned());
    }
    for (rank, account) in evidence.accounts.iter().enumerate() {
        match account {
            Some(account) => {
                let ordered = format!("rank {rank} of {} in {}", evidence.world, evidence.name);
                let mut wrong = self_report(account, rank, evidence.world, &ordered);
                wrong.extend(ending(account, evidence.placement));
                problems.extend(wrong.into_iter().map(|text| format!("rank {rank} {text}")));
            }
            None => problems.push(format!("rank {rank} never reported")),
        }
    }
    problems.extend(exits(evidence));
    problems
}

fn self_report(account: &Account, rank: usize, world: usize, ordered: &str) -> Vec<String> {
    let mut wrong: Vec<String> = account
        .failed
        .iter()
        .map(|message| format!("failed: {message}"))
        .collect();
    if account.greeting != ordered {
        wrong.push(format!(
            "reported '{}' instead of '{ordered}'",
            account.greeting
        ));
    }
    if account.opened.is_empty() && wrong.is_empty() {
        wrong.push("never opened a communicator".to_owned());
    }
    for &(opened, size) in &account.opened {
        if (opened, size) != (rank, world) {
            wrong.push(format!(
                "opened as rank {opened} of {size}, ordered {ordered}"
            ));
        }
    }
    wrong
}

/// Checks that a rank finished, or left as it announced, but not both.
fn ending(account: &Account, placement: Placement) -> Option<String> {
    let unwound = account.panicked || placement == Placement::Threads;
    match (account.finished, account.leaving) {
        (true, Some(how)) => Some(format!("finished after announcing {how:?}")),
        (false, Some(Leaving::Panic)) if !unwound => Some("did not unwind".to_owned()),
        (false, None) if account.failed.is_empty() => Some("never finished".to_owned()),
        (true | false, _) => None,
    }
}

/// Compares the exits of the processes with what the ranks announced.
fn exits(evidence: &Evidence<'_>) -> Vec<String> {
    let announced = |rank: usize| evidence.accounts.get(rank)?.as_ref()?.leaving;
    let wanted = |process: usize| match evidence.placement {
        Placement::Processes => match announced(process) {
            Some(Leaving::Signal(signal)) => Exit::Signal(signal),
            Some(Leaving::Code(code)) => Exit::Code(code),
            Some(Leaving::Panic) => Exit::Code(101),
            None => Exit::Code(0),
        },
        // An exit code that one thread announces is that of the process.
        Placement::Threads => (0..evidence.world)
            .filter_map(announced)
            .find_map(|how| match how {
                Leaving::Code(code) => Some(Exit::Code(code)),
                Leaving::Signal(signal) => Some(Exit::Signal(signal)),
                Leaving::Panic => None,
            })
            .unwrap_or(Exit::Code(0)),
    };
    let processes = match evidence.placement {
        Placement::Processes if !evidence.launched => evidence.world,
        Placement::Processes | Placement::Threads => 1,
    };
    (0..processes)
        .filter_map(|process| {
            let (wanted, got) = (
                wanted(process),
                evidence.exits.get(process).copied().flatten(),
            );
            match got {
                Some(got) if got == wanted => None,
                // If several ranks exit at once, the launcher may return the code of any of them.
                Some(got) if evidence.launched && !wanted.success() && !got.success() => None,
                Some(got) => Some(format!("process {process} ended with {got}, not {wanted}")),
                None => Some(format!("it is unknown how process {process} ended")),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
