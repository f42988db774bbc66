//! Counts samples of the threads of a process by stack, and sums them to rows by function, line or
//! thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use clap::ValueEnum;
use marey_attach::{Frame, Thread};
use serde::Serialize;

/// The maximum number of different stacks, which take some tens of megabytes. Beyond it the stacks
/// with the fewest samples are dropped.
const MAX_STACKS: usize = 50_000;

/// The samples of a process so far. Each reading of the process samples all its threads.
#[derive(Debug, Default)]
pub(super) struct SampledProfile {
    /// Number of readings.
    pub(super) readings: u64,
    /// Number of readings that failed, because the process changed meanwhile.
    pub(super) failed: u64,
    /// Number of times at which no reading began, because the previous one was not finished.
    pub(super) skipped: u64,
    /// Number of samples of rare stacks that were dropped, because there were too many stacks.
    pub(super) dropped: u64,
    /// Number of samples by stack.
    stacks: HashMap<Stack, u64>,
    /// The texts of the stacks, each of which is stored once.
    texts: HashSet<Arc<str>>,
}

/// A thread and its calls, innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stack {
    thread: Arc<str>,
    calls: Box<[StackCall]>,
}

/// A call of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StackCall {
    function: Arc<str>,
    file: Arc<str>,
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
pub(super) enum ProfileOrder {
    /// Time in the function or line itself.
    Own,
    /// Time in the function or line and in what it calls.
    Total,
    /// Name.
    Name,
}

/// A function, line or thread with its samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ProfileRow {
    /// Number of samples in which it was innermost.
    pub(super) own: u64,
    /// Number of samples in which it was on the stack.
    pub(super) total: u64,
    /// Function or thread.
    pub(super) name: String,
    /// File, with the line in a row for a line. Empty for a thread.
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

impl ProfileOrder {
    pub(super) const ALL: [Self; 3] = [Self::Own, Self::Total, Self::Name];
}

impl SampledProfile {
    /// Adds a reading of the threads that are sampled.
    pub(super) fn add(&mut self, threads: Vec<Thread>) {
        self.readings += 1;
        for thread in threads {
            let stack = self.stack(thread);
            *self.stacks.entry(stack).or_default() += 1;
        }
        if self.stacks.len() > MAX_STACKS {
            self.drop_rare_stacks(MAX_STACKS / 2);
        }
    }

    fn stack(&mut self, thread: Thread) -> Stack {
        let call = |frame: Frame| StackCall {
            function: self.text(frame.function),
            file: self.text(frame.file),
            line: frame.line,
        };
        let calls = thread.frames.into_iter().map(call).collect();
        Stack { thread: self.text(thread.name), calls }
    }

