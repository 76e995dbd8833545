//! The program in the README is the example that is compiled and run, so the code that readers copy works.

const README: &str = include_str!("../../README.md");
const EXAMPLE: &str = include_str!("../../comm-factory/examples/quickstart.rs");

/// Returns the Rust blocks of a Markdown document.
fn programs(document: &str) -> Vec<&str> {
    let blocks = document.split("\n```rust\n").skip(1);
    blocks
        .filter_map(|rest| rest.split("```\n").next())
        .collect()
}

#[test]
fn the_program_of_the_readme_is_the_example() {
    let (introduction, program) = EXAMPLE.split_once('\n').unwrap();
    assert!(introduction.starts_with("//!"), "{introduction}");
    assert_eq!(programs(README), [program]);
}

#[test]
fn every_program_is_compared() {
    let document = "\n```rust\none();\n```\ntext\n```sh\nrun\n```\n\n```rust\ntwo();\n```\n";
    assert_eq!(programs(document), ["one();\n", "two();\n"]);
}
