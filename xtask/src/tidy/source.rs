//! Reads Rust source just well enough to tell code from comments and literals.

/// Returns `source` with comments turned into spaces and the insides of literals into quotes, line by line as before.
///
/// What is left of a line is code; a line left blank held comments only.
pub(super) fn code(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let word = code.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let (length, filler) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), ' ')
        } else if rest.starts_with("/*") {
            (block_comment(rest), ' ')
        } else if c == '"' {
            (1 + quoted(&rest[1..], '"'), '"')
        } else if let Some(length) = raw_string(rest).filter(|_| !word) {
            (length, '"')
        } else if let Some(length) = character(rest) {
            (length, '"')
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        let (token, after) = rest.split_at(length);
        code.extend(token.chars().map(|c| if c == '\n' { c } else { filler }));
        rest = after;
    }
    code
}

/// Measures a block comment, nested ones included.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Measures what follows an opening quote, up to and with the closing one.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Measures a raw string with or without `b` or `c` before it; none if the text does not start with one.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let hashes = text[prefix.len()..].find('"')?;
    let opening = prefix.len() + hashes + 1;
    let closing = format!("\"{}", "#".repeat(hashes));
    Some(
        text[opening..]
            .find(&closing)
            .map_or(text.len(), |at| opening + at + closing.len()),
    )
}

/// Measures a character literal; none for a lifetime or anything else.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        return Some(1 + quoted(inside, '\''));
    }
    inside[first.len_utf8()..]
        .starts_with('\'')
        .then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn comments_become_blank() {
        assert_eq!(code("a // unsafe {\nb"), "a            \nb");
        assert_eq!(code("a /* x /* y */ unsafe */ b").replace(' ', ""), "ab");
        assert_eq!(code("/* one\ntwo */ c"), "      \n       c");
    }

    #[test]
    fn literals_hide_what_they_hold() {
        for literal in [
            r#""unsafe { \" }""#,
            r##"r#"unsafe " {"#"##,
            r#"b"unsafe {""#,
            r#"cr"unsafe {""#,
        ] {
            let code = code(&format!("f({literal}); // end"));
            assert!(
                !code.contains("unsafe") && code.contains("\"); "),
                "{literal} gave {code}"
            );
        }
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        assert_eq!(code("'\"' x"), "\"\"\" x");
        assert_eq!(code(r"'\'' x"), "\"\"\"\" x");
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn unfinished_text_ends_the_file() {
        for source in ["\"open", "/* open", "r#\"open\"", "'", "'\\"] {
            assert_eq!(
                code(source).chars().count(),
                source.chars().count(),
                "{source}"
            );
        }
    }
}