    fn text(&mut self, text: String) -> Arc<str> {
        if let Some(stored_text) = self.texts.get(text.as_str()) {
            return Arc::clone(stored_text);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// Keeps the `kept_count` stacks with the most samples, and counts the samples of the others.
    fn drop_rare_stacks(&mut self, kept_count: usize) {
        let mut stacks: Vec<(Stack, u64)> = self.stacks.drain().collect();
        stacks.sort_by_key(|&(_, count)| Reverse(count));
        let rare = stacks.split_off(kept_count.min(stacks.len()));
        self.dropped += rare.iter().map(|(_, count)| count).sum::<u64>();
        drop(rare);
        self.stacks.extend(stacks);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    /// Returns a number of samples as a share of the readings. A thread that ran all the time has
    /// 1.
    pub(super) fn share(&self, samples: u64) -> f64 {
        samples as f64 / self.readings.max(1) as f64
    }

    /// Returns the rows whose name or place contains a text.
    pub(super) fn rows(
        &self,
        grouping: Grouping,
        order: ProfileOrder,
        search: &str,
    ) -> Vec<ProfileRow> {
        let mut rows: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for (Stack { thread, calls }, count) in &self.stacks {
            let keys = calls.iter().map(|call| call.key(grouping, thread));
            let mut seen_keys = BTreeSet::new();
            for (index, key) in keys.enumerate() {
                let row = rows.entry(key.clone()).or_default();
                row.0 += if index == 0 { *count } else { 0 };
                // A recursive function counts once per stack.
                row.1 += if seen_keys.insert(key) { *count } else { 0 };
            }
        }
        let search = search.to_lowercase();
        let matches_search = |row: &ProfileRow| {
            row.name.to_lowercase().contains(&search) || row.place.to_lowercase().contains(&search)
        };
        let mut rows: Vec<ProfileRow> = rows
            .into_iter()
            .map(|((name, place), (own, total))| ProfileRow { own, total, name, place })
            .filter(matches_search)
            .collect();
        // The rows are ordered by name already, and the sort is stable.
        match order {
            ProfileOrder::Own => rows.sort_by_key(|row| u64::MAX - row.own),
            ProfileOrder::Total => rows.sort_by_key(|row| u64::MAX - row.total),
            ProfileOrder::Name => {}
        }
        rows
    }

    /// Returns the stacks in the format of `flamegraph.pl`.
    pub(super) fn collapsed(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (Stack { thread, calls }, count) in &self.stacks {
            let calls = calls.iter().rev().map(|call| {
                let StackCall { function, file, line } = call;
                format!("{file}:{line}@{function}")
            });
            let names: Vec<String> = std::iter::once(thread.to_string())
                .chain(calls)
                .map(|name| name.replace(';', ","))
                .collect();
            lines.push(format!("{} {count}\n", names.join(";")));
        }
        lines.sort();
        lines.concat()
    }
}

impl StackCall {
    /// Returns the name and place of the row of this call.
    fn key(&self, grouping: Grouping, thread: &str) -> (String, String) {
        match grouping {
            Grouping::Functions => (self.function.to_string(), self.file.to_string()),
            Grouping::Lines => (self.function.to_string(), format!("{}:{}", self.file, self.line)),
            Grouping::Threads => (thread.to_owned(), String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> SampledProfile {
        let call = |function: &str, line| StackCall {
            function: function.into(),
            file: "a.py".into(),
            line,
        };
        let mut profile = SampledProfile { readings: 10, ..SampledProfile::default() };
        for (calls, count) in [
            (vec![call("walk", 3), call("walk", 4), call("main", 9)], 6),
            (vec![call("main", 8)], 2),
        ] {
            let calls = calls.into_boxed_slice();
            profile.stacks.insert(Stack { thread: "MainThread".into(), calls }, count);
        }
        profile
    }

    fn rows(grouping: Grouping, order: ProfileOrder, search: &str) -> Vec<(String, u64, u64)> {
        let rows = profile().rows(grouping, order, search).into_iter();
        rows.map(|row| (format!("{} {}", row.name, row.place), row.own, row.total)).collect()
    }

    #[test]
    fn a_recursive_function_counts_once() {
        let walk = ("walk a.py".to_owned(), 6, 6);
        let main = ("main a.py".to_owned(), 2, 8);
        assert_eq!(rows(Grouping::Functions, ProfileOrder::Own, ""), [walk.clone(), main.clone()]);
        assert_eq!(
            rows(Grouping::Functions, ProfileOrder::Total, ""),
            [main.clone(), walk.clone()]
        );
        assert_eq!(rows(Grouping::Functions, ProfileOrder::Name, ""), [main, walk]);
    }

    #[test]
    fn lines_threads_and_searches_have_their_rows() {
        let lines = rows(Grouping::Lines, ProfileOrder::Own, "WALK");
        assert_eq!(lines, [("walk a.py:3".to_owned(), 6, 6), ("walk a.py:4".to_owned(), 0, 6)]);
        let threads = rows(Grouping::Threads, ProfileOrder::Own, "");
        assert_eq!(threads, [("MainThread ".to_owned(), 8, 8)]);
        assert!((profile().share(5) - 0.5).abs() < 1e-9);
        let first = "MainThread;a.py:8@main 2\n";
        assert!(profile().collapsed().starts_with(first), "{}", profile().collapsed());
    }

    #[test]
    fn rare_stacks_are_dropped_and_counted_when_there_are_too_many() {
        let mut profile = profile();
        for line in (0..).take(2 * MAX_STACKS) {
            let text = |text: &str, profile: &mut SampledProfile| profile.text(text.to_owned());
            let (function, file) = (text("run", &mut profile), text("b.py", &mut profile));
            let calls = Box::new([StackCall { function, file, line }]);
            let stack = Stack { thread: text("worker", &mut profile), calls };
            profile.stacks.insert(stack, 1);
        }
        profile.add(Vec::new());
        assert_eq!(profile.stacks.len(), MAX_STACKS / 2);
        let rows = profile.rows(Grouping::Functions, ProfileOrder::Own, "");
        // The stacks with the most samples are kept.
        assert_eq!(
            (&*rows[1].name, rows[1].own, &*rows[2].name, rows[2].own),
            ("walk", 6, "main", 2)
        );
        assert_eq!(profile.dropped + rows[0].own, 2 * MAX_STACKS as u64);
        profile.drop_rare_stacks(0);
        assert!(profile.texts.is_empty());
    }
}
