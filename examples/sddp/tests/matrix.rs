//! The determinism matrix: the policy file, with the cuts and the trace of both bounds, has the same bits everywhere.

#[cfg(feature = "mpi")]
pub(crate) mod mpi;

use std::sync::OnceLock;

use libtest_mimic::Trial;

use super::job::{RANK, Transport, policy, prepare, run, scratch};
use super::reversed;

/// A case with two rivers, and with a number of scenarios that 3 and 4 ranks cannot split evenly. It ends because the lower bound
/// converges, so the comparison includes the iteration in which that happens.
pub(crate) const CASE: &str =
    "--stages 9 --plants 5 --openings 5 --scenarios 10 --iterations 40 --tolerance 1e-3";

/// The hash at the end of the policy of this case, the same on every backend and in every version; generating the case uses no
/// functions whose last bit depends on the system.
const WRITTEN: u64 = 0x183b_4475_28a0_2bf9;

/// The transports of the matrix.
fn transports() -> Vec<Transport> {
    let mut transports = vec![Transport::Local];
    transports.extend([2, 3, 4].map(Transport::Shm));
    transports.extend([2, 4].map(Transport::Tcp));
    #[cfg(feature = "mpi")]
    transports.extend([2, 4].map(Transport::Mpi));
    transports
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("matrix::written_down", || Ok(written_down()?)),
        Trial::test("matrix::it_converges_before_the_limit", || Ok(converges()?)),
        Trial::test("matrix::a_reversed_fold_is_noticed", || Ok(noticed()?)),
    ];
    for transport in transports() {
        for threads in [1, 4] {
            let name = format!("matrix::{}, threads {threads}", transport.name());
            trials.push(Trial::test(name, move || Ok(twice(transport, threads)?)));
        }
        let name = format!("matrix::{}, stopped and resumed", transport.name());
        trials.push(Trial::test(name, move || Ok(resumed(transport)?)));
    }
    trials
}

/// Returns the policy of one process and one thread, solved once.
fn reference() -> Result<&'static [u8], String> {
    static REFERENCE: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let reference = REFERENCE.get_or_init(|| {
        let (_folder, file) = scratch()?;
        policy(Transport::Local, CASE, &file)
    });
    reference.as_deref().map_err(Clone::clone)
}

/// Compares a policy with the reference; returns what differs.
fn same(what: &str, bytes: &[u8]) -> Result<(), String> {
    let reference = reference()?;
    if bytes == reference {
        return Ok(());
    }
    let at = bytes.iter().zip(reference).position(|(a, b)| a != b);
    let (len, expected) = (bytes.len(), reference.len());
    Err(format!(
        "{what}: the policy differs from that of one process at byte {at:?} ({len} bytes, not {expected})"
    ))
}

fn twice(transport: Transport, threads: usize) -> Result<(), String> {
    for round in ["once", "twice"] {
        let (_folder, file) = scratch()?;
        let bytes = policy(transport, &format!("{CASE} --threads {threads}"), &file)?;
        same(
            &format!("{}, {threads} threads, {round}", transport.name()),
            &bytes,
        )?;
    }
    Ok(())
}

/// Stops after three iterations and continues from the file, first on the same transport, then on another.
fn resumed(transport: Transport) -> Result<(), String> {
    let stopped = CASE.replace("--iterations 40", "--iterations 3");
    let resumed = format!("{CASE} --resume");
    for other in [transport, Transport::Shm(2)] {
        let (_folder, file) = scratch()?;
        let short = policy(transport, &stopped, &file)?;
        if short.len() >= reference()?.len() {
            return Err("it did not stop in the middle".to_owned());
        }
        let bytes = policy(other, &resumed, &file)?;
        same(
            &format!("{}, then {}", transport.name(), other.name()),
            &bytes,
        )?;
    }
    Ok(())
}

fn written_down() -> Result<(), String> {
    let hash = reference()?.last_chunk().copied().map(u64::from_le_bytes);
    if hash != Some(WRITTEN) {
        return Err(format!(
            "the policy ends with the hash {hash:#x?}, not with {WRITTEN:#x}"
        ));
    }
    Ok(())
}

/// The case must reveal a wrong stopping iteration: it converges after some iterations, before the limit.
fn converges() -> Result<(), String> {
    let ran = run(prepare(Transport::Local, RANK, CASE)?)?;
    if ran.text().contains("the lower bound converged") {
        Ok(())
    } else {
        Err(format!("it ran to the limit:\n{}", ran.text()))
    }
}

/// With blocks in reverse rank order, the folds over the scenarios run backwards: the comparison must notice that.
fn noticed() -> Result<(), String> {
    for (transport, role) in [
        (Transport::Shm(2), reversed::ALL),
        (Transport::Tcp(2), reversed::ALL),
        (Transport::Shm(2), reversed::COSTS),
        (Transport::Shm(2), reversed::EXCHANGES),
        (Transport::Tcp(2), reversed::EXCHANGES),
    ] {
        let (_folder, file) = scratch()?;
        let words = format!("{CASE} --checkpoint {}", file.display());
        let ran = run(prepare(transport, role, &words)?)?;
        if !ran.outcome.success() {
            return Err(format!("it should run, and be wrong:\n{}", ran.text()));
        }
        let bytes = std::fs::read(&file).map_err(|why| why.to_string())?;
        if same("reversed", &bytes).is_ok() {
            return Err(format!("{role} on {}: not noticed", transport.name()));
        }
    }
    Ok(())
}
