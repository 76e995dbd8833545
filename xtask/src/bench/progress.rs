//! How far a benchmark is: a bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

const TEMPLATE: &str = "[{bar:30}] {percent:>3} %, {msg}";

/// Returns a bar at nothing of `figures`, on standard error where that is a terminal, until it is dropped.
pub(super) fn bar(figures: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(figures).unwrap_or(u64::MAX));
    // A template that is wrong would show in the test below; without one the bar is plainer.
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_finish(ProgressFinish::AndClear)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_one() {
        ProgressStyle::with_template(TEMPLATE).unwrap();
    }
}
