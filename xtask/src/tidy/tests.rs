//! For each rule, a bad input that it must find, and similar good ones.

use super::{Check, Tree, book, commits, files, findings, links, numbers, words};

const SOURCE: &str = "
// Not 7: const PORT: u16 = 7;
pub const PORT: u16 = 29_500;
static BYTES: usize = 64 * 1024;
const MASK: u64 = 3 << 20;
const PARSED: usize = parse();
const HUGE: u128 = 1 << 128;
#[cfg(unix)]
const SPLIT: usize = 1;
#[cfg(not(unix))]
const SPLIT: usize = 2;
";

/// Returns the findings of one check for a file in a small repository.
fn found(check: Check, path: &str, text: &str) -> Vec<String> {
    let files = [
        ("README.md", "# One `two`\n\n## Same\n\n## Same\n"),
        ("docs/b (1).txt", ""),
        ("src/a.rs", SOURCE),
        (path, text),
    ];
    let owned = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    findings(&Tree(owned.into()), &[check])
}

#[test]
fn a_file_of_one_line_too_many_is_found() {
    let text = "\n".repeat(501);
    let expected = ["b.rs:501: 501 lines: split it before 500"];
    assert_eq!(found(files::size, "b.rs", &text), expected);
    assert_eq!(found(files::size, "b.rs", &text[1..]), [""; 0]);
    assert_eq!(found(files::size, "b.md", &text), [""; 0]);
}

#[test]
fn private_directories_are_found_and_longer_paths_are_fine() {
    for top in files::PRIVATE {
        let text = format!("docs/{top}/x $HOME/{top}/x ../{top}/x\n`/{top}/x`\n");
        let expected = format!("a.md:2: a path below /{top} exists on one machine only");
        assert_eq!(found(files::private_paths, "a.md", &text), [expected]);
    }
}

#[test]
fn a_backend_without_its_fixed_files_is_found() {
    let tcp = found(files::layout, "comm-tcp/Cargo.toml", "");
    let expected = "comm-tcp/Cargo.toml:1: every backend has a src/config.rs";
    assert_eq!((tcp.len(), &*tcp[2]), (6, expected));
    assert_eq!(found(files::layout, "comm-local/Cargo.toml", "").len(), 4);
    assert_eq!(found(files::layout, "comm-api/Cargo.toml", ""), [""; 0]);
}

