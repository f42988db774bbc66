//! Questions to several processes at the same time, of which some may be wedged.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Time for the answers of all: those that are wedged must not hide the others.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns each of `targets` with the result of `ask`, `None` if there was none in time.
pub(super) fn ask_all<A, R>(targets: Vec<A>, ask: fn(&A) -> R) -> Vec<(Arc<A>, Option<R>)>
where
    A: Send + Sync + 'static,
    R: Send + 'static,
{
    let deadline = Instant::now() + TIMEOUT;
    let targets: Vec<_> = targets.into_iter().map(Arc::new).collect();
    let (sender, answers) = mpsc::sync_channel(targets.len());
    for (index, target) in targets.iter().enumerate() {
        let (sender, target) = (sender.clone(), Arc::clone(target));
        // A target that never answers keeps its thread until the command ends.
        let ask_target = move || drop(sender.send((index, ask(&target))));
        drop(thread::Builder::new().spawn(ask_target));
    }
    drop(sender);
    let mut results: Vec<_> = targets.iter().map(|_| None).collect();
    let remaining = || deadline.saturating_duration_since(Instant::now());
    while let Ok((index, answer)) = answers.recv_timeout(remaining()) {
        results[index] = Some(answer);
    }
    targets.into_iter().zip(results).collect()
}
