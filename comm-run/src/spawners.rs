//! Threads that start processes side by side.
//!
//! Whoever starts a process waits until its program is loaded, and a failure to load it is known. While one is loaded another can be
//! forked.
//!
//! The parent-death signal goes by thread, so these threads live as long as the job: until they are dropped.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::start::{Leader, Start};

/// Fewer ranks than this are started by the thread that asks: a thread costs as much as a rank.
const WORTH_A_THREAD: usize = 8;
/// More threads would only wait for the same locks of the kernel.
const MOST_THREADS: usize = 4;

type Started = (usize, io::Result<Leader>);

#[derive(Debug)]
pub(crate) struct Spawners {
    /// Gone only while they are dropped.
    starts: Option<Sender<(usize, Start)>>,
    started: Receiver<Started>,
    threads: Vec<JoinHandle<()>>,
}

impl Spawners {
    /// Creates as many as are worth it for so many processes, maybe none.
    pub(crate) fn for_ranks(ranks: usize) -> io::Result<Self> {
        let (starts, queue) = channel();
        let (report, started) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let count = (ranks / WORTH_A_THREAD).min(MOST_THREADS);
        let threads = (0..count).map(|_| {
            let (queue, report) = (Arc::clone(&queue), report.clone());
            let thread = Builder::new().name("comm-run-spawner".into());
            thread.spawn(move || serve(&queue, &report))
        });
        Ok(Self {
            starts: Some(starts),
            started,
            threads: threads.collect::<io::Result<_>>()?,
        })
    }

    /// Starts a process for each; the results are in the same order.
    pub(crate) fn start(&self, starts: Vec<Start>) -> Vec<io::Result<Leader>> {
        let Some(queue) = self.starts.as_ref().filter(|_| !self.threads.is_empty()) else {
            return starts.iter().map(Start::spawn).collect();
        };
        let count = starts.len();
        for start in starts.into_iter().enumerate() {
            // Cannot fail: the queue is there as long as this.
            let _ = queue.send(start);
        }
        let mut results: Vec<Option<io::Result<Leader>>> = (0..count).map(|_| None).collect();
        for (place, leader) in self.started.iter().take(count) {
            results[place] = Some(leader);
        }
        let lost = || Err(io::Error::other("a thread that starts ranks has ended"));
        let results = results.into_iter();
        results.map(|result| result.unwrap_or_else(lost)).collect()
    }
}

impl Drop for Spawners {
    fn drop(&mut self) {
        self.starts = None;
        for thread in self.threads.drain(..) {
            // They cannot panic, and would have told by a lost rank.
            let _ = thread.join();
        }
    }
}

fn serve(queue: &Mutex<Receiver<(usize, Start)>>, report: &Sender<Started>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((place, start)) = next else {
            return;
        };
        if report.send((place, start.spawn())).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::{MOST_THREADS, Spawners, WORTH_A_THREAD};
    use crate::start::tests::start;

    #[test]
    fn processes_come_back_in_order_with_or_without_threads() {
        for ranks in [1, WORTH_A_THREAD, MOST_THREADS * WORTH_A_THREAD] {
            let spawners = Spawners::for_ranks(ranks).unwrap();
            assert_eq!(spawners.threads.len(), ranks / WORTH_A_THREAD);
            for _ in 0..2 {
                let exit = |code: usize| {
                    let program = if code == 3 { "/no/such" } else { "sh" };
                    start(program, &["-c", &format!("exit {code}")])
                };
                let started = spawners.start((0..9).map(exit).collect());
                let codes = started.into_iter().map(|leader| {
                    let ended = waitid(WaitId::Pid(leader.ok()?.pid), WaitIdOptions::EXITED);
                    ended.ok()??.exit_status()
                });
                let expected = (0..9).map(|code| Some(code).filter(|&code| code != 3));
                assert!(codes.eq(expected));
            }
        }
    }
}
