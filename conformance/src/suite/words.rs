//! The messages of errors: the same on every backend, independent of the kit's implementation. Details that
//! only a backend knows, such as the place of a rank or the name of a variable, are left open.

use std::time::Duration;

/// The end of every mismatch.
const IN_ORDER: &str =
    "; all ranks must call the same collectives in the same order with arguments that agree";

/// The message of an interrupted call.
pub(super) const INTERRUPTED: &str =
    "it was interrupted while it waited; this communicator or region is no longer usable";

/// Checks the message of a mismatch among `size` ranks: rank 0 and the ranks that did the same made one call,
/// the others another; `odd` is the one rank that was alone.
#[track_caller]
pub(super) fn mismatch(first: &str, other: &str, (odd, size): (usize, usize), message: &str) {
    let (alone, all_others) = (vec![odd], (0..size).filter(|&rank| rank != odd).collect());
    let (with_0, against) = if odd == 0 {
        (alone, all_others)
    } else {
        (all_others, alone)
    };
    let (with_0, against) = (ranks(&with_0), ranks(&against));
    let expected = format!("{with_0} called {first}, {against} called {other}{IN_ORDER}");
    assert_eq!(message, expected);
}

/// Lists ranks as messages do: three or more consecutive ranks as a range.
fn ranks(list: &[usize]) -> String {
    let runs = list.chunk_by(|&one, &next| one + 1 == next);
    let runs: Vec<String> = runs
        .flat_map(|run| match run {
            [first, _, .., end] => vec![format!("{first}-{end}")],
            few => few.iter().map(usize::to_string).collect(),
        })
        .collect();
    let noun = if list.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", runs.join(", "))
}

/// Checks the message of a refusal for `reason`.
#[track_caller]
pub(super) fn refused(reason: &str, message: &str) {
    let expected = format!(
        "it was called with invalid arguments: {reason}; no data was exchanged and the communicator is still usable"
    );
    assert_eq!(message, expected);
}

/// Checks the message about a lost rank; `how` is what happened to it.
#[track_caller]
pub(super) fn lost(how: &str, message: &str) {
    let rest = message.strip_prefix(how);
    let rest = rest.unwrap_or_else(|| panic!("'{message}' does not begin with '{how}'"));
    let advice = " before it contributed; look at what it printed last, then restart the job";
    let place = rest.strip_suffix(advice);
    let place = place.unwrap_or_else(|| panic!("'{message}' does not end with '{advice}'"));
    assert!(in_parentheses(place), "'{message}' has '{place}' in it");
}

/// Checks the message about a rank that did not enter the call within `timeout`.
#[track_caller]
pub(super) fn absent(rank: usize, timeout: Duration, message: &str) {
    let begin = format!("rank {rank}");
    let middle = format!(" did not enter the call within {timeout:?}; increase ");
    let end = " if ranks compute longer than that between calls (0 disables the timeout)";
    let parts = message.strip_prefix(&begin).and_then(|rest| {
        let (place, rest) = rest.split_once(&middle)?;
        Some((place, rest.strip_suffix(end)?))
    });
    let expected = format!("{begin}{middle}..{end}");
    let (place, _variable) =
        parts.unwrap_or_else(|| panic!("'{message}' is not of the form '{expected}'"));
    assert!(in_parentheses(place), "'{message}' has '{place}' in it");
}

/// Returns whether `place` is empty, or something in parentheses.
fn in_parentheses(place: &str) -> bool {
    place.is_empty() || (place.starts_with(" (") && place.ends_with(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentences_of_the_kit_are_these() {
        use comm_kit::words::{Lost, absent as kit_absent, lost as kit_lost, ranks};
        assert_eq!(comm_kit::words::interrupted(), INTERRUPTED);
        lost("it panicked", &kit_lost(Lost::Panicked, None));
        lost(
            "its process ended",
            &kit_lost(Lost::Ended, Some("at 10.0.0.3")),
        );
        let second = Duration::from_secs(1);
        absent(3, second, &kit_absent(&ranks(&[3]), Some(second), "X"));
    }

    #[test]
    #[should_panic(expected = "has ' yesterday' in it")]
    fn other_words_are_found() {
        lost(
            "it panicked",
            "it panicked yesterday before it contributed; look at what it printed last, then restart the job",
        );
    }
}
