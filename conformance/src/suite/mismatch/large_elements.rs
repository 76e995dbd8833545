//! Elements of 16 MiB and more: their sizes are compared exactly, even if a fingerprint has no room for them.

use comm_api::{Blocks, Communicator, FailureKind, SharedMemoryProvider};

use crate::case::{Case, Verdict};
use crate::clause::Clause::{C9, C10};
use crate::model::Memory;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::{fails, spare, still_works};

/// An element of 16 MiB.
type Half = [[u8; 4096]; 4096];

/// An element of 32 MiB.
type Whole = [Half; 2];

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    let mut cases = vec![
        Case::new("mismatch::elements_of_17_and_35_mb", &[C10], |run| {
            gathered::<S>(run)
        })
        .at_least(2),
    ];
    // Where every rank is a node of its own, regions concern no other rank.
    if S::MODEL.memory == Memory::Shared {
        cases.push(
            Case::new(
                "mismatch::regions_of_one_and_of_two_halves",
                &[C9, C10],
                |run| regions::<S>(run),
            )
            .at_least(2),
        );
    }
    cases
}

/// Rank 0 broadcasts one element; the last rank expects elements of another size.
fn gathered<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open::<S>()?;
    let spare = spare::<S>(run, &comm, "spare")?;
    let odd = run.size() - 1;
    let elem_size = if run.rank == odd {
        35_000_000
    } else {
        17_000_000
    };
    let mut counts = vec![0; run.size()];
    counts[0] = 1;
    let send = vec![1; if run.rank == 0 { elem_size } else { 0 }];
    let mut recv = vec![0; elem_size];
    run.at(format_args!("gathering an element of {elem_size} bytes"));
    let displs = vec![0; run.size()];
    let result = spare.allgatherv_bytes(&send, &mut recv, Blocks::new(&counts, &displs), elem_size);
    fails(
        "elements of another size",
        result,
        FailureKind::Mismatch,
        odd,
    );
    still_works(run, &comm)
}

/// The last rank creates parts of the same length in elements of another size: two such parts must never
/// overlap.
fn regions<S: Subject>(run: &Run) -> Verdict {
    let odd = run.size() - 1;
    let comm = run.open::<S>()?;
    run.at(format_args!("creating parts of elements of another size"));
    let result = if run.rank == odd {
        comm.create_partitioned_region::<Half>(2).map(drop)
    } else {
        comm.create_partitioned_region::<Whole>(1).map(drop)
    };
    fails("parts", result, FailureKind::Mismatch, odd);
    Ok(())
}
