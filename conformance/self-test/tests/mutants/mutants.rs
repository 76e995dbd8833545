//! The mutants: the defect of each, and the case that must notice it.

mod answers;
mod endings;
mod exchanges;
mod locations;
mod results;

use std::sync::Arc;

use comm_conformance::mutant::Mutation;
use comm_conformance::reference::Reference;

/// The case that must fail on a mutant, and its message.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) mutation: fn() -> Arc<dyn Mutation<Reference>>,
    pub(crate) case: &'static str,
    pub(crate) says: &'static str,
    /// Whether the ranks are threads, like those of the reference, or processes.
    pub(crate) threads: bool,
}

/// Defines the table, one entry per mutant: its name, its type, the case that notices it, and the message.
macro_rules! known {
    ($($name:literal is $mutation:expr, seen by $case:literal: $says:literal $(in $processes:ident)?;)+) => {
        &[$(Known {
            name: $name,
            mutation: || Arc::new($mutation),
            case: $case,
            says: $says,
            threads: known!(@threads $($processes)?),
        }),+]
    };
    (@threads) => { true };
    (@threads processes) => { false };
}

/// Every mutant.
pub(crate) const KNOWN: &[Known] = known! {
    "drops-the-last-element" is results::DropsTheLastElement,
        seen by "broadcast::every_root": "broadcast of 1 x 1 bytes from";
    "ignores-the-operation" is results::IgnoresTheOperation,
        seen by "allreduce::integers": "by Min";
    "reverses-the-fold" is results::ReversesTheFold,
        seen by "allreduce::the_order_of_the_fold": "sums: element";
    "keeps-nan-payloads" is results::KeepsNanPayloads,
        seen by "allreduce::nan_and_signed_zero": "Min of special f32";
    "forgets-signed-zero" is results::ForgetsSignedZero,
        seen by "allreduce::nan_and_signed_zero": "is [00, 00, 00, 00], not [00, 00, 00, 80]";
    "reuses-a-stale-slot" is results::ReusesAStaleSlot::default(),
        seen by "sequences::thousands_of_a_mix": "call ";
    "overwrites-gaps" is results::OverwritesGaps,
        seen by "allgatherv::uneven_blocks": "is [00], not";
    "sorts-blocks" is results::SortsBlocks,
        seen by "allgatherv::uneven_blocks": "allgatherv ";
    "lies-about-size" is answers::LiesAboutSize,
        seen by "identity::ranks_are_unique_and_constant": "opened as rank 0 of 4";
    "lies-about-rank" is answers::LiesAboutRank::default(),
        seen by "identity::ranks_are_unique_and_constant": "left: (1, 3)";
    "misses-mismatches" is answers::MissesMismatches,
        seen by "mismatch::another_operation": "expected an error, got Ok";
    "hangs-on-refusals" is answers::HangsOnRefusals,
        seen by "refusals::one_rank_is_wrong": "Counts on rank 0";
    "loses-refusals-far-ahead" is answers::LosesRefusalsFarAhead::default(),
        seen by "refusals::far_ahead_of_the_others": "on rank 2, refusal 500: ranks 0, 1 called";
    "blames-the-wrong-rank" is answers::BlamesTheWrongRank,
        seen by "faults::last_panics_while_awaited": "left: (PeerLost, Some(0))";
    "forgets-the-cause" is answers::ForgetsTheCause,
        seen by "faults::last_panics_while_awaited": "later: it happened before";
    "lets-two-threads-in" is answers::LetsTwoThreadsIn::default(),
        seen by "sequences::two_threads_on_one": "failed";
    "early-root" is endings::EarlyRoot::default(),
        seen by "broadcast::nobody_leaves_early": "returned before rank 1 had entered";
    "leaves-barriers-early" is endings::LeavesBarriersEarly,
        seen by "barrier::nobody_leaves_early": "returned before rank";
    "hangs" is endings::Hangs::default(),
        seen by "barrier::thousands": "hangs: after 6s still at: barrier 100";
    "dies" is endings::Dies::default(),
        seen by "allreduce::floats": "rank 1 never finished";
    "singletons" is endings::Singletons,
        seen by "allreduce::floats": "rank 2 opened as rank 0 of 1" in processes;
    "stale-region" is endings::StaleRegion,
        seen by "regions::everybody_writes_a_part": "parts of";
    "leaks-regions" is endings::LeaksRegions,
        seen by "regions::regions_that_come_and_go_cost_no_memory": "MiB are still in use";
    "waits-on-in-fences" is endings::WaitsOnInFences,
        seen by "faults::a_fence_times_out": "told after";
    "tells-late-and-spins" is endings::TellsLateAndSpins,
        seen by "faults::last_panics_while_awaited": "told after";
    "leaks-threads" is endings::LeaksThreads,
        seen by "faults::nothing_grows": "descriptors and threads grew from";
    "keeps-refused-bytes-to-itself" is answers::KeepsRefusedBytesToItself,
        seen by "refusals::bytes_of_one_rank_make_no_sense": "nonsense 0: expected an error, got Ok";
    "clamps-element-sizes" is answers::ClampsElementSizes,
        seen by "mismatch::elements_of_17_and_35_mb": "elements of another size: expected an error, got Ok";
    "counts-suspended-time" is endings::CountsSuspendedTime,
        seen by "faults::a_suspended_job_goes_on": "by the clock on the wall";
    "counts-short-suspensions" is endings::CountsShortSuspensions,
        seen by "faults::a_suspended_job_goes_on": "late, by short suspensions";
    "forgets-element-types" is answers::ForgetsElementTypes,
        seen by "mismatch::another_element_type": "expected an error, got Ok";
    "names-its-own-line" is answers::NamesItsOwnLine,
        seen by "places::of_refusals": "answers.rs";
    "rewords-mismatches" is answers::Rewords,
        seen by "mismatch::another_root": "agree, in other words";
    "rewords-refusals" is answers::Rewords,
        seen by "refusals::one_rank_is_wrong": "usable, in other words";
    "rewords-losses" is answers::Rewords,
        seen by "faults::last_panics_while_awaited": "does not end with";
    "rewords-timeouts" is answers::Rewords,
        seen by "faults::last_is_absent_while_awaited": "is not of the form";
    "cannot-be-interrupted" is endings::CannotBeInterrupted,
        seen by "faults::an_interrupted_call_is_aborted": "right: (Aborted";
    "goes-on-after-a-panic" is endings::GoesOnAfterAPanic,
        seen by "faults::a_panic_inside_a_call_is_told": "a later call: expected an error, got Ok";
    "folds-itself-twice-in-place" is results::FoldsItselfTwice,
        seen by "in_place::the_bits_of_allreduce": "in place: Sum of 1 i8";
    "calls-in-place-something-else" is results::CallsItSomethingElse,
        seen by "in_place::some_ranks_have_two_buffers": "mismatch";
    "names-the-highest-rank" is locations::NamesTheHighestRank,
        seen by "locations::of_integers": "with its rank, round 0";
    "prefers-numbers-to-nan" is locations::PrefersNumbers,
        seen by "locations::of_floats": "of f64 with its rank";
    "ends-all-with-a-region" is endings::EndsAllWithARegion,
        seen by "regions::a_dropped_handle_is_named": "right: Some(Region)";
    "exchanges-a-stale-part" is exchanges::StalePart::default(),
        seen by "gathered::the_parts_of_all": "gathered parts of [1, 2, 3] x 8 bytes";
    "exchanges-a-part-too-short" is exchanges::PartTooShort,
        seen by "gathered::the_parts_of_all": "gathered parts of [1, 2, 3] x 8 bytes";
    "reads-before-the-exchange" is exchanges::ReadsEarly,
        seen by "gathered::misuse_names_the_right_call": "as_slice while writing: expected a panic";
    "exchanges-the-wrong-region" is exchanges::WrongRegion,
        seen by "gathered::different_regions": "different regions: expected an error, got Ok";
};
