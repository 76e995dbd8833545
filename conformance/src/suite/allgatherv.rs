//! Allgatherv: C2.

use comm_api::{CommData, Communicator};

use super::elements::{CacheLine, Cut, Nothing, Triple};
use super::nobody_leaves_early;
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C2, C7};
use crate::model::Need;
use crate::noise::{Noise, input, same};
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("allgatherv::uneven_blocks", &[C2], |run| {
            let comm = run.open::<S>()?;
            layouts::<u8, _>(run, &comm, 40)?;
            layouts::<f64, _>(run, &comm, 40)
        }),
        Case::new("allgatherv::every_element", &[C2], |run| {
            let comm = run.open::<S>()?;
            layouts::<u16, _>(run, &comm, 10)?;
            layouts::<Cut, _>(run, &comm, 10)?;
            layouts::<Triple, _>(run, &comm, 10)?;
            layouts::<Nothing, _>(run, &comm, 10)?;
            layouts::<CacheLine, _>(run, &comm, 10)
        }),
        Case::new("allgatherv::nothing_at_all", &[C2], |run| {
            let comm = run.open::<S>()?;
            gather::<u64, _>(run, &comm, &Layout::new(0, run, |_| 0, 0))?;
            gather::<u64, _>(run, &comm, &Layout::new(1, run, |_| 0, 5))
        }),
        Case::new("allgatherv::one_rank_has_all", &[C2], |run| {
            let comm = run.open::<S>()?;
            for owner in 0..run.size() {
                let count = |rank| if rank == owner { 9_001 } else { 0 };
                gather::<f32, _>(run, &comm, &Layout::new(owner, run, count, 3))?;
            }
            Ok(())
        }),
        Case::new("allgatherv::large_blocks", &[C2, C7], |run| {
            let comm = run.open::<S>()?;
            let count = |rank| 600_000 / run.size() + 17 * rank;
            gather::<f64, _>(run, &comm, &Layout::new(3, run, count, 2))?;
            let lopsided = |rank| {
                if rank == run.size() / 2 {
                    4_200_001
                } else {
                    rank
                }
            };
            gather::<u8, _>(run, &comm, &Layout::new(4, run, lopsided, 1))
        }),
        Case::new("allgatherv::empty_blocks_inside_others", &[C2], |run| {
            let comm = run.open::<S>()?;
            for (round, len) in [5, 20_000, 600_000].into_iter().enumerate() {
                for owner in 0..run.size() {
                    // Valid, because an empty block covers nothing: the other blocks lie in the middle of the
                    // non-empty one.
                    let count = |rank| if rank == owner { len } else { 0 };
                    let mut layout = Layout::new(round, run, count, 3);
                    let start = layout.displs[owner];
                    for rank in (0..run.size()).filter(|&rank| rank != owner) {
                        layout.displs[rank] = start + len / 2;
                    }
                    gather::<f64, _>(run, &comm, &layout)?;
                }
            }
            Ok(())
        }),
        Case::new("allgatherv::nobody_leaves_early", &[C2], |run| {
            let comm = run.open::<S>()?;
            let (ones, displs) = (vec![1; run.size()], (0..run.size()).collect::<Vec<_>>());
            let mut recv = vec![0; run.size()];
            nobody_leaves_early(run, "small", |_| {
                comm.allgatherv(&[run.rank], &mut recv, &ones, &displs)
            })?;
            let len = 600_000 / run.size();
            let (counts, displs) = (
                vec![len; run.size()],
                (0..run.size()).map(|rank| rank * len).collect::<Vec<_>>(),
            );
            let (send, mut recv) = (vec![0_u64; len], vec![0; len * run.size()]);
            nobody_leaves_early(run, "large", |_| {
                comm.allgatherv(&send, &mut recv, &counts, &displs)
            })
        }),
        Case::new("allgatherv::the_empty_synchronise_too", &[C2], |run| {
            let comm = run.open::<S>()?;
            let zeros = vec![0; run.size()];
            nobody_leaves_early(run, "empty", |_| {
                comm.allgatherv::<u64>(&[], &mut [], &zeros, &zeros)
            })
        })
        .needs(Need::Synchronising),
    ]
}

/// Places blocks: counts agree between the ranks, displacements are local to this rank.
struct Layout {
    round: usize,
    counts: Vec<usize>,
    displs: Vec<usize>,
    len: usize,
}

impl Layout {
    /// Shuffles the blocks into an order specific to this rank, with up to `gap` elements between them.
    fn new(round: usize, run: &Run, count: impl Fn(usize) -> usize, gap: usize) -> Self {
        let counts: Vec<usize> = (0..run.size()).map(count).collect();
        let mut noise = Noise::new(11, &[round, run.rank]);
        let mut order: Vec<usize> = (0..run.size()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, noise.below(at + 1));
        }
        let mut displs = vec![0; run.size()];
        let mut end = 0;
        for rank in order {
            end += noise.below(gap + 1);
            displs[rank] = end;
            end += counts[rank];
        }
        let len = end + noise.below(gap + 1);
        Self {
            round,
            counts,
            displs,
            len,
        }
    }
}

fn layouts<T: CommData, C: Communicator>(run: &Run, comm: &C, rounds: usize) -> Verdict {
    for round in 0..rounds {
        let scale = [1, 3, 20, 700][round % 4];
        let count = |rank| Noise::new(13, &[round, rank]).below(scale + 1);
        gather::<T, C>(run, comm, &Layout::new(round, run, count, round % 4))?;
    }
    Ok(())
}

/// Gathers, and compares all of `recv`: the blocks, and the gaps, which must stay unchanged.
fn gather<T: CommData, C: Communicator>(run: &Run, comm: &C, layout: &Layout) -> Verdict {
    let Layout {
        round,
        counts,
        displs,
        len,
    } = layout;
    let what = format!(
        "allgatherv {round} of {counts:?} x {} bytes at {displs:?}",
        size_of::<T>()
    );
    run.at(format_args!("{what}"));
    let send = input::<T>(*round, run.rank, counts[run.rank]);
    let mut recv = input::<T>(*round, usize::MAX, *len);
    let mut expected = recv.clone();
    for rank in 0..run.size() {
        let block = input::<T>(*round, rank, counts[rank]);
        expected[displs[rank]..displs[rank] + counts[rank]].copy_from_slice(&block);
    }
    comm.allgatherv(&send, &mut recv, counts, displs)?;
    same(&what, &recv, &expected);
    Ok(())
}
