//! Fetches the published packages.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Crate, VERSION, folder, io};
use crate::process::{cargo, copy_tree, workspace_root};

/// The packages that are built here; cargo gets the rest of the solver from the registry.
const PACKAGES: [&str; 3] = ["cobre-cli", "cobre-comm", "cobre-sddp"];

/// Fetches the packages and copies them for both builds.
pub(super) fn packages() -> Result<(), String> {
    let sources = fetch()?;
    for which in [Crate::Original, Crate::Ours] {
        for (package, source) in PACKAGES.iter().zip(&sources) {
            let wanted = which == Crate::Ours || *package == "cobre-cli";
            let to = which.folder().join(package);
            if wanted && !to.join("Cargo.toml").exists() {
                lay_out(source, &to)?;
            }
        }
    }
    let (from, to) = (
        workspace_root().join("compat/fixtures/cobre-files"),
        folder().join("cobre-files"),
    );
    copy_tree(&from, &to, &|_| true).map_err(io(&from))?;
    // The same dependency versions, so that nothing is compiled twice.
    let lock = sources[0].join("Cargo.lock");
    fs::copy(&lock, to.join("Cargo.lock")).map_err(io(&lock))?;
    Ok(())
}

/// Lets cargo fetch the packages; returns their folders.
fn fetch() -> Result<Vec<PathBuf>, String> {
    let stub = folder().join("fetch");
    fs::create_dir_all(stub.join("src")).map_err(io(&stub))?;
    fs::write(stub.join("src/lib.rs"), "").map_err(io(&stub))?;
    let dependency = |package: &&str| format!("{package} = \"={VERSION}\"\n");
    let dependencies: String = PACKAGES.iter().map(dependency).collect();
    let manifest = format!(
        "[workspace]\n[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n{dependencies}"
    );
    fs::write(stub.join("Cargo.toml"), manifest).map_err(io(&stub))?;
    let mut metadata = cargo(&["metadata", "--quiet", "--format-version", "1"]);
    let output = metadata.current_dir(&stub).output().map_err(io(&stub))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "the published packages cannot be fetched: {reason}"
        ));
    }
    let missing = |package: &str| format!("cargo did not say where {package} is");
    let registry = registry(&text).ok_or_else(|| missing("cobre-comm"))?;
    // Packages without a library are fetched but not listed; all packages of a registry are in one folder.
    let found = |package: &&str| {
        let source = registry.join(format!("{package}-{VERSION}"));
        let there = source.join("Cargo.toml").exists();
        there.then_some(source).ok_or_else(|| missing(package))
    };
    PACKAGES.iter().map(found).collect()
}

/// Finds the folder of the registry in the output of `cargo metadata`.
fn registry(metadata: &str) -> Option<&Path> {
    let end = metadata.find(&format!("/cobre-comm-{VERSION}/Cargo.toml\""))?;
    let start = metadata[..end].rfind('"')? + 1;
    Some(Path::new(&metadata[start..end]))
}

/// Copies a package and makes it a separate workspace, because it is inside another one.
fn lay_out(from: &Path, to: &Path) -> Result<(), String> {
    copy_tree(from, to, &|_| true).map_err(io(from))?;
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(io(&manifest))?;
    fs::write(&manifest, format!("{text}\n[workspace]\n")).map_err(io(&manifest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_registry_is_found() {
        let metadata = r#"{"a":"b","manifest_path":"/src/cobre-comm-0.18.0/Cargo.toml","x":1}"#;
        assert_eq!(registry(metadata), Some(Path::new("/src")));
        assert_eq!(registry("{}"), None);
    }
}
