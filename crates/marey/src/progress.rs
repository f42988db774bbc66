//! How far a long task has come, on a terminal.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// What takes less needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar for reading a file, gone when it is dropped.
pub(crate) struct Reading {
    since: Instant,
    total_bytes: u64,
    is_wanted: bool,
    bar: Option<ProgressBar>,
}

impl Reading {
    pub(crate) fn of(file: &Path) -> Self {
        Self {
            since: Instant::now(),
            total_bytes: fs::metadata(file).map_or(0, |metadata| metadata.len()),
            is_wanted: io::stderr().is_terminal(),
            bar: None,
        }
    }

    pub(crate) fn at(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        } else if self.is_wanted && self.since.elapsed() > PATIENCE {
            self.bar = Some(bar(self.total_bytes));
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(total_bytes: u64) -> ProgressBar {
    let template = "reading {bar:30} {bytes} of {total_bytes}, {eta} left";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(total_bytes);
    bar.set_style(style.unwrap_or_else(|_bad_template| ProgressStyle::default_bar()));
    bar
}