#[test]
fn documents_that_hold_are_accepted() {
    let good = r#"
[x](../README.md) and [y](a.md "title"), [x](../README.md#one-two), [y](../README.md#same-1)
# Here
[x](#here), [x](b%20(1).txt), [y](<b (1).txt>), [dir](../docs), [root](/README.md), ![i](./a.md)
[web](https://example.org/none), [mail](mailto:a@example.org), `[code](none.md)`

[^1]: a footnote

- an item:

  ```sh
  [code](none.md) <!-- tidy: no -->
  ```

<!-- a remark -->

Port `29,500`<!-- tidy: const src/a.rs PORT -->, **64 KiB** <!-- tidy: const src/a.rs BYTES --> and `<!-- tidy: no -->`.
| 3 MiB <!-- tidy: const src/a.rs MASK --> | 29500 <!-- tidy: const src/a.rs PORT --> |
"#;
    assert_eq!(found(links::check, "docs/a.md", good), [""; 0]);
    assert_eq!(found(numbers::check, "docs/a.md", good), [""; 0]);
}

/// Asserts that the rule finds exactly the fault after the arrow in the text before it.
fn assert_found(check: Check, table: &str) {
    for row in table.trim().lines() {
        let (text, fault) = row.rsplit_once(" -> ").expect("an arrow in each row");
        let text = format!("# Title\n\n{}\n\n[y]: none.md\n", text.trim());
        let found = found(check, "docs/a.md", &text);
        assert_eq!(found, [format!("docs/a.md:3: {}", fault.trim())], "{text}");
    }
}

#[test]
fn links_that_do_not_resolve_are_found() {
    let bad = "
        [x](none.md)           -> the link none.md leads nowhere
        [x](README.md)         -> the link README.md leads nowhere
        [x][y]                 -> the link none.md leads nowhere
        ![x](../../a.md)       -> the link ../../a.md leaves the repository
        [x](#three)            -> the link #three names a heading that does not exist
        [x](/README.md#same-2) -> the link /README.md#same-2 names a heading that does not exist
        ~~~                    -> this code block is never closed
        ````rust               -> this code block is never closed
    ";
    assert_found(links::check, bad);
}

#[test]
fn numbers_that_do_not_hold_are_found() {
    let bad = "
        29501 <!-- tidy: const src/a.rs PORT -->   -> says 29501, but PORT in src/a.rs is 29500
        64 MiB <!-- tidy: const src/a.rs BYTES --> -> says 67108864, but BYTES in src/a.rs is 65536
        1 <!-- tidy: const src/gone.rs PORT -->    -> src/gone.rs does not exist
        1 <!-- tidy: const src/a.rs GONE -->       -> src/a.rs has no one GONE that tidy can read
        1 <!-- tidy: const src/a.rs PARSED -->     -> src/a.rs has no one PARSED that tidy can read
        1 <!-- tidy: const src/a.rs HUGE -->       -> src/a.rs has no one HUGE that tidy can read
        1 <!-- tidy: const src/a.rs SPLIT -->      -> src/a.rs has no one SPLIT that tidy can read
        1 <!-- tidy: constant src/a.rs PORT -->    -> a directive has the form `tidy: const FILE NAME`
        1 <!-- tidy: const src/a.rs -->            -> a directive has the form `tidy: const FILE NAME`
        many <!-- tidy: const src/a.rs PORT -->    -> no whole number stands right before the directive
        0.5 <!-- tidy: const src/a.rs PORT -->     -> no whole number stands right before the directive
        -5 <!-- tidy: const src/a.rs PORT -->      -> no whole number stands right before the directive
        v2 <!-- tidy: const src/a.rs PORT -->      -> no whole number stands right before the directive
    ";
    assert_found(numbers::check, bad);
}

#[test]
fn what_the_contents_of_the_book_do_not_list_is_found() {
    let files = [
        ("docs/SUMMARY.md", "- [a](a.md)\n- [b](../x/README.md)\n"),
        (
            "docs/a.md",
            "[b](../x/README.md#x)\n[c](../y/README.md)\n[d](../y)\n[e](https://example.org/e.md)\n[f](../src/f.rs)\n",
        ),
        ("docs/forgotten.md", ""),
        ("x/README.md", "# x\n"),
        ("y/README.md", ""),
        ("src/f.rs", ""),
    ];
    let owned = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let tree = Tree(owned.into());
    let expected = [
        "docs/a.md:2: y/README.md is linked here, but docs/SUMMARY.md does not list it",
        "docs/a.md:3: y is a directory, and the book has none: link to a file in it",
        "docs/forgotten.md:1: docs/SUMMARY.md does not list it",
    ];
    assert_eq!(findings(&tree, &[book::check]), expected);
    let copied = ["docs/a.md", "src/f.rs", "x/README.md", "y", "y/README.md"];
    assert_eq!(book::files(&tree), copied);
}

#[test]
fn a_line_of_one_character_too_many_is_found_outside_of_tables_and_code() {
    let long = "é".repeat(201);
    let text = format!(
        "{}\n{long}\n\n| {long} |\n|---|\n| {long} |\n\n```text\n{long}\n```\n\n- item:\n\n  ```sh\n  {long}\n  ```\n",
        "é".repeat(200)
    );
    let expected = ["a.md:2: 201 characters: one sentence per line, 200 at most"];
    assert_eq!(found(words::lines, "a.md", &text), expected);
}

#[test]
fn phrases_are_found_in_documents() {
    // A ~ keeps the phrases out of this file.
    let whole = |text: &str| text.replace('~', "");
    let bad = whole(
        "Waits for~\n> Ever. Who~ever, 'is~ said': he is~ TOLD, they are~ told; comes~ to a\ncall, come~ to a call.\n",
    );
    let phrases = [
        "for~ ever",
        "who~ever",
        "is~ said",
        "is~ told",
        "are~ told",
        "comes~ to a call",
        "come~ to a call",
    ]
    .map(whole);
    let lines = [1, 2, 2, 2, 2, 2, 3];
    let mut expected: Vec<String> = lines
        .iter()
        .zip(phrases)
        .map(|(line, phrase)| format!("a.md:{line}: say '{phrase}' in other words"))
        .collect();
    expected.sort();
    assert_eq!(found(words::phrases, "a.md", &bad), expected);
    let good = "For everybody. That is: said he. This said, who_is_told and `for; ever` are fine. It is. Told so.\n";
    assert_eq!(found(words::phrases, "a.md", good), [""; 0]);
}

#[test]
fn phrases_are_found_in_the_code_of_clean_folders() {
    let rust =
        "//! Waits for\n//! ever.\nconst A: &str = \"it is \\\n    told\";\nfn is_told() {}\n";
    let files = [
        ("a/src/lib.rs", rust),
        ("ab/src/lib.rs", rust),
        ("a/b.py", "\"\"\"Waits for\never.\"\"\"\n"),
    ];
    let owned = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let tree = Tree(owned.into());
    let mut found = Vec::new();
    for (path, text) in words::code(&tree, &["a"]) {
        words::find(path, text, &mut |path, line, _| {
            found.push(format!("{path}:{line}"));
        });
    }
    assert_eq!(found, ["a/src/lib.rs:1", "a/src/lib.rs:3", "a/b.py:1"]);
}

#[test]
fn a_subject_of_one_character_too_many_is_found() {
    let long = "é".repeat(73);
    let commits = format!("abc {}\ndef {long}\n", "é".repeat(72));
    let expected = [format!("commit def: 73 characters: {long}")];
    assert_eq!(commits::too_long(&commits), expected);
}
