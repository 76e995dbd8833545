//! Broadcast: C4.

use comm_api::{CommData, Communicator};

use super::elements::{CacheLine, Cut, Nothing, Pages, Triple};
use super::nobody_leaves_early;
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C4, C7};
use crate::model::Need;
use crate::noise::{input, same};
use crate::run::Run;
use crate::subject::Subject;

/// Lengths around small payloads and cache lines, and one of about a megabyte.
const LENGTHS: [usize; 9] = [0, 1, 2, 7, 8, 9, 63, 1000, 40_001];

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("broadcast::every_root", &[C4, C7], |run| {
            let comm = run.open::<S>()?;
            every_root::<u8, _>(run, &comm)?;
            every_root::<f64, _>(run, &comm)
        }),
        Case::new("broadcast::every_element", &[C4], |run| {
            let comm = run.open::<S>()?;
            every_root::<u16, _>(run, &comm)?;
            every_root::<Cut, _>(run, &comm)?;
            every_root::<Triple, _>(run, &comm)?;
            every_root::<Nothing, _>(run, &comm)?;
            of_length::<CacheLine, _>(run, &comm, 33, 0)?;
            of_length::<Pages, _>(run, &comm, 5, run.size() - 1)
        }),
        Case::new("broadcast::nobody_leaves_early", &[C4], |run| {
            let comm = run.open::<S>()?;
            for root in 0..run.size() {
                nobody_leaves_early(run, &format!("broadcast-{root}"), |_| {
                    comm.broadcast(&mut [run.rank], root)
                })?;
            }
            let mut large = vec![0_u64; 600_000];
            nobody_leaves_early(run, "large", |late| comm.broadcast(&mut large, late))
        })
        .needs(Need::Synchronising),
    ]
}

fn every_root<T: CommData, C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for len in LENGTHS {
        for root in 0..run.size() {
            of_length::<T, C>(run, comm, len, root)?;
        }
    }
    Ok(())
}

fn of_length<T: CommData, C: Communicator>(
    run: &Run,
    comm: &C,
    len: usize,
    root: usize,
) -> Verdict {
    let what = format!("broadcast of {len} x {} bytes from {root}", size_of::<T>());
    run.at(format_args!("{what}"));
    let mut buf = input::<T>(len + root, run.rank, len);
    comm.broadcast(&mut buf, root)?;
    same(&what, &buf, &input::<T>(len + root, root, len));
    Ok(())
}
