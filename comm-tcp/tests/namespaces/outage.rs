//! A host that is cut off and comes back.

use std::time::{Duration, Instant};

use comm_api::Communicator;
use comm_tcp::TcpBackend;
use rstest::rstest;

use super::assert_lives;
use super::network::{Network, reports};

/// How long a job works during whose calls a link goes away.
const WORK: Duration = Duration::from_secs(18);

/// Works for [`WORK`], a short call after each short computation, or until a call fails; tells how.
pub(crate) fn work(comm: &TcpBackend) -> String {
    let began = Instant::now();
    let mut go_on = [1];
    while go_on == [1] {
        std::thread::sleep(Duration::from_millis(20));
        go_on = [u8::from(began.elapsed() < WORK)];
        if let Err(error) = comm.broadcast(&mut go_on, 0) {
            return error.to_string();
        }
    }
    "ok".to_owned()
}

/// A host is away for 4 to 6 eighths of the timeout, and nobody dies. Whether the job goes on or ends, all ranks say the same.
#[rstest]
fn a_host_that_comes_back_leaves_all_ranks_with_one_outcome(
    #[values(0, 2)] away: usize,
    #[values(4, 5, 6)] seconds: u64,
) {
    let Some(network) = Network::build() else {
        return;
    };
    let children = network.start("outage", &[]);
    std::thread::sleep(Duration::from_secs(2));
    network.cut(away);
    std::thread::sleep(Duration::from_secs(seconds));
    network.join(away);
    let reports = reports(children);
    assert!(reports.iter().all(|it| *it == reports[0]), "{reports:#?}");
    assert_lives(&reports);
    // The judge does not decide within 6/8, of which 1/8 may have passed before.
    assert!(seconds > 4 || reports[0] == "ok", "{reports:#?}");
}
