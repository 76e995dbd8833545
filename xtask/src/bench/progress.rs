//! How far a benchmark is: a bar on a terminal, nothing elsewhere.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

const TEMPLATE: &str = "[{bar:30}] {percent:>3} %, {msg}";

/// Shows what runs now.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    place: String,
}

impl Progress {
    /// Starts at nothing of `figures`.
    pub(super) fn new(figures: u64) -> Self {
        let bar = if stderr().is_terminal() {
            ProgressBar::new(figures)
        } else {
            ProgressBar::hidden()
        };
        // A template that is wrong would show in the test below; without one the bar is plainer.
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        let place = String::new();
        Self { bar, place }
    }

    /// Says where all that follows happens.
    pub(super) fn enter(&mut self, place: String) {
        self.place = place;
    }

    /// Says who runs.
    pub(super) fn runs(&self, who: &str) {
        self.bar.set_message(format!("{}, {who}", self.place));
    }

    /// Counts a figure.
    pub(super) fn measured(&self, who: &str, row: &str) {
        self.bar.inc(1);
        self.bar
            .set_message(format!("{}, {who}: {row}", self.place));
    }

    /// Prints a line above the bar, or to standard error where there is none.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_one() {
        ProgressStyle::with_template(TEMPLATE).unwrap();
    }
}
