//! Questions to several processes at the same time, of which some may be wedged.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Time for the answers of all: those that are wedged must not hide the others.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns each of `asked` with the result of `ask`, `None` if there was none in time.
pub(super) fn ask_all<A, R>(asked: Vec<A>, ask: fn(&A) -> R) -> Vec<(Arc<A>, Option<R>)>
where
    A: Send + Sync + 'static,
    R: Send + 'static,
{
    let deadline = Instant::now() + TIMEOUT;
    let asked: Vec<_> = asked.into_iter().map(Arc::new).collect();
    let (sender, answers) = mpsc::sync_channel(asked.len());
    for (index, one) in asked.iter().enumerate() {
        let (sender, one) = (sender.clone(), Arc::clone(one));
        // One that is wedged may keep its thread for ever, until the command ends.
        let asking = move || drop(sender.send((index, ask(&one))));
        drop(thread::Builder::new().spawn(asking));
    }
    drop(sender);
    let mut results: Vec<_> = asked.iter().map(|_| None).collect();
    let remaining = || deadline.saturating_duration_since(Instant::now());
    while let Ok((index, answer)) = answers.recv_timeout(remaining()) {
        results[index] = Some(answer);
    }
    asked.into_iter().zip(results).collect()
}
