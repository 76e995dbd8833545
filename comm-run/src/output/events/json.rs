//! Writes JSON objects. Names are plain text; values are the few kinds that events need.

use std::fmt::{Display, Write as _};

/// One object on one line.
#[derive(Debug)]
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Self {
        Self("{".to_owned())
    }

    /// Adds a number, `true`, `false`, or the result of [`list`] or [`end`](Self::end).
    pub(super) fn plain(mut self, name: &str, value: impl Display) -> Self {
        let comma = if self.0.len() > 1 { "," } else { "" };
        // Cannot fail: writing to a string always works.
        let _ = write!(self.0, "{comma}\"{name}\":{value}");
        self
    }

    /// Adds a text.
    pub(super) fn text(self, name: &str, value: &str) -> Self {
        self.plain(name, quoted(value))
    }

    /// Adds a number, or `null`.
    pub(super) fn maybe(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.plain(name, value),
            None => self.plain(name, "null"),
        }
    }

    /// Adds a text, or `null`.
    pub(super) fn maybe_text(self, name: &str, value: Option<&str>) -> Self {
        self.maybe(name, value.map(quoted))
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Returns a list of numbers or objects.
pub(super) fn list(values: impl IntoIterator<Item = impl Display>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    format!("[{}]", values.join(","))
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            control if control < ' ' => {
                // Cannot fail: writing to a string always works.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{Object, list};

    #[test]
    fn texts_are_quoted_and_objects_nest() {
        let inner = Object::new().maybe("none", None::<i32>).end();
        let object = Object::new()
            .text("text", "a \"b\" \\ c\nd\u{1}é")
            .plain("list", list([1, 2]))
            .plain("inner", list([inner]))
            .maybe_text("there", Some("x"))
            .end();
        let expected =
            r#"{"text":"a \"b\" \\ c\nd\u0001é","list":[1,2],"inner":[{"none":null}],"there":"x"}"#;
        assert_eq!(object, expected);
        assert_eq!(Object::new().end(), "{}");
        assert_eq!(list([""; 0]), "[]");
    }
}
