//! Wrong uses of a gathered region, and their effects.

use std::thread;

use comm_api::{CommError, Communicator, FailureKind, SharedMemoryProvider, SharedRegion};
use rustix::process::{Signal, getpid, kill_process};

use crate::case::{Case, Verdict};
use crate::clause::Clause::{C8, C10, C11, C12, C13, C15};
use crate::model::Need;
use crate::report::Leaving;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::regions::panic_of;
use crate::suite::{fails, still_works, words};

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("gathered::misuse_names_the_right_call", &[C15], |run| {
            misuse_names_the_right_call(run, &run.open::<S>()?)
        }),
        Case::new("gathered::one_rank_is_refused", &[C11, C15], |run| {
            one_rank_is_refused(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("gathered::of_another_communicator", &[C11, C15], |run| {
            of_another_communicator::<S>(run)
        })
        .needs(Need::SeveralOpens),
        Case::new("gathered::two_threads", &[C8, C15], |run| {
            two_threads(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("gathered::different_regions", &[C10, C13, C15], |run| {
            different_regions(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("gathered::a_barrier_instead", &[C10, C13, C15], |run| {
            a_barrier_instead(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new("gathered::a_dropped_handle", &[C12, C15], |run| {
            a_dropped_handle(run, run.open::<S>()?)
        })
        .at_least(2),
        Case::new(
            "gathered::an_exchange_hears_of_a_kill",
            &[C12, C15],
            |run| an_exchange_hears::<S>(run, true),
        )
        .at_least(2)
        .needs(Need::Processes)
        .deaths(),
        Case::new(
            "gathered::an_exchange_hears_of_a_panic",
            &[C12, C15],
            |run| an_exchange_hears::<S>(run, false),
        )
        .at_least(2)
        .deaths(),
    ]
}

/// Checks that this rank itself refused a call; returns the message.
#[track_caller]
fn own_refusal(run: &Run, what: &str, result: Result<(), CommError>) -> String {
    fails(what, result, FailureKind::Refused, run.rank)
}

/// All ranks make the same mistake: each gets an error that names the right call, and nothing is lost.
fn misuse_names_the_right_call<C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
) -> Verdict {
    run.at(format_args!("misuse of a gathered region"));
    let mut region = comm.create_gathered_region::<u32>(2)?;
    let text = panic_of("as_slice while writing", || region.as_slice().len());
    assert!(text.contains("exchange"), "{text}");
    region.as_mut_slice().fill(7);
    let text = own_refusal(run, "a fence while writing", region.fence());
    assert!(text.contains("exchange()"), "{text}");
    assert_eq!(region.as_mut_slice(), [7; 2]);
    comm.exchange(&mut region)?;
    let text = own_refusal(run, "an exchange while reading", comm.exchange(&mut region));
    assert!(text.contains("fence()"), "{text}");
    let text = panic_of("as_mut_slice while reading", || region.as_mut_slice().len());
    assert!(text.contains("fence"), "{text}");
    assert_eq!(region.as_slice(), vec![7; 2 * run.size()]);
    region.fence()?;

    for mut other in [
        comm.create_shared_region::<u32>(2)?,
        comm.create_partitioned_region::<u32>(2)?,
    ] {
        let text = own_refusal(
            run,
            "an exchange of another kind",
            comm.exchange(&mut other),
        );
        assert!(text.contains("fence()"), "{text}");
        other.as_mut_slice();
        other.fence()?;
        own_refusal(run, "the same while reading", comm.exchange(&mut other));
        other.as_slice();
    }
    comm.exchange(&mut region)?;
    assert_eq!(region.as_slice(), vec![7; 2 * run.size()]);
    still_works(run, comm)
}

/// The others get an error that names the refusing rank and the reason. The phase continues on all ranks, and
/// what they wrote is still there.
fn one_rank_is_refused<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let mut region = comm.create_gathered_region::<usize>(3)?;
    let mut wrong = comm.create_partitioned_region::<usize>(1)?;
    for culprit in 0..run.size() {
        run.at(format_args!("rank {culprit} exchanges another kind"));
        region.as_mut_slice().fill(10 * culprit + run.rank);
        for _ in 0..3 {
            if run.rank == culprit {
                let refused = comm.exchange(&mut wrong);
                own_refusal(run, "another kind of region", refused);
            } else {
                let told = comm.exchange(&mut region);
                let message = fails("a refused exchange", told, FailureKind::Refused, culprit);
                let reason = "the ranks of one node share this region";
                assert!(message.contains(reason), "{message}");
                words::refused(refusal_in(&message), &message);
            }
            // The phase continues: this part is writable, and no rank reads it yet.
            region.as_mut_slice()[1] += 1;
        }
        comm.exchange(&mut region)?;
        let part = |rank: usize| [10 * culprit + rank; 3];
        let mut wanted: Vec<usize> = (0..run.size()).flat_map(part).collect();
        wanted.iter_mut().skip(1).step_by(3).for_each(|x| *x += 3);
        assert_eq!(
            region.as_slice(),
            wanted,
            "after refusals of rank {culprit}"
        );
        region.fence()?;
        still_works(run, comm)?;
    }
    Ok(())
}

/// Returns the reason inside the message of a refusal.
fn refusal_in(message: &str) -> &str {
    let start = message.find(": ").map_or(0, |at| at + 2);
    let end = message
        .rfind("; no data was exchanged")
        .unwrap_or(message.len());
    &message[start..end]
}

/// A region belongs to the communicator that created it, regardless of the ranks of that communicator.
fn of_another_communicator<S: Subject>(run: &Run) -> Verdict {
    let (one, other) = (run.open::<S>()?, run.open_seat::<S>(&run.seat("other"))?);
    let mut region = one.create_gathered_region::<u64>(1)?;
    let mut twin = other.create_gathered_region::<u64>(1)?;
    if run.size() == 1 && S::MODEL.worlds == crate::model::Worlds::One {
        // A single-rank job has one communicator, however often it is opened.
        other.exchange(&mut region)?;
        return Ok(());
    }
    run.at(format_args!("exchanging a region of another communicator"));
    let text = own_refusal(run, "another communicator", other.exchange(&mut region));
    assert!(text.contains("another communicator"), "{text}");
    if run.size() > 1 {
        let culprit = run.size() - 1;
        run.at(format_args!(
            "rank {culprit} takes the region of another communicator"
        ));
        if run.rank == culprit {
            own_refusal(run, "of another one", other.exchange(&mut region));
        } else {
            let told = other.exchange(&mut twin);
            fails("another rank", told, FailureKind::Refused, culprit);
        }
    }
    region.as_mut_slice().fill(run.rank as u64);
    one.exchange(&mut region)?;
    other.exchange(&mut twin)?;
    let wanted: Vec<u64> = (0..run.size() as u64).collect();
    assert_eq!(region.as_slice(), wanted);
    // A region outlives the communicator that created it, and still no other communicator can exchange it.
    region.fence()?;
    drop(one);
    own_refusal(run, "of one that is gone", other.exchange(&mut region));
    region.as_mut_slice();
    still_works(run, &other)
}

/// Two threads exchange a region each: the second is refused, and its region stays unchanged.
fn two_threads<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let mut regions = [
        comm.create_gathered_region::<usize>(1)?,
        comm.create_gathered_region::<usize>(1)?,
    ];
    for busy in 0..run.size() {
        let key = format!("refused-{busy}");
        for (index, region) in regions.iter_mut().enumerate() {
            region.as_mut_slice().fill(run.rank + index + busy);
        }
        let refused = if run.rank == busy {
            run.at(format_args!("two threads in two exchanges"));
            let results: Vec<Result<(), CommError>> = thread::scope(|scope| {
                let call = |(index, region)| {
                    let key = &key;
                    scope.spawn(move || {
                        let result = comm.exchange(region);
                        if result.is_err() {
                            // No other rank enters before, so the other thread cannot get out.
                            let _ = run.post(key, &usize::to_string(&index));
                        }
                        result
                    })
                };
                let threads: Vec<_> = regions.iter_mut().enumerate().map(call).collect();
                let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
                joined
                    .map(|result| result.unwrap_or_else(|_| panic!("an exchange panicked")))
                    .collect()
            });
            let refused = results.iter().position(Result::is_err).unwrap_or(0);
            own_refusal(run, "the second thread", results[refused].clone());
            results[1 - refused].clone()?;
            refused
        } else {
            let refused: usize = run.wait(busy, &key)?.parse()?;
            comm.exchange(&mut regions[1 - refused])?;
            refused
        };
        run.at(format_args!("the exchange that was refused, again"));
        comm.exchange(&mut regions[refused])?;
        for (index, region) in regions.iter_mut().enumerate() {
            let wanted: Vec<usize> = (0..run.size()).map(|rank| rank + index + busy).collect();
            assert_eq!(
                region.as_slice(),
                wanted,
                "region {index}, rank {busy} busy"
            );
            region.fence()?;
        }
    }
    Ok(())
}

/// Checks that a handle is unusable, and that its errors say so.
fn broken<C: Communicator + SharedMemoryProvider>(
    comm: &C,
    region: &mut C::Region<u64>,
    kind: FailureKind,
    rank: usize,
) {
    let text = panic_of("as_slice of a broken handle", || region.as_slice().len());
    assert!(text.contains("create another"), "{text}");
    let text = panic_of("as_mut_slice of a broken handle", || {
        region.as_mut_slice().len()
    });
    assert!(text.contains("create another"), "{text}");
    fails("a fence after that", region.fence(), kind, rank);
    fails("an exchange after that", comm.exchange(region), kind, rank);
    fails("a barrier after that", comm.barrier(), kind, rank);
}

/// The ranks exchange regions that are alike in everything except their creation.
fn different_regions<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let mut one = comm.create_gathered_region::<u64>(4)?;
    let mut other = comm.create_gathered_region::<u64>(4)?;
    comm.exchange(&mut one)?;
    comm.exchange(&mut other)?;
    one.fence()?;
    other.fence()?;
    let odd = run.size() - 1;
    run.at(format_args!("rank {odd} exchanges another region"));
    let mine = if run.rank == odd {
        &mut other
    } else {
        &mut one
    };
    let result = comm.exchange(mine);
    let message = fails("different regions", result, FailureKind::Mismatch, odd);
    assert!(message.contains("exchange(region "), "{message}");
    broken(comm, mine, FailureKind::Mismatch, odd);
    Ok(())
}

/// An exchange is a collective of the communicator: if one rank enters a barrier instead, it gets an error,
/// and so do the others.
fn a_barrier_instead<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let mut region = comm.create_gathered_region::<u64>(4)?;
    let odd = run.size() / 2;
    let lowest = odd.max(1);
    run.at(format_args!(
        "rank {odd} enters a barrier instead of an exchange"
    ));
    let result = if run.rank == odd {
        comm.barrier()
    } else {
        comm.exchange(&mut region)
    };
    let message = fails("a barrier instead", result, FailureKind::Mismatch, lowest);
    assert!(
        message.contains("barrier") && message.contains("exchange(region "),
        "{message}"
    );
    if run.rank != odd {
        broken(comm, &mut region, FailureKind::Mismatch, lowest);
    }
    Ok(())
}

/// A rank that dropped everything has skipped a collective.
fn a_dropped_handle<C: Communicator + SharedMemoryProvider>(run: &Run, comm: C) -> Verdict {
    let mut region = comm.create_gathered_region::<u64>(1)?;
    let gone = run.size() / 2;
    if run.rank == gone {
        drop(region);
        drop(comm);
        run.at(format_args!("waiting for the others to be told"));
        run.wait_all(run.others(), "told")?;
        return Ok(());
    }
    run.at(format_args!("in an exchange that rank {gone} dropped"));
    let result = comm.exchange(&mut region);
    fails("a dropped handle", result, FailureKind::PeerLost, gone);
    broken(&comm, &mut region, FailureKind::PeerLost, gone);
    run.post("told", "")
}

/// The middle rank goes while the others are in an exchange.
fn an_exchange_hears<S: Subject>(run: &Run, killed: bool) -> Verdict {
    let comm = run.open::<S>()?;
    let mut region = comm.create_gathered_region::<u64>(100)?;
    comm.exchange(&mut region)?;
    region.fence()?;
    let victim = run.size() / 2;
    if run.rank == victim {
        let kill = Leaving::Signal(Signal::KILL.as_raw());
        run.leaving(if killed { kill } else { Leaving::Panic });
        run.wait_all(run.others(), "entering")?;
        if killed {
            kill_process(getpid(), Signal::KILL)?;
        }
        panic!("the rank that is meant to panic");
    }
    run.post("entering", "")?;
    run.at(format_args!("in an exchange without rank {victim}"));
    let result = comm.exchange(&mut region);
    fails("exchange", result, FailureKind::PeerLost, victim);
    broken(&comm, &mut region, FailureKind::PeerLost, victim);
    Ok(())
}
