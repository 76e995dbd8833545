//! The same bits, always: random programs compared with the reference, and recorded results.

use std::thread;

use comm_api::{Communicator, ReduceOp, SharedMemoryProvider};

use crate::case::{Case, Verdict};
use crate::clause::Clause::{self, C2, C3, C4, C6, C11};
use crate::driver::PROGRAMS;
use crate::model::Worlds;
use crate::noise::{Noise, mix, same};
use crate::program::Program;
use crate::reference::Reference;
use crate::run::Run;
use crate::subject::{Failure, Subject};

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    // Programs contain refusals. A single rank has no other rank to notify, but the outcome is the same.
    let clauses: &'static [Clause] = match S::MODEL.worlds {
        Worlds::One => &[C2, C3, C4, C6],
        Worlds::Any => &[C2, C3, C4, C6, C11],
    };
    vec![
        Case::new("determinism::random_programs", clauses, |run| {
            random_programs(run, &run.open::<S>()?)
        }),
        Case::new("determinism::written_down", clauses, |run| {
            written_down(run, &run.open::<S>()?)
        }),
        Case::new("determinism::cut_into_pieces", &[C3], |run| {
            cut_into_pieces(run, &run.open::<S>()?)
        }),
    ]
}

/// Runs programs drawn from seeds; rank 0 then runs them on the reference and compares the transcripts of all
/// ranks, which arrive over the notice board.
fn random_programs<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let (first, count) = (run.orders.seed, run.orders.programs);
    let seeds = || (0..count).map(|index| first.wrapping_add(index as u64));
    let mut mine = String::new();
    for seed in seeds() {
        let program = Program::draw(seed, run.size());
        let transcript = program.run(comm, |step| {
            run.at(format_args!("program {seed}, {step}"));
        })?;
        mine.push_str(&words(&transcript));
        mine.push('\n');
    }
    run.post("transcripts", &mine)?;
    if run.rank > 0 {
        return Ok(());
    }
    let ranks: Result<Vec<String>, Failure> = (0..run.size())
        .map(|rank| run.wait(rank, "transcripts"))
        .collect();
    let ranks = ranks?;
    let mut lines: Vec<_> = ranks.iter().map(|text| text.lines()).collect();
    for seed in seeds() {
        let program = Program::draw(seed, run.size());
        let wanted = on_the_reference(&program, run.size())?;
        for (rank, (lines, wanted)) in lines.iter_mut().zip(&wanted).enumerate() {
            let got = lines.next().unwrap_or_default();
            compare(&program, seed, rank, got, &words(wanted))?;
        }
    }
    let hash = ranks
        .iter()
        .fold(0, |hash, text| mix(hash, text.as_bytes()));
    let written = RANDOM.iter().find(|(world, _)| *world == run.size());
    if let (Some((_, written)), (1, PROGRAMS)) = (written, (first, count))
        && cfg!(target_endian = "little")
    {
        assert_eq!(hash, *written, "{hash:#x} is not what was written down");
    }
    Ok(())
}

/// The hash of all transcripts of all ranks of the default programs, in worlds of 1, 2, 3, 4 and 8 ranks. It
/// is the same on every backend and must never change; for little-endian machines.
const RANDOM: [(usize, u64); 5] = [
    (1, 0xa1d7_11b2_8da6_6de2),
    (2, 0xcdec_3e72_b944_c66b),
    (3, 0xfa61_7a72_7437_c5bc),
    (4, 0xb775_df8c_1de3_bc11),
    (8, 0x73de_2c6b_5688_f4d8),
];

fn words(transcript: &[u64]) -> String {
    let words: Vec<String> = transcript.iter().map(|hash| format!("{hash:x}")).collect();
    words.join(" ")
}

fn compare(program: &Program, seed: u64, rank: usize, got: &str, wanted: &str) -> Verdict {
    let differs = |(got, wanted): (&str, &str)| got != wanted;
    if got == wanted {
        return Ok(());
    }
    let at = got.split(' ').zip(wanted.split(' ')).position(differs);
    let step = at.map_or("nothing".to_owned(), |at| program.step(at));
    let message = format!(
        "rank {rank} differs from the reference after: {step}; \
         to see it alone: --case random_programs --random 1 --seed {seed}"
    );
    Err(message.into())
}

/// Returns the transcript of every rank, from threads on the reference.
fn on_the_reference(program: &Program, size: usize) -> Result<Vec<Vec<u64>>, Failure> {
    let name = "the reference of random programs";
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                scope.spawn(move || {
                    let comm = Reference::open(name, rank, size, None)?;
                    program.run(&comm, |_| {})
                })
            })
            .collect();
        ranks
            .into_iter()
            .map(|rank| match rank.join() {
                Ok(transcript) => Ok(transcript?),
                Err(_) => Err("the reference panicked".into()),
            })
            .collect()
    })
}

/// The results of the program of this seed on rank 0, in worlds of 1, 2, 3, 4 and 8 ranks. They are the same
/// on every backend and must never change; for little-endian machines.
const WRITTEN: [(usize, u64); 5] = [
    (1, 0xab35_385d_e422_889d),
    (2, 0xc5ef_34ff_31f7_27bd),
    (3, 0xfa32_ff59_9aba_619c),
    (4, 0xa9f5_98a5_06ee_8af3),
    (8, 0x13de_1202_eb05_5d28),
];

fn written_down<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let program = Program::draw(20_260_101, run.size());
    let once = program.run(comm, |step| run.at(format_args!("once: {step}")))?;
    let twice = program.run(comm, |step| run.at(format_args!("twice: {step}")))?;
    assert_eq!(once, twice, "the same program on the same communicator");
    let hash = once
        .iter()
        .fold(0, |hash, step| mix(hash, &step.to_le_bytes()));
    let written = WRITTEN.iter().find(|(world, _)| *world == run.size());
    if let (Some((_, written)), 0, true) = (written, run.rank, cfg!(target_endian = "little")) {
        assert_eq!(hash, *written, "{hash:#x} is not what was written down");
    }
    Ok(())
}

/// A reduction does not depend on how the buffer is cut.
fn cut_into_pieces<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let len = 30_011;
    let mut noise = Noise::new(23, &[run.rank]);
    let send: Vec<f64> = (0..len)
        .map(|_| noise.pick(&[1e300, -1e300, 1.0, 0.1, 1e-3, 7e17, -3.3]))
        .collect();
    let mut whole = vec![0.0; len];
    run.at(format_args!("all at once"));
    comm.allreduce(&send, &mut whole, ReduceOp::Sum)?;
    let mut cut = Noise::new(29, &[]);
    for most in [3, 300, 9000] {
        let mut pieces = vec![0.0; len];
        let mut done = 0;
        while done < len {
            let end = len.min(done + 1 + cut.below(most * 10));
            run.at(format_args!("elements {done} to {end}"));
            comm.allreduce(&send[done..end], &mut pieces[done..end], ReduceOp::Sum)?;
            done = end;
        }
        same("cut into pieces", &pieces, &whole);
    }
    Ok(())
}
