//! The API map of the documents lists every name of the traits and of the factory, so that a new name must be added there.

const MAP: &str = include_str!("../../docs/api-map.md");
const TRAITS: [(&str, &str); 3] = [
    (
        "communicator",
        include_str!("../../comm-api/src/communicator.rs"),
    ),
    ("ext", include_str!("../../comm-api/src/ext.rs")),
    ("region", include_str!("../../comm-api/src/region.rs")),
];
const FACTORY: &str = include_str!("../../comm-factory/src/lib.rs");

/// Lists the methods that the public traits of a file declare.
fn methods(source: &str) -> Vec<&str> {
    let traits = source.split("\npub trait ").skip(1);
    let bodies = traits.filter_map(|rest| rest.split("\n}\n").next());
    let lines = bodies.flat_map(str::lines);
    let names = lines.filter_map(|line| line.strip_prefix("    fn "));
    names
        .filter_map(|rest| rest.split(['<', '(']).next())
        .collect()
}

/// Lists the names that a crate root re-exports, except whole crates.
fn exports(source: &str) -> Vec<&str> {
    let lines = source
        .lines()
        .filter_map(|line| line.strip_prefix("pub use "));
    let lists = lines.filter(|line| !line.contains(" as "));
    let names = lists.filter_map(|list| list.split_once("::"));
    let names = names.flat_map(|(_, names)| names.split(['{', '}', ',', ';', ' ']));
    names.filter(|name| !name.is_empty()).collect()
}

fn is_in(map: &str, name: &str) -> bool {
    let code = map.split('`').skip(1).step_by(2);
    let word = |c: char| !(c.is_alphanumeric() || c == '_');
    code.into_iter()
        .any(|code| code.split(word).any(|found| found == name))
}

#[test]
fn every_method_is_in_the_map() {
    for (file, source) in TRAITS {
        let methods = methods(source);
        assert!(methods.len() >= 4, "{file}: {methods:?}");
        for name in methods {
            assert!(is_in(MAP, name), "docs/api-map.md lacks {name}");
        }
    }
}

#[test]
fn every_name_of_the_factory_is_in_the_map() {
    let names = exports(FACTORY);
    assert!(
        names.contains(&"create_communicator") && names.len() > 10,
        "{names:?}"
    );
    for name in names {
        assert!(is_in(MAP, name), "docs/api-map.md lacks {name}");
    }
}

#[test]
fn what_is_missing_is_noticed() {
    let source = "\npub trait A {\n    fn one(&self);\n    fn two<T>(&self) {\n        fn inner() {}\n    }\n}\nfn other() {}\n";
    assert_eq!(methods(source), ["one", "two"]);
    assert_eq!(
        exports("pub use a as b;\npub use c::{D, e};\npub use f::G;\n"),
        ["D", "e", "G"]
    );
    assert!(is_in("text `one(x)` and `two`", "one"));
    assert!(!is_in("text one, `one_more`", "one"));
}
