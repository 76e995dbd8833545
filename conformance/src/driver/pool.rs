//! Several jobs at a time: a job mostly waits, for errors and timeouts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The maximum number of jobs at a time, on any number of processors: some cases depend on timing.
const MOST: usize = 4;

/// Returns how many jobs to run at a time: as many as there are processors, within reason.
pub(super) fn width() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.min(MOST)
}

/// Runs `work` on all items, `width` of them at a time, and passes the results to `each` in the order of the items.
/// Stops early if `each` fails.
pub(super) fn in_order<T: Sync, R: Send, E>(
    items: &[T],
    width: usize,
    work: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..width.clamp(1, items.len().max(1)) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((place, item)) = take(items, next) {
                    if sender.send((place, work(item))).is_err() {
                        // The receiver is gone.
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut places = 0..items.len();
        let mut awaited = places.next();
        for (place, result) in results {
            early.insert(place, result);
            while let Some(at) = awaited
                && let Some(result) = early.remove(&at)
            {
                each(&items[at], result)?;
                awaited = places.next();
            }
        }
        Ok(())
    })
}

fn take<'a, T>(items: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, items.get(place)?))
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::time::Duration;

    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(20);

    #[test]
    fn results_come_in_order_although_the_last_are_ready_first() {
        let both = Barrier::new(2);
        let items = [0, 1];
        let (release, released) = mpsc::channel();
        let released = Mutex::new(released);
        let mut seen = Vec::new();
        let work = |&item: &usize| {
            both.wait();
            if item == 0 {
                released.lock().unwrap().recv_timeout(WATCHDOG).unwrap();
            } else {
                release.send(()).unwrap();
            }
            item
        };
        let each = |&item: &usize, result| {
            seen.push((item, result));
            Ok::<(), ()>(())
        };
        assert_eq!(in_order(&items, 2, work, each), Ok(()));
        assert_eq!(seen, [(0, 0), (1, 1)]);
    }

    #[test]
    fn one_at_a_time_is_one_at_a_time() {
        let running = AtomicUsize::new(0);
        let work = |_: &usize| {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
            running.fetch_sub(1, Ordering::SeqCst);
        };
        let items: Vec<usize> = (0..100).collect();
        let mut count = 0;
        let each = |_: &usize, ()| {
            count += 1;
            if count < 50 { Ok(()) } else { Err("enough") }
        };
        assert_eq!(in_order(&items, 1, work, each), Err("enough"));
        assert_eq!(count, 50);
    }
}
