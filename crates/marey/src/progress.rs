//! How far a long task has come, on a terminal.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// What takes less needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar on stderr, gone when it is dropped.
pub(crate) struct Progress {
    task: &'static str,
    since: Instant,
    total_bytes: u64,
    is_wanted: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn of_reading(file: &Path) -> Self {
        Self::new("reading", fs::metadata(file).map_or(0, |metadata| metadata.len()))
    }

    pub(crate) fn of_importing(total_bytes: u64) -> Self {
        Self::new("importing", total_bytes)
    }

    /// What is to do becomes known as it is done.
    pub(crate) fn of_collecting() -> Self {
        Self::new("collecting", 0)
    }

    fn new(task: &'static str, total_bytes: u64) -> Self {
        let is_wanted = io::stderr().is_terminal();
        Self { task, since: Instant::now(), total_bytes, is_wanted, bar: None }
    }

    pub(crate) fn at(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(self.total_bytes);
            bar.set_position(bytes);
        } else if self.is_wanted && self.since.elapsed() > PATIENCE {
            self.bar = Some(bar(self.task, self.total_bytes));
        }
    }

    pub(crate) fn at_of(&mut self, bytes: u64, total_bytes: u64) {
        self.total_bytes = total_bytes;
        self.at(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(task: &'static str, total_bytes: u64) -> ProgressBar {
    let template = "{msg} {bar:30} {bytes} of {total_bytes}, {eta} left";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(total_bytes).with_message(task);
    bar.set_style(style.unwrap_or_else(|_bad_template| ProgressStyle::default_bar()));
    bar
}
