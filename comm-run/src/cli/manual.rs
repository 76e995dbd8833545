//! The manual page, generated from the same definition as `--help`.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;

/// Writes the page of `command`; `notes` is the text that its help prints after the options.
///
/// # Errors
///
/// Fails when the writer fails.
pub(super) fn write(command: Command, notes: &str, out: &mut dyn Write) -> io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let commands: Vec<(String, String)> = command
        .get_subcommands()
        .map(|action| {
            let about = action.get_about().map(ToString::to_string);
            (action.get_name().to_owned(), about.unwrap_or_default())
        })
        .collect();
    let page = Man::new(command);
    page.render_title(out)?;
    page.render_name_section(out)?;
    section(out, "SYNOPSIS")?;
    preformatted(out, usage.trim_start_matches("Usage:"))?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    section(out, "COMMANDS")?;
    for (name, about) in commands {
        entry(out, &format!("comm-run {name}"), &about)?;
    }
    let blocks = notes.split("\n\n").map(Block::new);
    for block in blocks {
        block.write(out)?;
    }
    section(out, "SEE ALSO")?;
    writeln!(out, "mpiexec(1), srun(1), setsid(1)")
}

/// A paragraph of the notes; its first line tells the kind.
enum Block<'a> {
    /// A line of description, then command lines.
    Examples(&'a str, &'a str),
    /// The meaning of each exit code.
    Codes(&'a str),
    Text(&'a str),
}

impl<'a> Block<'a> {
    fn new(text: &'a str) -> Self {
        match text.split_once(":\n") {
            Some(("Exit code", codes)) => Self::Codes(codes),
            // A sentence may end with a colon, too, but the lines after it are not indented.
            Some((about, lines)) if lines.starts_with("  ") => Self::Examples(about, lines),
            _ => Self::Text(text),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Examples("Examples", lines) => {
                section(out, "EXAMPLES")?;
                preformatted(out, lines)
            }
            Self::Examples(about, lines) => {
                writeln!(out, ".PP\n{}:", escaped(about))?;
                preformatted(out, lines)
            }
            Self::Codes(lines) => {
                section(out, "EXIT STATUS")?;
                codes(out, lines)
            }
            Self::Text(text) => {
                // Only the first of these paragraphs needs the heading.
                let heading = if text.starts_with("Every rank") {
                    "ENVIRONMENT"
                } else {
                    "FAILURES AND SIGNALS"
                };
                section(out, heading)?;
                writeln!(out, "{}", escaped(text))
            }
        }
    }
}

/// Writes `  124    the job timed out` as an entry; a line without a code continues the entry before it.
fn codes(out: &mut dyn Write, lines: &str) -> io::Result<()> {
    for line in lines.lines() {
        match line.trim_start().split_once("  ") {
            Some((code, meaning)) if line.starts_with("  ") && !line.starts_with("   ") => {
                entry(out, code, meaning.trim_start())?;
            }
            _ => writeln!(out, "{}", escaped(line.trim_start()))?,
        }
    }
    Ok(())
}

fn section(out: &mut dyn Write, name: &str) -> io::Result<()> {
    writeln!(out, ".SH \"{name}\"")
}

fn entry(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, ".TP\n\\fB{}\\fR\n{}", escaped(name), escaped(text))
}

/// Writes lines unformatted.
fn preformatted(out: &mut dyn Write, lines: &str) -> io::Result<()> {
    writeln!(out, ".nf")?;
    for line in lines.lines() {
        writeln!(out, "{}", escaped(line.trim_start()))?;
    }
    writeln!(out, ".fi")
}

/// Escapes text for roff: backslashes, hyphens that people copy, and a dot or quote at the start of a line.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| {
        let special = line.starts_with(['.', '\'']);
        format!("{}{line}", if special { "\\&" } else { "" })
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_is_read_as_a_request() {
        assert_eq!(escaped(".a\n'b\nc\\d -n"), "\\&.a\n\\&'b\nc\\ed \\-n");
    }
}
