//! Reads the manifests of the workspace: which packages are published, in which order, and what they lack.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use toml_edit::{DocumentMut, Item, TableLike};

/// The fields that every package must have, in its manifest or through that of the workspace.
const SAYS: [&str; 7] = [
    "description",
    "keywords",
    "categories",
    "license",
    "readme",
    "rust-version",
    "edition",
];
/// The files that every package copies from the workspace: copies, because not every checkout preserves links.
const COPIES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// The fields that need public addresses.
const ADDRESSES: [&str; 2] = ["repository", "documentation"];

/// The manifests of a workspace.
pub(super) struct Workspace {
    root: DocumentMut,
    /// The folder and the manifest of each package, by its name.
    members: BTreeMap<String, (String, DocumentMut)>,
}

impl Workspace {
    /// Reads the manifest below `root` and those of its members.
    pub(super) fn load(root: &Path) -> Result<Self, String> {
        let read = |folder: &str| {
            let path = root.join(folder).join("Cargo.toml");
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        Self::parse(&read(".")?, read)
    }

    fn parse(root: &str, read: impl Fn(&str) -> Result<String, String>) -> Result<Self, String> {
        let parsed = |folder: &str, text: &str| {
            let document: Result<DocumentMut, _> = text.parse();
            document.map_err(|error| format!("{folder}/Cargo.toml: {error}"))
        };
        let root = parsed(".", root)?;
        let folders = root["workspace"]["members"].as_array();
        let folders = folders.ok_or("Cargo.toml has no members")?;
        let mut members = BTreeMap::new();
        for folder in folders.iter().filter_map(|folder| folder.as_str()) {
            let manifest = parsed(folder, &read(folder)?)?;
            let name = manifest["package"]["name"].as_str();
            let name = name.ok_or(format!("{folder}/Cargo.toml has no name"))?;
            members.insert(name.to_owned(), (folder.to_owned(), manifest));
        }
        Ok(Self { root, members })
    }

    /// Lists the published packages, each after all its dependencies.
    pub(super) fn order(&self) -> Result<Vec<&str>, String> {
        let mut order: Vec<&str> = Vec::new();
        let all: Vec<&str> = self.published().map(|(name, ..)| name).collect();
        while order.len() < all.len() {
            let ready = |name: &&&str| {
                let needs = self.needs(name);
                !order.contains(name) && needs.iter().all(|need| order.contains(&need.as_str()))
            };
            let Some(next) = all.iter().find(ready) else {
                let left: Vec<_> = all.iter().filter(|name| !order.contains(name)).collect();
                return Err(format!(
                    "these depend on each other, or on an unpublished package: {left:?}"
                ));
            };
            order.push(next);
        }
        Ok(order)
    }

    /// Lists what the published packages lack, in sentences.
    pub(super) fn findings(&self, root: &Path) -> Vec<String> {
        let mut findings = Vec::new();
        for (name, folder, manifest) in self.published() {
            let package = &manifest["package"];
            let mut missing = |what: String| findings.push(format!("{name}: {what}"));
            for key in SAYS.iter().filter(|key| package.get(key).is_none()) {
                missing(format!("Cargo.toml has no {key}"));
            }
            let keywords = package.get("keywords").and_then(Item::as_array);
            if keywords.is_some_and(|list| list.len() > 5) {
                missing("a package has at most five keywords".to_owned());
            }
            if has_hidden_features(manifest) && shown_features(manifest).is_none() {
                missing("Cargo.toml does not select the features that docs.rs shows".to_owned());
            }
            let folder = root.join(folder);
            if !folder.join("README.md").is_file() {
                missing("README.md is missing".to_owned());
            }
            for file in COPIES {
                match fs::read(folder.join(file)) {
                    Err(_) => missing(format!("{file} is missing")),
                    Ok(text) if fs::read(root.join(file)).is_ok_and(|whole| whole == text) => {}
                    Ok(_) => missing(format!("{file} is not that of the workspace")),
                }
            }
            for (other, dependency) in dependencies(manifest, "dev-dependencies") {
                let by_path = dependency.get("version").is_none();
                let by_path = by_path && dependency.get("workspace").is_none();
                if self.members.contains_key(other) && !by_path {
                    missing(format!(
                        "its dev-dependency {other} has a version; with only a path, cargo package leaves the line out"
                    ));
                }
            }
        }
        findings
    }

    /// Lists what a person must still do, because no check can.
    pub(super) fn open(&self, root: &Path) -> Vec<String> {
        let mut open = Vec::new();
        let package = &self.root["workspace"]["package"];
        let missing = ADDRESSES.iter().filter(|key| package.get(key).is_none());
        let missing: Vec<&str> = missing.copied().collect();
        if !missing.is_empty() {
            open.push(format!(
                "Cargo.toml has no {}: the packages show none, and links of their READMEs to files of this repository are broken",
                missing.join(" and no ")
            ));
        }
        let version = package["version"].as_str().unwrap_or_default();
        let changelog = fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
        if !changelog.contains(&format!("\n## [{version}]")) {
            open.push(format!(
                "CHANGELOG.md has no section [{version}]: rename the section Unreleased, with the date"
            ));
        }
        open.push(format!(
            "cargo xtask test --strict passes; git tag v{version}"
        ));
        open
    }

    fn published(&self) -> impl Iterator<Item = (&str, &str, &DocumentMut)> {
        let everybody = self.root["workspace"]["package"].get("publish");
        let everybody = everybody.and_then(Item::as_bool).unwrap_or(true);
        let members = self.members.iter();
        members.filter_map(move |(name, (folder, manifest))| {
            let own = manifest["package"].get("publish").and_then(Item::as_bool);
            own.unwrap_or(everybody)
                .then_some((name.as_str(), folder.as_str(), manifest))
        })
    }

    /// Lists the members that a package depends on.
    fn needs(&self, name: &str) -> Vec<String> {
        let Some((_, manifest)) = self.members.get(name) else {
            return Vec::new();
        };
        let needs = ["dependencies", "build-dependencies"];
        let needs = needs.iter().flat_map(|kind| dependencies(manifest, kind));
        let needs = needs.map(|(other, _)| other.to_owned());
        needs
            .filter(|other| self.members.contains_key(other))
            .collect()
    }
}

/// Returns whether a package has features that are off by default.
fn has_hidden_features(manifest: &DocumentMut) -> bool {
    let features = manifest.get("features").and_then(Item::as_table_like);
    let Some(features) = features else {
        return false;
    };
    let default = features.get("default").and_then(Item::as_array);
    let default: Vec<_> = default
        .into_iter()
        .flatten()
        .filter_map(|on| on.as_str())
        .collect();
    features
        .iter()
        .any(|(name, _)| name != "default" && !default.contains(&name))
}

/// Returns the settings of a package for docs.rs.
fn shown_features(manifest: &DocumentMut) -> Option<&Item> {
    let metadata = manifest.get("package")?.get("metadata")?;
    metadata.get("docs")?.get("rs")?.get("features")
}

/// Lists the dependencies of one kind, including those of specific targets.
fn dependencies<'a>(manifest: &'a DocumentMut, kind: &str) -> Vec<(&'a str, &'a Item)> {
    let targets = manifest.get("target").and_then(Item::as_table_like);
    let targets = targets.into_iter().flat_map(TableLike::iter);
    let tables = targets.filter_map(|(_, target)| target.get(kind));
    let tables = manifest.get(kind).into_iter().chain(tables);
    let tables = tables.filter_map(Item::as_table_like);
    tables.flat_map(TableLike::iter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::workspace_root;

    const ROOT: &str = "[workspace]\nmembers = ['a', 'b', 'c']\n[workspace.package]\nversion = '1.0.0'\npublish = true\n";

    /// A workspace with three packages; `says` holds the rest of each manifest after the name.
    fn workspace(says: [&str; 3]) -> Workspace {
        let read = |folder: &str| {
            let number = usize::from(folder.as_bytes()[0] - b'a');
            Ok(format!("[package]\nname = '{folder}'\n{}", says[number]))
        };
        Workspace::parse(ROOT, read).unwrap()
    }

    #[test]
    fn this_workspace_can_be_published() {
        let workspace = Workspace::load(&workspace_root()).unwrap();
        assert_eq!(workspace.findings(&workspace_root()), Vec::<String>::new());
        let order = workspace.order().unwrap();
        let place = |name| order.iter().position(|other| *other == name);
        assert!(place("comm-api") < place("comm-kit"), "{order:?}");
        assert!(place("comm-mpi") < place("comm-factory"), "{order:?}");
        assert!(place("comm-factory") < place("comm-run"), "{order:?}");
        assert!(place("comm-run") < place("comm-conformance"), "{order:?}");
        for private in [
            "cobre-comm",
            "comm-python",
            "fixture-twins",
            "sddp",
            "xtask",
        ] {
            assert_eq!(place(private), None, "{private}");
        }
        assert_eq!(order.len(), 12, "{order:?}");
    }

    #[test]
    fn packages_come_after_what_they_need() {
        let needs_c = "[dependencies]\nc.workspace = true\n";
        let needs_b = "[target.'cfg(unix)'.dependencies]\nb = { path = '../b', version = '1' }\n";
        let order = workspace([needs_b, needs_c, ""]);
        assert_eq!(order.order().unwrap(), ["c", "b", "a"]);
        let private = workspace([needs_c, "publish = false\n", "publish = false\n"]);
        assert!(private.order().unwrap_err().contains("[\"a\"]"));
        let needs_a = "[dependencies]\na.workspace = true\n";
        let circle = workspace([needs_c, "", needs_a]);
        assert!(circle.order().unwrap_err().contains("[\"a\", \"c\"]"));
    }

    #[test]
    fn what_a_package_lacks_is_named() {
        let tests = "keywords = ['1', '2', '3', '4', '5', '6']\n[dev-dependencies]\nb.workspace = true\nc.path = '../c'\n";
        let private = "publish = false\n";
        let found = workspace([tests, private, private]).findings(Path::new("no/such"));
        let expected = [
            "description",
            "categories",
            "license",
            "readme",
            "rust-version",
            "edition",
        ];
        for key in expected {
            let sentence = format!("a: Cargo.toml has no {key}");
            assert!(found.contains(&sentence), "{found:?}");
        }
        let sentences = [
            "a package has at most five keywords",
            "LICENSE-MIT is missing",
            "its dev-dependency b has a version",
        ];
        for sentence in sentences {
            assert!(
                found.iter().any(|found| found.contains(sentence)),
                "{sentence}: {found:?}"
            );
        }
        assert_eq!(found.len(), 6 + 1 + 3 + 1, "{found:?}");
    }

    #[test]
    fn a_licence_that_is_not_that_of_the_workspace_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        for file in COPIES {
            fs::write(root.path().join(file), "the whole text").unwrap();
            fs::write(root.path().join("a").join(file), format!("../{file}")).unwrap();
        }
        fs::write(root.path().join("a/LICENSE-MIT"), "the whole text").unwrap();
        let private = "publish = false\n";
        let found = workspace(["", private, private]).findings(root.path());
        let licences = found.iter().filter(|found| found.contains("LICENSE"));
        let licences: Vec<_> = licences.collect();
        assert_eq!(licences, ["a: LICENSE-APACHE is not that of the workspace"]);
    }

    #[test]
    fn features_that_docs_rs_would_hide_are_named() {
        let private = "publish = false\n";
        let hides = |says: &str| {
            let found = workspace([says, private, private]).findings(Path::new("no/such"));
            found.iter().any(|found| found.contains("docs.rs"))
        };
        assert!(!hides(""));
        assert!(!hides("[features]\ndefault = ['x']\nx = []\n"));
        assert!(hides("[features]\ndefault = ['x']\nx = []\ny = []\n"));
        let shown = "[package.metadata.docs.rs]\nfeatures = ['y']\n[features]\ny = []\n";
        assert!(!hides(shown));
    }

    #[test]
    fn what_is_left_to_do_is_said() {
        let open = workspace([""; 3]).open(Path::new("no/such"));
        assert!(
            open[0].starts_with("Cargo.toml has no repository and no documentation"),
            "{open:?}"
        );
        assert!(
            open[1].starts_with("CHANGELOG.md has no section [1.0.0]"),
            "{open:?}"
        );
    }
}
