//! Keeps the numbers in documents equal to what the code says.
//!
//! A directive right after a number names where the number comes from: `const FILE NAME`, `variants FILE ENUM` or
//! `files DIRECTORY ENDING`.

use super::markdown::{Directive, Document};
use super::tree::Tree;
use super::{Finding, source};

/// Finds numbers that differ from their source, and sources that are gone.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".md") {
        for directive in Document::parse(text).directives() {
            if let Err(message) = compare(&directive, tree) {
                findings.push(Finding::at(path, directive.line, message));
            }
        }
    }
    findings
}

fn compare(directive: &Directive<'_>, tree: &Tree) -> Result<(), String> {
    let code = |file| {
        tree.text(file)
            .map(source::code)
            .ok_or_else(|| format!("{file} does not exist"))
    };
    let actual = match directive.words[..] {
        ["const", file, name] => {
            constant(&code(file)?, name).map_err(|reason| format!("{file}: {reason}"))?
        }
        ["variants", file, name] => {
            variants(&code(file)?, name).ok_or_else(|| format!("{file} has no enum {name}"))?
        }
        ["files", directory, ending] => files(tree, directory, ending)?,
        _ => return Ok(()),
    };
    let written = number_at_end(directive.before)
        .ok_or("no whole number stands right before the directive")?;
    if written == actual {
        Ok(())
    } else {
        Err(format!(
            "says {written}, but `{}` is {actual}",
            directive.words.join(" ")
        ))
    }
}

/// Reads the number a text ends with, such as `60`, `29,500` or `64 KiB`.
fn number_at_end(text: &str) -> Option<u128> {
    let text = text.trim_end_matches(['`', '*', ' ']);
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let unit = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), *factor)));
    let (text, factor) = unit.unwrap_or((text, 1));
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit() || "_,.".contains(c));
    let digits = &text[before.len()..];
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '-') {
        return None;
    }
    digits
        .replace(['_', ','], "")
        .parse::<u128>()
        .ok()?
        .checked_mul(factor)
}

/// Reads the value of a constant or static that is written as a whole number, a product, a shift or a `Duration`.
fn constant(code: &str, name: &str) -> Result<u128, String> {
    let definitions = code.match_indices(name).filter_map(|(at, _)| {
        let mut words = code[..at]
            .trim_end()
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_');
        let keyword = words.next()?;
        let typed = code[at + name.len()..].trim_start().strip_prefix(':')?;
        let (_, value) = typed.split(';').next()?.split_once('=')?;
        matches!(keyword, "const" | "static").then_some(value)
    });
    let unreadable = || format!("the value of {name} is not one that tidy can read");
    let values = definitions
        .map(|value| evaluate(value).ok_or_else(unreadable))
        .collect::<Result<Vec<_>, _>>()?;
    match values[..] {
        [] => Err(format!("no constant {name}")),
        [first, ref others @ ..] if others.iter().all(|other| *other == first) => Ok(first),
        _ => Err(format!("{name} has several values")),
    }
}

fn evaluate(expression: &str) -> Option<u128> {
    let mut expression = expression.trim();
    for wrapper in ["from_secs(", "from_millis("] {
        if let Some((path, inside)) = expression.split_once(wrapper) {
            expression = path
                .ends_with("Duration::")
                .then_some(inside)?
                .strip_suffix(')')?;
        }
    }
    let product = |factors: &str| {
        factors
            .split('*')
            .map(integer)
            .try_fold(1u128, |acc, factor| acc.checked_mul(factor?))
    };
    let mut parts = expression.split("<<").map(product);
    let first = parts.next()??;
    parts.try_fold(first, |acc, shift| {
        2u128.checked_pow(shift?.try_into().ok()?)?.checked_mul(acc)
    })
}

fn integer(literal: &str) -> Option<u128> {
    let literal = literal.trim().replace('_', "");
    let digits = literal
        .find(['u', 'i'])
        .map_or(literal.as_str(), |suffix| &literal[..suffix]);
    match digits.strip_prefix("0x") {
        Some(hexadecimal) => u128::from_str_radix(hexadecimal, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// Counts the variants of an enum.
fn variants(code: &str, name: &str) -> Option<u128> {
    let bodies = code.match_indices("enum ").filter_map(|(at, word)| {
        let rest = code[at + word.len()..].trim_start().strip_prefix(name)?;
        rest.trim_start()
            .starts_with(['{', '<'])
            .then(|| rest.split_once('{'))?
    });
    let (_, body) = bodies.last()?;
    let (mut depth, mut count, mut named) = (0, 0, false);
    for c in body.chars() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' if depth == 0 => break,
            '}' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => (count, named) = (count + u128::from(named), false),
            _ => named |= depth == 0 && c.is_alphabetic(),
        }
    }
    Some(count + u128::from(named))
}

/// Counts the files with an ending that lie in a directory, not deeper.
fn files(tree: &Tree, directory: &str, ending: &str) -> Result<u128, String> {
    let directory = directory.trim_end_matches('/');
    if !tree.contains(directory) {
        return Err(format!("{directory} does not exist"));
    }
    let names = tree
        .paths()
        .filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/'));
    Ok(names
        .filter(|name| !name.contains('/') && name.ends_with(ending))
        .map(|_| 1)
        .sum())
}

#[cfg(test)]
mod tests;
