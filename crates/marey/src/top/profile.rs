//! Where a process spends its time, from samples of its threads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clap::ValueEnum;
use marey_attach::{Frame, Thread};
use serde::Serialize;

/// Samples of a process since it was first looked at.
#[derive(Debug, Default)]
pub(super) struct Profile {
    /// Readings of all threads.
    pub(super) readings: u64,
    /// Readings that failed, because the process changed meanwhile.
    pub(super) failed: u64,
    /// Times at which no reading began, because the one before was not over.
    pub(super) skipped: u64,
    /// Number of samples by thread and stack, the innermost frame first.
    stacks: HashMap<(String, Vec<Call>), u64>,
}

/// A call of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    function: String,
    file: String,
    line: i32,
}

/// The part of a program that a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Grouping {
    /// A function.
    Functions,
    /// A line.
    Lines,
    /// A thread.
    Threads,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Order {
    /// Time in the function or line itself.
    Own,
    /// With that of what it calls.
    Total,
    /// By name.
    Name,
}

/// A function, line or thread with its samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    /// Samples in which it was the innermost.
    pub(super) own: u64,
    /// Samples in which it was on the stack.
    pub(super) total: u64,
    /// Function or thread.
    pub(super) name: String,
    /// File, with the line if it is one; empty for a thread.
    pub(super) place: String,
}

impl Grouping {
    pub(super) const ALL: [Self; 3] = [Self::Functions, Self::Lines, Self::Threads];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Functions => "function",
            Self::Lines => "line",
            Self::Threads => "thread",
        }
    }
}

impl Order {
    pub(super) const ALL: [Self; 3] = [Self::Own, Self::Total, Self::Name];
}

impl Profile {
    /// Adds a reading of all threads; those that wait count only if `idle`.
    pub(super) fn add(&mut self, threads: Vec<Thread>, idle: bool) {
        self.readings += 1;
        for thread in threads {
            if (thread.is_running || idle) && !thread.frames.is_empty() {
                let calls = thread.frames.into_iter().map(Call::from).collect();
                *self.stacks.entry((thread.name, calls)).or_default() += 1;
            }
        }
    }

    /// Returns the share of readings that samples are; 1 is a thread that ran all the time.
    pub(super) fn share(&self, samples: u64) -> f64 {
        samples as f64 / self.readings.max(1) as f64
    }

    /// Returns the rows whose name or place contains a text.
    pub(super) fn rows(&self, grouping: Grouping, order: Order, search: &str) -> Vec<Row> {
        let mut rows: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for ((thread, calls), count) in &self.stacks {
            let keys = calls.iter().map(|call| call.key(grouping, thread));
            let mut seen = BTreeSet::new();
            for (index, key) in keys.enumerate() {
                let row = rows.entry(key.clone()).or_default();
                row.0 += if index == 0 { *count } else { 0 };
                // A recursive function is on the stack once.
                row.1 += if seen.insert(key) { *count } else { 0 };
            }
        }
        let search = search.to_lowercase();
        let is_found = |row: &Row| {
            row.name.to_lowercase().contains(&search) || row.place.to_lowercase().contains(&search)
        };
        let mut rows: Vec<Row> = rows
            .into_iter()
            .map(|((name, place), (own, total))| Row { own, total, name, place })
            .filter(is_found)
            .collect();
        // The rows are by name already, and those that are equal stay so.
        match order {
            Order::Own => rows.sort_by_key(|row| u64::MAX - row.own),
            Order::Total => rows.sort_by_key(|row| u64::MAX - row.total),
            Order::Name => {}
        }
        rows
    }

    /// Returns the stacks in the format of `flamegraph.pl`.
    pub(super) fn collapsed(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for ((thread, calls), count) in &self.stacks {
            let calls = calls.iter().rev().map(|call| {
                let Call { function, file, line } = call;
                format!("{file}:{line}@{function}")
            });
            let names: Vec<String> = std::iter::once(thread.clone())
                .chain(calls)
                .map(|name| name.replace(';', ","))
                .collect();
            lines.push(format!("{} {count}\n", names.join(";")));
        }
        lines.sort();
        lines.concat()
    }
}

impl Call {
    /// Returns the name and place of the row of this call.
    fn key(&self, grouping: Grouping, thread: &str) -> (String, String) {
        match grouping {
            Grouping::Functions => (self.function.clone(), self.file.clone()),
            Grouping::Lines => (self.function.clone(), format!("{}:{}", self.file, self.line)),
            Grouping::Threads => (thread.to_owned(), String::new()),
        }
    }
}

impl From<Frame> for Call {
    fn from(frame: Frame) -> Self {
        Self { function: frame.function, file: frame.file, line: frame.line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let call =
            |function: &str, line| Call { function: function.into(), file: "a.py".into(), line };
        let mut profile = Profile { readings: 10, ..Profile::default() };
        for (calls, count) in [
            (vec![call("walk", 3), call("walk", 4), call("main", 9)], 6),
            (vec![call("main", 8)], 2),
        ] {
            profile.stacks.insert(("MainThread".into(), calls), count);
        }
        profile
    }

    fn rows(grouping: Grouping, order: Order, search: &str) -> Vec<(String, u64, u64)> {
        let rows = profile().rows(grouping, order, search).into_iter();
        rows.map(|row| (format!("{} {}", row.name, row.place), row.own, row.total)).collect()
    }

    #[test]
    fn a_recursive_function_counts_once() {
        let walk = ("walk a.py".to_owned(), 6, 6);
        let main = ("main a.py".to_owned(), 2, 8);
        assert_eq!(rows(Grouping::Functions, Order::Own, ""), [walk.clone(), main.clone()]);
        assert_eq!(rows(Grouping::Functions, Order::Total, ""), [main.clone(), walk.clone()]);
        assert_eq!(rows(Grouping::Functions, Order::Name, ""), [main, walk]);
    }

    #[test]
    fn lines_threads_and_searches_have_their_rows() {
        let lines = rows(Grouping::Lines, Order::Own, "WALK");
        assert_eq!(lines, [("walk a.py:3".to_owned(), 6, 6), ("walk a.py:4".to_owned(), 0, 6)]);
        let threads = rows(Grouping::Threads, Order::Own, "");
        assert_eq!(threads, [("MainThread ".to_owned(), 8, 8)]);
        assert!((profile().share(5) - 0.5).abs() < 1e-9);
        let first = "MainThread;a.py:8@main 2\n";
        assert!(profile().collapsed().starts_with(first), "{}", profile().collapsed());
    }
}
