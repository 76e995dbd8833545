use super::*;

const SOURCE: &str = r#"
/// Not 7: const PORT: u16 = 7;
pub const PORT: u16 = 29_500;
pub(crate) const BYTES: usize = 64 * 1024;
const MASK: u64 = 3 << 20;
const TIMEOUT: Duration = Duration::from_secs(60);
static HEX: u8 = 0x1fu8;
#[cfg(target_os = "linux")]
const LONG: std::time::Duration = std::time::Duration::from_millis(1_500);
const PARSED: usize = parse();
#[cfg(unix)]
const SPLIT: usize = 1;
#[cfg(not(unix))]
const SPLIT: usize = 2;
pub enum Op {
    Sum,
    #[doc(alias = 'x')]
    Pair(u8, u8),
    Named { a: u8, b: [u8; 2] },
}
enum Opened<T> { One(T), Two = 2 }
"#;

/// Checks one line of prose against [`SOURCE`]; returns the message of its only finding.
fn finding(prose: &str) -> Option<String> {
    let text = format!("# Title\n\n{prose}\n");
    let findings = check(&Tree::of([
        ("docs/a.md", &text),
        ("src/a.rs", SOURCE),
        ("src/b.rs", ""),
    ]));
    assert!(findings.len() <= 1, "{findings:?}");
    let finding = findings.into_iter().next()?;
    assert_eq!(
        (finding.path.as_str(), finding.line),
        ("docs/a.md", Some(3))
    );
    Some(finding.message)
}

#[test]
fn numbers_that_hold_are_accepted() {
    let good = [
        "port 29500 <!-- tidy: const src/a.rs PORT -->",
        "port `29,500`<!-- tidy: const src/a.rs PORT -->",
        "**64 KiB** <!-- tidy: const src/a.rs BYTES --> each",
        "| 3 MiB <!-- tidy: const src/a.rs MASK --> | 60 <!-- tidy: const src/a.rs TIMEOUT --> s |",
        "31 <!-- tidy: const src/a.rs HEX -->",
        "1500 <!-- tidy: const src/a.rs LONG --> ms",
        "3 <!-- tidy: variants src/a.rs Op --> operations",
        "2 <!-- tidy: variants src/a.rs Opened -->",
        "2 <!-- tidy: files src .rs --> files",
    ];
    for prose in good {
        assert_eq!(finding(prose), None, "{prose}");
    }
}

#[test]
fn numbers_that_no_longer_hold_are_found() {
    let bad = [
        (
            "29501 <!-- tidy: const src/a.rs PORT -->",
            "says 29501, but `const src/a.rs PORT` is 29500",
        ),
        (
            "64 MiB <!-- tidy: const src/a.rs BYTES -->",
            "says 67108864, but `const src/a.rs BYTES` is 65536",
        ),
        (
            "4 <!-- tidy: variants src/a.rs Op -->",
            "says 4, but `variants src/a.rs Op` is 3",
        ),
        (
            "3 <!-- tidy: files src .rs -->",
            "says 3, but `files src .rs` is 2",
        ),
    ];
    for (prose, message) in bad {
        assert_eq!(finding(prose).as_deref(), Some(message), "{prose}");
    }
}

#[test]
fn vanished_sources_are_found() {
    let bad = [
        (
            "1 <!-- tidy: const src/a.rs GONE -->",
            "src/a.rs: no constant GONE",
        ),
        (
            "1 <!-- tidy: const src/gone.rs PORT -->",
            "src/gone.rs does not exist",
        ),
        (
            "1 <!-- tidy: variants src/a.rs Gone -->",
            "src/a.rs has no enum Gone",
        ),
        ("0 <!-- tidy: files gone .rs -->", "gone does not exist"),
    ];
    for (prose, message) in bad {
        assert_eq!(finding(prose).as_deref(), Some(message), "{prose}");
    }
}

#[test]
fn what_cannot_be_compared_is_found() {
    let bad = [
        (
            "1 <!-- tidy: const src/a.rs PARSED -->",
            "src/a.rs: the value of PARSED is not one that tidy can read",
        ),
        (
            "1 <!-- tidy: const src/a.rs SPLIT -->",
            "src/a.rs: SPLIT has several values",
        ),
        (
            "many <!-- tidy: const src/a.rs PORT -->",
            "no whole number stands right before the directive",
        ),
        (
            "0.5 <!-- tidy: const src/a.rs PORT -->",
            "no whole number stands right before the directive",
        ),
        (
            "-5 <!-- tidy: const src/a.rs PORT -->",
            "no whole number stands right before the directive",
        ),
        (
            "v2 <!-- tidy: const src/a.rs PORT -->",
            "no whole number stands right before the directive",
        ),
    ];
    for (prose, message) in bad {
        assert_eq!(finding(prose).as_deref(), Some(message), "{prose}");
    }
}

#[test]
fn overflow_is_unreadable_not_wrong() {
    assert_eq!(evaluate("1 << 128"), None);
    assert_eq!(
        evaluate("18446744073709551615 * 18446744073709551615 * 18446744073709551615"),
        None
    );
}

#[test]
fn a_constant_may_open_its_file() {
    assert_eq!(constant("const A: u8 = 1;", "A"), Ok(1));
    assert!(constant("A: u8 = 1;", "A").is_err());
    assert!(constant("no_const A: u8 = 1;", "A").is_err());
}
