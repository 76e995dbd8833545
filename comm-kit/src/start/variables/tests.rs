use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{ALL, PREFIX, unknown};

#[test]
fn what_nobody_reads_is_named_with_the_nearest_that_somebody_does() {
    let near = |name: &str| {
        let mut found = unknown([name.into()]);
        assert!(found.len() < 2, "{found:?}");
        let found = found.pop()?;
        Some(found.rsplit_once(' ')?.1.to_owned())
    };
    assert_eq!(
        near("COBRE_COM_BACKEND").as_deref(),
        Some("COBRE_COMM_BACKEND?")
    );
    let timeout = Some("COBRE_SHM_TIMEOUT_SECS?");
    assert_eq!(near("COBRE_SHM_TIMEOUT_SEC").as_deref(), timeout);
    assert_eq!(near("COBRE_SHM_TIMEOUT").as_deref(), timeout);
    let unlike_any = "COBRE_TCP_THE_COLOUR_OF_THE_SKY";
    assert_eq!(near(unlike_any).as_deref(), Some("name"));
    // Programs may have their own variables.
    let others = ["PATH", "XCOBRE_SHM_NAM", "COBRE_THE_COLOUR_OF_THE_SKY"];
    for fine in ALL.into_iter().chain(others) {
        assert_eq!(near(fine), None, "{fine}");
    }
}

/// Compares the table with the sources: every variable in the sources is in the table, and the table holds no
/// other.
#[test]
fn the_table_holds_what_the_sources_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    let mut read = BTreeSet::new();
    let crates = [
        "comm-factory",
        "comm-mpi",
        "comm-run",
        "comm-shm",
        "comm-tcp",
    ];
    for folder in crates {
        collect(&root.join(folder).join("src"), &mut read);
    }
    assert_eq!(read, BTreeSet::from(ALL.map(str::to_owned)));
}

/// Collects every string literal that is exactly the name of one of our variables.
fn collect(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, into);
        } else if !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let words = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
            let whole = |word: &&str| {
                let rest = word.strip_prefix(PREFIX);
                rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
            };
            into.extend(words.filter(whole).map(str::to_owned));
        }
    }
}
