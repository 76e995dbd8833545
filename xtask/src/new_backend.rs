//! Creates the crate of a new backend, which compiles without warnings and passes the suite for a world of one rank.

use std::fs;
use std::path::Path;

use toml_edit::{Array, DocumentMut, InlineTable, Item, Value};

use crate::process::{self, cargo, shown};
use crate::report::Outcome;

pub(crate) mod check;

/// The files of the crate, with `{{name}}`, `{{Name}}` and `{{NAME}}` in them.
const TEMPLATE: [(&str, &str); 8] = [
    (
        "Cargo.toml",
        include_str!("new_backend/template/Cargo.toml.in"),
    ),
    (
        "README.md",
        include_str!("new_backend/template/README.md.in"),
    ),
    (
        "src/lib.rs",
        include_str!("new_backend/template/src/lib.rs.in"),
    ),
    (
        "src/communicator.rs",
        include_str!("new_backend/template/src/communicator.rs.in"),
    ),
    (
        "src/config.rs",
        include_str!("new_backend/template/src/config.rs.in"),
    ),
    (
        "src/error.rs",
        include_str!("new_backend/template/src/error.rs.in"),
    ),
    (
        "src/links.rs",
        include_str!("new_backend/template/src/links.rs.in"),
    ),
    (
        "tests/conformance.rs",
        include_str!("new_backend/template/tests/conformance.rs.in"),
    ),
];

/// Create the crate of a new backend.
#[derive(Debug, clap::Args)]
pub(crate) struct NewBackend {
    /// The NAME of the crate comm-NAME: lower-case letters and digits, starting with a letter
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
}

fn name(argument: &str) -> Result<String, String> {
    let first = argument.starts_with(|c: char| c.is_ascii_lowercase());
    let rest = argument
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    match argument {
        _ if !(first && rest) => {
            Err("use lower-case letters and digits, starting with a letter".to_owned())
        }
        "reference" => Err("the suite's own communicator has that name".to_owned()),
        _ => Ok(argument.to_owned()),
    }
}

/// Creates the crate in the workspace at `root`; returns whether that worked.
pub(crate) fn run(root: &Path, NewBackend { name }: &NewBackend) -> bool {
    if let Err(reason) = generate(root, name).and_then(|()| format(root, name)) {
        eprintln!("error: {reason}");
        return false;
    }
    println!(
        "created comm-{name}, {} files, and added it to Cargo.toml",
        TEMPLATE.len()
    );
    println!();
    println!("  cargo xtask conformance --backend {name}    passes, for a world of one rank");
    println!(
        "  docs/guides/backend.md{}how to go on to many",
        " ".repeat(name.len() + 17)
    );
    true
}

/// Writes the files and adds the crate to the manifest of the workspace; touches nothing if it cannot.
pub(crate) fn generate(root: &Path, name: &str) -> Result<(), String> {
    let folder = root.join(format!("comm-{name}"));
    if folder.exists() {
        return Err(format!(
            "comm-{name} already exists; remove it, or choose another name"
        ));
    }
    let path = root.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(|e| format!("Cargo.toml: {e}"))?;
    let manifest = joined(&manifest, name)?;
    for (file, text) in TEMPLATE {
        write(&folder.join(file), &filled(text, name))
            .map_err(|e| format!("comm-{name}/{file}: {e}"))?;
    }
    fs::write(path, manifest).map_err(|e| format!("Cargo.toml: {e}"))
}

/// Breaks lines that have become too long because of the name.
pub(crate) fn format(root: &Path, name: &str) -> Result<(), String> {
    let mut fmt = cargo(&["fmt", "--package", &format!("comm-{name}")]);
    match process::run(fmt.current_dir(root)) {
        Outcome::Passed => Ok(()),
        Outcome::Failed(reason) | Outcome::NotRun(reason) => Err(format!(
            "comm-{name} was created, but {}: {reason}",
            shown(&fmt)
        )),
    }
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)
}

fn filled(text: &str, name: &str) -> String {
    let (first, rest) = name.split_at(1);
    text.replace("{{name}}", name)
        .replace("{{Name}}", &format!("{}{rest}", first.to_uppercase()))
        .replace("{{NAME}}", &name.to_uppercase())
}

/// Adds the crate to the members and dependencies of a workspace's manifest, in alphabetical order.
fn joined(manifest: &str, name: &str) -> Result<String, String> {
    let package = format!("comm-{name}");
    let mut document: DocumentMut = manifest.parse().map_err(|e| format!("Cargo.toml: {e}"))?;
    let workspace = document["workspace"]
        .as_table_mut()
        .ok_or("Cargo.toml has no [workspace]")?;
    for key in ["members", "default-members"] {
        let list = workspace.get_mut(key).and_then(Item::as_array_mut);
        insert(list.ok_or(format!("Cargo.toml has no {key}"))?, &package);
    }
    let dependencies = workspace
        .get_mut("dependencies")
        .and_then(Item::as_table_mut);
    let dependencies = dependencies.ok_or("Cargo.toml has no [workspace.dependencies]")?;
    let version = dependencies
        .get("comm-api")
        .and_then(|api| api.get("version"));
    let version = version
        .and_then(Item::as_str)
        .ok_or("Cargo.toml has no version of comm-api")?;
    let dependency = InlineTable::from_iter([("path", package.as_str()), ("version", version)]);
    dependencies.insert(&package, Item::Value(Value::InlineTable(dependency)));
    Ok(document.to_string())
}

fn insert(list: &mut Array, package: &str) {
    let after = |value: &Value| value.as_str().is_some_and(|other| other > package);
    let place = list.iter().position(after).unwrap_or(list.len());
    list.insert_formatted(place, Value::from(package).decorated("\n    ", ""));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
[workspace]
members = [
    \"comm-api\",
    \"comm-tcp\",
]
# Why these.
default-members = [
    \"comm-api\",
    \"comm-tcp\",
]

[workspace.dependencies]
comm-api = { path = \"comm-api\", version = \"0.3.0\" }
";

    #[test]
    fn the_manifest_keeps_its_order_and_its_comments() {
        let manifest = joined(MANIFEST, "echo").unwrap();
        let list = "[\n    \"comm-api\",\n    \"comm-echo\",\n    \"comm-tcp\",\n]\n";
        assert_eq!(manifest.matches(list).count(), 2, "{manifest}");
        assert!(manifest.contains("# Why these.\n"), "{manifest}");
        let line = "comm-echo = { path = \"comm-echo\", version = \"0.3.0\" }\n";
        assert!(manifest.ends_with(line), "{manifest}");
    }

    #[test]
    fn names_that_make_no_crate_are_refused() {
        for wrong in ["", "Echo", "9p", "a-b", "a_b", "ä", "reference", "../x"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
        assert_eq!(name("n2n").as_deref(), Ok("n2n"));
    }

    #[test]
    fn no_placeholder_is_left() {
        for (file, text) in TEMPLATE {
            let text = filled(text, "echo");
            for placeholder in ["{{name}}", "{{Name}}", "{{NAME}}"] {
                assert!(!text.contains(placeholder), "{file}");
            }
        }
        assert!(
            filled(TEMPLATE[2].1, "echo").contains("use comm_echo::{EchoBackend, EchoConfig};")
        );
    }
}
