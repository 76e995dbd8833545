//! Checks what the compiler does not.
//!
//! Each rule is a pure function from the tree to its findings, in a file of its own below `tidy/`.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use crate::report::Outcome;

mod layout;
mod links;
mod machine_paths;
mod markdown;
mod numbers;
mod programs;
mod safety;
mod size;
mod source;
mod tree;

use tree::Tree;

/// Names one thing to put right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from 1; none when the file as a whole is meant.
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: Some(line),
            message: message.into(),
        }
    }

    fn of(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: None,
            message: message.into(),
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    layout::check,
    links::check,
    machine_paths::check,
    markdown::check,
    numbers::check,
    programs::check,
    safety::check,
    size::check,
];

/// Checks the tree below `root`, prints the findings and returns whether there are none.
pub(crate) fn run(root: &Path) -> bool {
    match outcome(root) {
        Outcome::Passed => true,
        Outcome::Failed(reason) | Outcome::NotRun(reason) => {
            eprintln!("tidy: {reason}");
            false
        }
    }
}

/// Checks the tree below `root` and prints the findings.
pub(crate) fn outcome(root: &Path) -> Outcome {
    let tree = match Tree::load(root) {
        Ok(tree) => tree,
        Err(reason) => return Outcome::Failed(reason),
    };
    let mut findings: Vec<_> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    let found = match findings.len() {
        1 => "1 finding".to_owned(),
        many => format!("{many} findings"),
    };
    println!("tidy: {} files, {found}", tree.len());
    if findings.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(found)
    }
}
