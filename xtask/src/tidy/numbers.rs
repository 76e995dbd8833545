//! Keeps the numbers in documents equal to the constants of the code.
//!
//! `<!-- tidy: const FILE NAME -->` right after a number names the constant that it must equal. Inside code it is ordinary text.

use super::markdown::{Document, line};
use super::{OnFinding, Tree};

/// Finds numbers that differ from their constant, constants that do not exist, and malformed directives.
pub(super) fn check(tree: &Tree, report: &mut OnFinding<'_>) {
    for (path, text) in tree.texts(".md") {
        for (at, html) in Document::parse(text).html {
            if let Some(directive) = html.trim_start().strip_prefix("<!-- tidy:")
                && let Err(message) = compare(&text[..at], directive, tree)
            {
                report(path, line(text, at), message);
            }
        }
    }
}

fn compare(before: &str, directive: &str, tree: &Tree) -> Result<(), String> {
    let words: Vec<&str> = directive.split_whitespace().collect();
    let ["const", file, name, "-->", ..] = words[..] else {
        return Err("a directive has the form `tidy: const FILE NAME`".to_owned());
    };
    let source = tree.0.get(file).ok_or(format!("{file} does not exist"))?;
    let actual = constant(source, name);
    let actual = actual.ok_or(format!("{file} has no one {name} that tidy can read"))?;
    match number_at_end(before) {
        Some(written) if written == actual => Ok(()),
        Some(written) => Err(format!("says {written}, but {name} in {file} is {actual}")),
        None => Err("no whole number stands right before the directive".to_owned()),
    }
}

/// Parses the number at the end of a text, such as `60`, `29,500` or `64 KiB`.
fn number_at_end(text: &str) -> Option<u128> {
    let text = text.trim_end_matches(['`', '*', ' ']);
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let scaled = |(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), factor));
    let (text, factor) = units.into_iter().find_map(scaled).unwrap_or((text, 1));
    let start = text.trim_end_matches(|c: char| c.is_ascii_digit() || ",.".contains(c));
    if start.ends_with(|c: char| c.is_alphanumeric() || c == '-') {
        return None;
    }
    let digits = text[start.len()..].replace(',', "");
    digits.parse::<u128>().ok()?.checked_mul(factor)
}

/// Parses a constant or static that is a whole number, a product or a shift; `None` if it has several values.
fn constant(source: &str, name: &str) -> Option<u128> {
    let definitions = source.lines().filter_map(|line| {
        let (before, after) = line.split_once(&format!(" {name}: "))?;
        let keyword = before.trim_start().rsplit(' ').next()?;
        let defined = ["const", "static"].contains(&keyword) && !line.contains("//");
        defined.then_some(after.split_once('=')?.1)
    });
    let values: Vec<u128> = definitions.map(evaluate).collect::<Option<_>>()?;
    let (first, others) = values.split_first()?;
    others.iter().all(|other| other == first).then_some(*first)
}

fn evaluate(expression: &str) -> Option<u128> {
    let integer = |text: &str| text.trim().replace('_', "").parse::<u128>().ok();
    let expression = expression.trim().strip_suffix(';')?;
    if let Some((number, shift)) = expression.split_once("<<") {
        let factor = 2_u128.checked_pow(integer(shift)?.try_into().ok()?)?;
        return integer(number)?.checked_mul(factor);
    }
    let mut factors = expression.split('*').map(integer);
    factors.try_fold(1_u128, |product, factor| product.checked_mul(factor?))
}
