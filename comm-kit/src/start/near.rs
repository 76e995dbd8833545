//! Suggestions for misspelt names.

use strsim::osa_distance;

/// Shorter prefixes match too many names.
const BEGINNING: usize = 4;

/// Returns the candidate that `text` was probably meant to be, ignoring case.
///
/// Matches if the end of the name is missing, or if letters are inserted, deleted, replaced or swapped with
/// their neighbour: up to two letters, or a third of a long name.
///
/// ```
/// use comm_kit::nearest;
///
/// assert_eq!(nearest("tpc", ["tcp", "shm"]), Some("tcp"));
/// assert_eq!(nearest("--time", ["--bind", "--timeout"]), Some("--timeout"));
/// assert_eq!(nearest("infiniband", ["tcp", "shm"]), None);
/// ```
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_ascii_lowercase();
    let rated = candidates.into_iter().map(|name| {
        let lower = name.to_ascii_lowercase();
        let begun = text.len() >= BEGINNING && lower.starts_with(&text);
        (!begun, osa_distance(&text, &lower), name)
    });
    let (not_begun, distance, name) = rated.min()?;
    let near = distance <= 2 || 3 * distance <= text.len();
    (!not_begun || (near && distance < name.len())).then_some(name)
}
