//! Progress bars of long tasks, which are shown only on a terminal.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The time after which a task shows a bar.
const BAR_DELAY: Duration = Duration::from_secs(1);

/// A progress bar on stderr. Its drop removes it.
pub(crate) struct Progress {
    task: &'static str,
    start: Instant,
    total_bytes: u64,
    is_terminal: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn reading(file: &Path) -> Self {
        Self::new("reading", fs::metadata(file).map_or(0, |metadata| metadata.len()))
    }

    pub(crate) fn importing(total_bytes: u64) -> Self {
        Self::new("importing", total_bytes)
    }

    /// Returns the bar of a collection, whose total [`Self::set_progress`] sets later.
    pub(crate) fn collecting() -> Self {
        Self::new("collecting", 0)
    }

    pub(crate) fn analyzing() -> Self {
        Self::new("analysing", 0)
    }

    fn new(task: &'static str, total_bytes: u64) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { task, start: Instant::now(), total_bytes, is_terminal, bar: None }
    }

    pub(crate) fn set_position(&mut self, bytes: u64) {
        let total_bytes = self.total_bytes;
        if let Some(bar) = self.bar() {
            bar.set_length(total_bytes);
            bar.set_position(bytes);
        }
    }

    /// Shows how many questions are answered.
    pub(crate) fn set_answered(&mut self, answered: usize) {
        if let Some(bar) = self.bar() {
            bar.set_style(style("{msg}: {pos} questions answered"));
            bar.set_position(answered as u64);
        }
    }

    /// Shows the last phase, whose duration is unknown.
    pub(crate) fn set_last_phase(&mut self, task: &'static str) {
        if let Some(bar) = self.bar() {
            bar.set_style(style("{msg}"));
            bar.set_message(task);
        }
    }

    /// Returns the bar, once the task has taken long enough.
    fn bar(&mut self) -> Option<&ProgressBar> {
        let elapsed = self.start.elapsed();
        if self.bar.is_none() && self.is_terminal && elapsed > BAR_DELAY {
            // The length of a pipe is unknown.
            let template = match self.total_bytes {
                0 => "{msg} {bytes}",
                _ => "{msg} {bar:30} {bytes} of {total_bytes}, {eta} left",
            };
            let bar = ProgressBar::new(self.total_bytes).with_elapsed(elapsed);
            bar.set_style(style(template));
            bar.set_message(self.task);
            self.bar = Some(bar);
        }
        self.bar.as_ref()
    }

    pub(crate) fn set_progress(&mut self, bytes: u64, total_bytes: u64) {
        self.total_bytes = total_bytes;
        self.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_bad_template| ProgressStyle::default_bar())
}
