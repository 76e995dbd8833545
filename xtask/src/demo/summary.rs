//! The summary: every transport with its checksum, and whether they agree.

use std::fmt::Write;

use super::progress::Ran;
use super::transport::Transport;

/// The result of one transport: that of the solver, or why it did not run.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) transport: Transport,
    pub(super) ranks: u16,
    pub(super) result: Result<Ran, String>,
}

/// Writes the table and the line below it, and returns whether all policies are the same, byte by byte.
pub(super) fn agreement(rows: &[Row]) -> (String, bool) {
    let mut text = format!(
        "{:<14}{:>5}{:>12}{:>9}  policy checksum\n",
        "backend", "ranks", "iterations", "seconds"
    );
    let mut ran: Vec<&Ran> = Vec::new();
    for row in rows {
        let transport = row.transport.to_string();
        // Writing to a string does not fail.
        let _ = match &row.result {
            Ok(run) => {
                ran.push(run);
                writeln!(
                    text,
                    "{transport:<14}{:>5}{:>12}{:>9.1}  {}",
                    row.ranks,
                    run.iterations,
                    run.time.as_secs_f64(),
                    run.checksum
                )
            }
            Err(reason) => writeln!(text, "{transport:<14}not run: {reason}"),
        };
    }
    let same = |a: &Ran, b: &Ran| a.checksum == b.checksum && a.policy == b.policy;
    let agreed = !ran.is_empty() && ran.windows(2).all(|pair| same(pair[0], pair[1]));
    let _ = match (agreed, ran.len()) {
        (_, 0) => write!(text, "nothing could run"),
        (true, 1) => write!(text, "one run: nothing to compare with"),
        (true, count) => write!(
            text,
            "the checksums agree: {count} runs, the same policy to the last bit"
        ),
        (false, _) => write!(text, "the checksums DIFFER: the policies are not the same"),
    };
    (text, agreed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(policies: [(&str, &[u8]); 2]) -> Vec<Row> {
        let rows = policies.map(|(checksum, policy)| Row {
            transport: Transport::Shm,
            ranks: 4,
            result: Ok(Ran {
                checksum: checksum.to_owned(),
                policy: policy.to_vec(),
                ..Ran::default()
            }),
        });
        rows.into()
    }

    #[test]
    fn the_same_policies_agree() {
        let (text, agreed) = agreement(&rows([("1f", &[1]), ("1f", &[1])]));
        assert!(agreed && text.contains("agree: 2 runs"), "{text}");
    }

    #[test]
    fn another_checksum_or_another_file_differs() {
        for other in [("2f", &[1_u8][..]), ("1f", &[2])] {
            let (text, agreed) = agreement(&rows([("1f", &[1]), other]));
            assert!(!agreed && text.contains("DIFFER"), "{text}");
        }
    }

    #[test]
    fn what_did_not_run_is_listed() {
        let mut rows = rows([("1f", &[1]), ("1f", &[1])]);
        rows[1].result = Err("install it".to_owned());
        let (text, agreed) = agreement(&rows);
        assert!(agreed && text.contains("not run: install it"), "{text}");
        assert!(text.contains("nothing to compare with"), "{text}");
    }
}
