//! The progress of a benchmark: a bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

const TEMPLATE: &str = "[{bar:30}] {percent:>3} %, {msg}";

/// Returns a bar for `figures`, on standard error if that is a terminal, until it is dropped.
pub(super) fn bar(figures: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(figures).unwrap_or(u64::MAX));
    // The test below would find a wrong template; without a template the bar is plainer.
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
