//! Refusals: the messages of the argument checks, and C11, the errors of the other ranks.

mod arguments;
mod bytes;

use std::time::Duration;

use comm_api::{
    Argument, CommError, Communicator, CommunicatorExt, FailureKind, Operation, ReduceOp,
};

use super::{fails, kind_and_rank, still_works, words};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C2, C3, C4, C11};
use crate::run::Run;
use crate::subject::Subject;
use arguments::Wrong;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("refusals::the_words", &[C2, C3, C4], |run| {
            the_words(run, &run.open::<S>()?)
        }),
        Case::new("refusals::bytes_that_make_no_sense", &[C2, C3, C4], |run| {
            bytes::make_no_sense(run, &run.open::<S>()?)
        }),
        Case::new("refusals::bytes_of_one_rank_make_no_sense", &[C11], |run| {
            bytes::of_one_rank_make_no_sense(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("refusals::one_rank_is_wrong", &[C11], |run| {
            one_rank_is_wrong(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("refusals::the_wrong_rank_does_not_wait", &[C11], |run| {
            the_wrong_rank_does_not_wait(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("refusals::several_in_a_row", &[C11], |run| {
            several_in_a_row(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("refusals::far_ahead_of_the_others", &[C11], |run| {
            far_ahead_of_the_others(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("refusals::all_far_ahead_of_one", &[C11], |run| {
            all_far_ahead_of_one(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("refusals::two_ranks_are_wrong", &[C11], |run| {
            two_ranks_are_wrong(run, &run.open::<S>()?)
        })
        .at_least(3),
        Case::new("refusals::among_large_calls", &[C11], |run| {
            among_large_calls(run, &run.open::<S>()?)
        })
        .at_least(2),
    ]
}

/// All ranks make the same mistake, so every backend returns the same error, and stays usable.
fn the_words<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for wrong in Wrong::ALL {
        run.at(format_args!("{wrong:?} on all ranks"));
        let expected = wrong.error(run.size());
        assert_eq!(wrong.call(comm, true), Err(expected), "{wrong:?}");
        wrong.call(comm, false)?;
    }
    still_works(run, comm)
}

fn one_rank_is_wrong<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for (round, wrong) in Wrong::ALL.into_iter().enumerate() {
        expect(run, comm, wrong, round % run.size());
        still_works(run, comm)?;
    }
    Ok(())
}

/// Calls a collective wrongly on rank `culprit`: that rank gets its own error, and the others are notified.
fn expect<C: Communicator>(run: &Run, comm: &C, wrong: Wrong, culprit: usize) {
    let what = format!("{wrong:?} on rank {culprit}");
    run.at(format_args!("{what}"));
    let result = wrong.call(comm, run.rank == culprit);
    let error = wrong.error(run.size());
    if run.rank == culprit {
        assert_eq!(result, Err(error), "{what}");
    } else {
        told(&what, result, culprit, &error.to_string());
    }
}

/// Checks the error of an innocent rank: which rank refused, and why.
fn told(what: &str, result: Result<(), CommError>, culprit: usize, reason: &str) {
    let message = fails(what, result, FailureKind::Refused, culprit);
    words::refused(reason, &message);
}

/// The others enter only after the refusing rank has returned.
fn the_wrong_rank_does_not_wait<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for culprit in 0..run.size() {
        let key = format!("returned-{culprit}");
        if run.rank != culprit {
            run.wait(culprit, &key)?;
        }
        expect(run, comm, Wrong::Root, culprit);
        if run.rank == culprit {
            run.post(&key, "")?;
        }
        still_works(run, comm)?;
    }
    Ok(())
}

/// Each refusal takes one position in the sequence on all ranks: none is lost, none is seen twice.
fn several_in_a_row<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for culprit in 0..run.size() {
        for wrong in Wrong::ALL {
            expect(run, comm, wrong, culprit);
        }
        still_works(run, comm)?;
    }
    for (round, wrong) in Wrong::ALL.into_iter().cycle().take(200).enumerate() {
        expect(run, comm, wrong, (round / 3) % run.size());
    }
    still_works(run, comm)
}

/// How many calls a rank refuses that runs ahead: more than any backend keeps for late ranks.
const AHEAD: usize = 1000;

/// By how much the others are late. Not a synchronisation: without it this is a case like the others.
const LATE: Duration = Duration::from_millis(200);

/// A rank refuses one call after the other while the others are late. It may have to wait for them at some
/// point, and they see every refusal, though not always the reason, since a backend may keep only the last
/// one.
fn far_ahead_of_the_others<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let culprit = run.size() - 1;
    if run.rank != culprit {
        run.wait(culprit, "ahead")?;
        std::thread::sleep(LATE);
    }
    for (round, wrong) in Wrong::ALL.into_iter().cycle().take(AHEAD).enumerate() {
        let what = format!("{wrong:?} on rank {culprit}, refusal {round}");
        run.at(format_args!("{what}"));
        let result = wrong.call(comm, run.rank == culprit);
        if run.rank == culprit {
            assert_eq!(result, Err(wrong.error(run.size())), "{what}");
        } else {
            fails(&what, result, FailureKind::Refused, culprit);
        }
        if run.rank == culprit && round == 3 {
            run.post("ahead", "")?;
        }
    }
    still_works(run, comm)
}

/// All ranks except one refuse, and wait for that one: no rank waits for another that is as far.
fn all_far_ahead_of_one<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let late = run.size() - 1;
    if run.rank == late {
        run.wait(0, "ahead")?;
        std::thread::sleep(LATE);
    }
    for (round, wrong) in Wrong::ALL.into_iter().cycle().take(AHEAD).enumerate() {
        run.at(format_args!("{wrong:?} on all but rank {late}, {round}"));
        // The late rank is right in every other round, so that all ranks can be wrong, too.
        let is_wrong = run.rank != late || round % 2 == 0;
        let result = wrong.call(comm, is_wrong);
        if is_wrong {
            assert_eq!(result, Err(wrong.error(run.size())));
        } else {
            let (kind, rank, message) = kind_and_rank("all but one refuse", result);
            assert_eq!(kind, FailureKind::Refused, "{message}");
            assert!(rank.is_some_and(|rank| rank < late), "{message}");
        }
        if run.rank == 0 && round == 3 {
            run.post("ahead", "")?;
        }
    }
    still_works(run, comm)
}

/// The ranks with valid arguments all get the same refusal.
fn two_ranks_are_wrong<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let culprits = [0, run.size() - 1];
    for wrong in Wrong::ALL {
        run.at(format_args!("{wrong:?} on ranks {culprits:?}"));
        let guilty = culprits.contains(&run.rank);
        let result = wrong.call(comm, guilty);
        let mut blamed = usize::MAX;
        if guilty {
            assert_eq!(result, Err(wrong.error(run.size())));
        } else {
            let (kind, rank, message) = kind_and_rank("two refusals", result);
            assert_eq!(kind, FailureKind::Refused, "{message}");
            blamed = rank.unwrap_or(usize::MAX);
            assert!(culprits.contains(&blamed), "{message}");
        }
        let mut all = vec![0; run.size()];
        comm.allgather(&[blamed], &mut all)?;
        let innocent = &all[1..run.size() - 1];
        assert!(
            innocent.iter().all(|&rank| rank == innocent[0]),
            "{innocent:?}"
        );
    }
    Ok(())
}

/// Even where other ranks would have begun to send pieces, they see a refusal in that call.
fn among_large_calls<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let len = 300_000;
    let (send, mut recv) = (vec![run.rank; len], vec![0; len]);
    for culprit in 0..run.size() {
        run.at(format_args!("a large allreduce, wrong on rank {culprit}"));
        let until = if run.rank == culprit { len - 1 } else { len };
        let result = comm.allreduce(&send, &mut recv[..until], ReduceOp::Max);
        let error =
            CommError::invalid_buffer_size(Operation::Allreduce, Argument::Recv, len, len - 1);
        if run.rank == culprit {
            assert_eq!(result, Err(error));
        } else {
            told("a large allreduce", result, culprit, &error.to_string());
        }
        run.at(format_args!("a large allreduce that is right"));
        comm.allreduce(&send, &mut recv, ReduceOp::Max)?;
        assert!(recv.iter().all(|&max| max == run.size() - 1));
    }
    Ok(())
}
