//! Who uses this backend pays for no other: neither an MPI library nor mapped files come along.

use std::process::Command;

#[test]
fn no_other_backend_comes_along() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && tree.starts_with("comm-tcp"),
        "{tree}"
    );
    for foreign in ["ferrompi", "memmap2", "comm-shm", "comm-mpi", "tokio"] {
        let found = tree
            .lines()
            .find(|line| line.split(' ').next() == Some(foreign));
        assert_eq!(found, None, "{foreign} is a dependency");
    }
}
