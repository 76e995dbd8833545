//! Splits work into contiguous blocks, over ranks and over threads.
//!
//! Architecture invariant: the split determines when something is computed, never the result. Every piece of work has its own slot
//! for its result, and the results are combined in the order of the slots.

use std::ops::Range;
use std::thread;

/// Returns the part of `0..total` that belongs to `index` of `parts`. If the parts cannot be equal, the first ones are longer by one.
pub(crate) fn block(total: usize, parts: usize, index: usize) -> Range<usize> {
    let (each, more) = (total / parts, total % parts);
    let start = index * each + index.min(more);
    start..start + each + usize::from(index < more)
}

/// Returns the length of every part of `0..total`, times `each`.
pub(crate) fn counts(total: usize, parts: usize, each: usize) -> Vec<usize> {
    (0..parts)
        .map(|index| block(total, parts, index).len() * each)
        .collect()
}

/// Runs `work` for all of `range` on some threads, and returns the results in order; the first error in that order wins.
pub(crate) fn map<T: Send, E: Send>(
    range: Range<usize>,
    threads: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = threads.clamp(1, range.len().max(1));
    let part = |index| {
        let block = block(range.len(), threads, index);
        let range = range.start + block.start..range.start + block.end;
        range.map(&work).collect::<Result<Vec<T>, E>>()
    };
    if threads == 1 {
        return part(0);
    }
    let parts = thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|index| scope.spawn(move || part(index)))
            .collect();
        let mut parts = vec![part(0)];
        for other in others {
            parts.push(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        parts
    });
    let parts: Result<Vec<Vec<T>>, E> = parts.into_iter().collect();
    Ok(parts?.into_iter().flatten().collect())
}
