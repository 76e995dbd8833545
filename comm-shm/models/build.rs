//! Selects the atomics of loom.

fn main() {
    println!("cargo::rustc-cfg=loom");
}
