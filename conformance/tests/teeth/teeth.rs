//! The teeth: what is wrong with each, and by which case it must be caught.

mod answers;
mod endings;
mod results;

use crate::bent::Tooth;

/// Says which case must fail on a wrong communicator, and with which words.
pub(crate) struct Bite {
    pub(crate) name: &'static str,
    pub(crate) tooth: &'static dyn Tooth,
    pub(crate) case: &'static str,
    pub(crate) says: &'static str,
    /// Whether the ranks are threads, as those of the reference are, or processes.
    pub(crate) threads: bool,
}

/// Every tooth.
pub(crate) const BITES: &[Bite] = &[
    Bite {
        name: "drops-the-last-element",
        tooth: &results::DropsTheLastElement,
        case: "broadcast::every_root",
        says: "broadcast of 1 x 1 bytes from",
        threads: true,
    },
    Bite {
        name: "ignores-the-operation",
        tooth: &results::IgnoresTheOperation,
        case: "allreduce::integers",
        says: "by Min",
        threads: true,
    },
    Bite {
        name: "reverses-the-fold",
        tooth: &results::ReversesTheFold,
        case: "allreduce::the_order_of_the_fold",
        says: "sums: element",
        threads: true,
    },
    Bite {
        name: "keeps-nan-payloads",
        tooth: &results::KeepsNanPayloads,
        case: "allreduce::nan_and_signed_zero",
        says: "Min of special f32",
        threads: true,
    },
    Bite {
        name: "forgets-signed-zero",
        tooth: &results::ForgetsSignedZero,
        case: "allreduce::nan_and_signed_zero",
        says: "is [00, 00, 00, 00], not [00, 00, 00, 80]",
        threads: true,
    },
    Bite {
        name: "reuses-a-stale-slot",
        tooth: &results::ReusesAStaleSlot,
        case: "sequences::thousands_of_a_mix",
        says: "call ",
        threads: true,
    },
    Bite {
        name: "overwrites-gaps",
        tooth: &results::OverwritesGaps,
        case: "allgatherv::uneven_blocks",
        says: "is [00], not",
        threads: true,
    },
    Bite {
        name: "sorts-blocks",
        tooth: &results::SortsBlocks,
        case: "allgatherv::uneven_blocks",
        says: "allgatherv ",
        threads: true,
    },
    Bite {
        name: "lies-about-size",
        tooth: &answers::LiesAboutSize,
        case: "identity::ranks_are_unique_and_constant",
        says: "opened as rank 0 of 4",
        threads: true,
    },
    Bite {
        name: "lies-about-rank",
        tooth: &answers::LiesAboutRank,
        case: "identity::ranks_are_unique_and_constant",
        says: "left: (1, 3)",
        threads: true,
    },
    Bite {
        name: "misses-mismatches",
        tooth: &answers::MissesMismatches,
        case: "mismatch::another_operation",
        says: "expected an error, got Ok",
        threads: true,
    },
    Bite {
        name: "hangs-on-refusals",
        tooth: &answers::HangsOnRefusals,
        case: "refusals::one_rank_is_wrong",
        says: "Counts on rank 0",
        threads: true,
    },
    Bite {
        name: "blames-the-wrong-rank",
        tooth: &answers::BlamesTheWrongRank,
        case: "faults::last_panics_while_awaited",
        says: "left: (PeerLost, Some(0))",
        threads: true,
    },
    Bite {
        name: "forgets-the-cause",
        tooth: &answers::ForgetsTheCause,
        case: "faults::last_panics_while_awaited",
        says: "later: it happened before",
        threads: true,
    },
    Bite {
        name: "lets-two-threads-in",
        tooth: &answers::LetsTwoThreadsIn,
        case: "sequences::two_threads_on_one",
        says: "failed",
        threads: true,
    },
    Bite {
        name: "early-root",
        tooth: &endings::EarlyRoot,
        case: "broadcast::nobody_leaves_early",
        says: "returned before rank 1 had entered",
        threads: true,
    },
    Bite {
        name: "leaves-barriers-early",
        tooth: &endings::LeavesBarriersEarly,
        case: "barrier::nobody_leaves_early",
        says: "returned before rank",
        threads: true,
    },
    Bite {
        name: "hangs",
        tooth: &endings::Hangs,
        case: "barrier::thousands",
        says: "hangs: after 6s still at: barrier 100",
        threads: true,
    },
    Bite {
        name: "dies",
        tooth: &endings::Dies,
        case: "allreduce::floats",
        says: "rank 1 never finished",
        threads: true,
    },
    Bite {
        name: "singletons",
        tooth: &endings::Singletons,
        case: "allreduce::floats",
        says: "rank 2 opened as rank 0 of 1",
        threads: false,
    },
    Bite {
        name: "stale-region",
        tooth: &endings::StaleRegion,
        case: "regions::everybody_writes_a_part",
        says: "parts of",
        threads: true,
    },
    Bite {
        name: "leaks-threads",
        tooth: &endings::LeaksThreads,
        case: "faults::nothing_grows",
        says: "descriptors and threads grew from",
        threads: true,
    },
];
