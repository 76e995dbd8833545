//! The mutants: what is wrong with each, and which case must notice it.

mod answers;
mod endings;
mod results;

use std::sync::Arc;

use comm_conformance::mutant::Mutation;
use comm_conformance::reference::Reference;

/// Names the case that must fail on a mutant, and with which words.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) mutation: fn() -> Arc<dyn Mutation<Reference>>,
    pub(crate) case: &'static str,
    pub(crate) says: &'static str,
    /// Whether the ranks are threads, as those of the reference are, or processes.
    pub(crate) threads: bool,
}

/// Every mutant.
pub(crate) const KNOWN: &[Known] = &[
    Known {
        name: "drops-the-last-element",
        mutation: || Arc::new(results::DropsTheLastElement),
        case: "broadcast::every_root",
        says: "broadcast of 1 x 1 bytes from",
        threads: true,
    },
    Known {
        name: "ignores-the-operation",
        mutation: || Arc::new(results::IgnoresTheOperation),
        case: "allreduce::integers",
        says: "by Min",
        threads: true,
    },
    Known {
        name: "reverses-the-fold",
        mutation: || Arc::new(results::ReversesTheFold),
        case: "allreduce::the_order_of_the_fold",
        says: "sums: element",
        threads: true,
    },
    Known {
        name: "keeps-nan-payloads",
        mutation: || Arc::new(results::KeepsNanPayloads),
        case: "allreduce::nan_and_signed_zero",
        says: "Min of special f32",
        threads: true,
    },
    Known {
        name: "forgets-signed-zero",
        mutation: || Arc::new(results::ForgetsSignedZero),
        case: "allreduce::nan_and_signed_zero",
        says: "is [00, 00, 00, 00], not [00, 00, 00, 80]",
        threads: true,
    },
    Known {
        name: "reuses-a-stale-slot",
        mutation: || Arc::new(results::ReusesAStaleSlot::default()),
        case: "sequences::thousands_of_a_mix",
        says: "call ",
        threads: true,
    },
    Known {
        name: "overwrites-gaps",
        mutation: || Arc::new(results::OverwritesGaps),
        case: "allgatherv::uneven_blocks",
        says: "is [00], not",
        threads: true,
    },
    Known {
        name: "sorts-blocks",
        mutation: || Arc::new(results::SortsBlocks),
        case: "allgatherv::uneven_blocks",
        says: "allgatherv ",
        threads: true,
    },
    Known {
        name: "lies-about-size",
        mutation: || Arc::new(answers::LiesAboutSize),
        case: "identity::ranks_are_unique_and_constant",
        says: "opened as rank 0 of 4",
        threads: true,
    },
    Known {
        name: "lies-about-rank",
        mutation: || Arc::new(answers::LiesAboutRank::default()),
        case: "identity::ranks_are_unique_and_constant",
        says: "left: (1, 3)",
        threads: true,
    },
    Known {
        name: "misses-mismatches",
        mutation: || Arc::new(answers::MissesMismatches),
        case: "mismatch::another_operation",
        says: "expected an error, got Ok",
        threads: true,
    },
    Known {
        name: "hangs-on-refusals",
        mutation: || Arc::new(answers::HangsOnRefusals),
        case: "refusals::one_rank_is_wrong",
        says: "Counts on rank 0",
        threads: true,
    },
    Known {
        name: "blames-the-wrong-rank",
        mutation: || Arc::new(answers::BlamesTheWrongRank),
        case: "faults::last_panics_while_awaited",
        says: "left: (PeerLost, Some(0))",
        threads: true,
    },
    Known {
        name: "forgets-the-cause",
        mutation: || Arc::new(answers::ForgetsTheCause),
        case: "faults::last_panics_while_awaited",
        says: "later: it happened before",
        threads: true,
    },
    Known {
        name: "lets-two-threads-in",
        mutation: || Arc::new(answers::LetsTwoThreadsIn::default()),
        case: "sequences::two_threads_on_one",
        says: "failed",
        threads: true,
    },
    Known {
        name: "early-root",
        mutation: || Arc::new(endings::EarlyRoot::default()),
        case: "broadcast::nobody_leaves_early",
        says: "returned before rank 1 had entered",
        threads: true,
    },
    Known {
        name: "leaves-barriers-early",
        mutation: || Arc::new(endings::LeavesBarriersEarly),
        case: "barrier::nobody_leaves_early",
        says: "returned before rank",
        threads: true,
    },
    Known {
        name: "hangs",
        mutation: || Arc::new(endings::Hangs::default()),
        case: "barrier::thousands",
        says: "hangs: after 6s still at: barrier 100",
        threads: true,
    },
    Known {
        name: "dies",
        mutation: || Arc::new(endings::Dies::default()),
        case: "allreduce::floats",
        says: "rank 1 never finished",
        threads: true,
    },
    Known {
        name: "singletons",
        mutation: || Arc::new(endings::Singletons),
        case: "allreduce::floats",
        says: "rank 2 opened as rank 0 of 1",
        threads: false,
    },
    Known {
        name: "stale-region",
        mutation: || Arc::new(endings::StaleRegion),
        case: "regions::everybody_writes_a_part",
        says: "parts of",
        threads: true,
    },
    Known {
        name: "leaks-threads",
        mutation: || Arc::new(endings::LeaksThreads),
        case: "faults::nothing_grows",
        says: "descriptors and threads grew from",
        threads: true,
    },
    Known {
        name: "keeps-refused-bytes-to-itself",
        mutation: || Arc::new(answers::KeepsRefusedBytesToItself),
        case: "refusals::bytes_of_one_rank_make_no_sense",
        says: "nonsense 0: expected an error, got Ok",
        threads: true,
    },
    Known {
        name: "clamps-element-sizes",
        mutation: || Arc::new(answers::ClampsElementSizes),
        case: "mismatch::elements_of_17_and_35_mb",
        says: "elements of another size: expected an error, got Ok",
        threads: true,
    },
    Known {
        name: "counts-suspended-time",
        mutation: || Arc::new(endings::CountsSuspendedTime),
        case: "faults::a_suspended_job_goes_on",
        says: "by the clock on the wall",
        threads: true,
    },
    Known {
        name: "rewords-mismatches",
        mutation: || Arc::new(answers::Rewords),
        case: "mismatch::another_root",
        says: "agree, in other words",
        threads: true,
    },
    Known {
        name: "rewords-refusals",
        mutation: || Arc::new(answers::Rewords),
        case: "refusals::one_rank_is_wrong",
        says: "usable, in other words",
        threads: true,
    },
    Known {
        name: "rewords-losses",
        mutation: || Arc::new(answers::Rewords),
        case: "faults::last_panics_while_awaited",
        says: "does not end with",
        threads: true,
    },
    Known {
        name: "rewords-timeouts",
        mutation: || Arc::new(answers::Rewords),
        case: "faults::last_is_absent_while_awaited",
        says: "is not of the form",
        threads: true,
    },
    Known {
        name: "cannot-be-interrupted",
        mutation: || Arc::new(endings::CannotBeInterrupted),
        case: "faults::an_interrupted_call_is_aborted",
        says: "left: (TimedOut",
        threads: true,
    },
    Known {
        name: "goes-on-after-a-panic",
        mutation: || Arc::new(endings::GoesOnAfterAPanic),
        case: "faults::a_panic_inside_a_call_is_told",
        says: "a later call: expected an error, got Ok",
        threads: true,
    },
];
