//! A shared case is in memory once, whatever the number of ranks.

use libtest_mimic::Trial;

use super::job::{RANK, Transport, prepare, run};

/// A case of 32 MB, without iterations.
const CASE: &str = "--stages 100 --plants 20 --openings 2000 --iterations 0";
const MEGABYTES: f64 = 32.0;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = Trial::test("memory::shared_once", || Ok(shared_once()?));
    vec![trial.with_ignored_flag(!cfg!(target_os = "linux"))]
}

/// Compares shared regions with copies on the heap of every rank, by the memory of all processes, with shared pages divided.
fn shared_once() -> Result<(), String> {
    let [one, shared, heap] =
        [Transport::Shm(1), Transport::Shm(4), Transport::Tcp(4)].map(|transport| {
            let ran = run(prepare(transport, RANK, CASE)?)?;
            let line = ran.lines.iter().find_map(|line| {
                let number = line.strip_prefix("[0] memory of all ranks: ")?;
                number.strip_suffix(" MB")?.parse::<f64>().ok()
            });
            line.ok_or_else(|| format!("no line about memory:\n{}", ran.text()))
        });
    let (one, shared, heap) = (one?, shared?, heap?);
    // A rank uses a few megabytes besides the case.
    let more = shared - one;
    if more > MEGABYTES / 2.0 {
        return Err(format!(
            "three more ranks cost {more:.1} MB: the case is not shared"
        ));
    }
    if heap - shared < 2.5 * MEGABYTES {
        return Err(format!(
            "{heap:.1} MB on the heap of 4 ranks, {shared:.1} MB shared"
        ));
    }
    println!(
        "case of {MEGABYTES} MB: {one:.1} MB on 1 rank, {shared:.1} MB on 4 that share it, {heap:.1} MB on 4 that do not"
    );
    Ok(())
}
