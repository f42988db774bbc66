//! The parts of a Chrome trace as Proton writes it: titles, sort indices and arguments of events.
//! Also marey's own part of the document. The recorder and the export use it.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Display;

use crate::context::ROOT_NAME;
use crate::json::{Object, push_quoted, push_value};
use crate::metric::{MetricName, MetricValue};

/// Name of the flows from launches to activities.
pub const LAUNCH_FLOW: &str = "launch->kernel";

/// First thread id of the lanes of streams.
pub const FIRST_STREAM_TID: u32 = 200_000;

/// Version of marey's own part.
const VERSION: u64 = 1;

/// Sort indices reserved for each thread, so that its lanes are adjacent.
pub const SORT_INDICES_PER_THREAD: u64 = 1000;

/// Returns the title of a process: `Trace (rank 3, host)`.
pub fn process_title(rank: Option<impl Display>, host: &str) -> String {
    let rank = rank.map(|rank| format!("rank {rank}"));
    let host = (!host.is_empty()).then(|| host.to_owned());
    let details: Vec<String> = rank.into_iter().chain(host).collect();
    if details.is_empty() { "Trace".to_owned() } else { format!("Trace ({})", details.join(", ")) }
}

/// Returns the title of a lane of a thread: `CPU Thread 5 (2)` is the second lane of a thread
/// without a name.
pub fn lane_title(name: &str, thread: u32, lane: u64) -> String {
    let mut title = if name.is_empty() { format!("CPU Thread {thread}") } else { name.to_owned() };
    if lane > 0 {
        title = format!("{title} ({})", lane + 1);
    }
    title
}

/// Returns the sort index of a lane of a thread. The lanes of the main thread come first.
pub fn lane_sort_index(thread: u32, is_main: bool, lane: u64) -> u64 {
    let position = if is_main { 0 } else { u64::from(thread) + 1 };
    position * SORT_INDICES_PER_THREAD + lane.min(SORT_INDICES_PER_THREAD - 1)
}

/// Adds the names on the path from the root to a context as the call stack.
pub fn write_call_stack<'t>(path: impl IntoIterator<Item = &'t str>, args: &mut Object) {
    args.list("call_stack", |list| {
        push_quoted(ROOT_NAME, list);
        for name in path {
            list.push(b',');
            push_quoted(name, list);
        }
    });
}

/// Adds marey's own part: losses, process, and the bytes of spools that could not be read.
pub fn write_marey_part<'t>(
    losses: impl IntoIterator<Item = (&'t str, u64)>,
    process: &ProcessPart<'_, impl Display>,
    torn_bytes: u64,
    part: &mut Object,
) {
    part.object("losses", |object| {
        for (cause, count) in losses {
            object.member(cause, |text| push_value(count, text));
        }
    });
    part.object("process", |object| {
        object.text("host", process.host);
        object.value("pid", &process.pid);
        match &process.rank {
            Some(rank) => object.value("rank", rank),
            None => object.value("rank", "null"),
        }
        object.value("start_unix_nanos", &process.start_unix_nanos);
    });
    part.number("torn_bytes", torn_bytes);
    part.number("version", VERSION);
}

/// The process of marey's own part.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPart<'a, N> {
    /// Host name.
    pub host: &'a str,
    /// Process id.
    pub pid: N,
    /// Rank in a distributed job.
    pub rank: Option<N>,
    /// Start of the process's recording, in nanoseconds since 1970.
    pub start_unix_nanos: N,
}

/// The metrics of an event by name, each a sum of its values.
#[derive(Debug)]
pub struct Metrics<K>(BTreeMap<K, MetricValue>);

impl<K> Default for Metrics<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Borrow<str> + Ord> Metrics<K> {
    /// Adds a value with the aggregation that the metric's name declares.
    pub fn add<'t>(&mut self, name: &'t str, value: MetricValue)
    where
        K: From<&'t str>,
    {
        match self.0.get_mut(name) {
            Some(sum) => {
                let name = MetricName::parse(name);
                // The recorder has refused and counted values of another type. In a foreign trace
                // the first value is kept.
                drop(sum.update(&value, name.aggregation(), name.key()));
            }
            None => {
                self.0.insert(name.into(), value);
            }
        }
    }

    /// Whether there are no metrics.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the metrics to the arguments of an event.
    pub fn write(&self, args: &mut Object) {
        if !self.is_empty() {
            args.object("metrics", |object| {
                for (name, value) in self.texts() {
                    object.member(name, |text| push_quoted(&value, text));
                }
            });
        }
    }

    /// Returns the title of an event with metrics: `scope: <loss, 0.500000>, <tokens, 3>`.
    pub fn title(&self, scope: &str) -> String {
        let mut title = scope.to_owned();
        for (index, (name, value)) in self.texts().enumerate() {
            let separator = if index == 0 { ":" } else { "," };
            title.extend([separator, " <", name, ", ", &value, ">"]);
        }
        title
    }

    fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| (name.borrow(), format_value(value)))
    }
}

/// Formats a value as Proton does. Everything is text, and a float has six decimals, or as many as
/// it needs.
fn format_value(value: &MetricValue) -> String {
    match value {
        MetricValue::Int(value) => value.to_string(),
        MetricValue::Float(value) => format_float(*value),
        MetricValue::Text(text) => text.to_string(),
        MetricValue::Ints(values) => format_list(values, i64::to_string),
        MetricValue::Floats(values) => format_list(values, |value| shortest_float(*value)),
    }
}

fn format_float(value: f64) -> String {
    if !value.is_finite() {
        return shortest_float(value);
    }
    let six_decimals = format!("{value:.6}");
    let is_exact = six_decimals.parse().is_ok_and(|read: f64| read.to_bits() == value.to_bits());
    if is_exact { six_decimals } else { shortest_float(value) }
}

/// Formats a float with the fewest digits that identify it.
fn shortest_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn format_list<T>(values: &[T], format: impl Fn(&T) -> String) -> String {
    let texts: Vec<String> = values.iter().map(format).collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_as_by_proton() {
        for (value, expected) in [
            (MetricValue::Int(-7), "-7"),
            (MetricValue::Float(0.5), "0.500000"),
            (MetricValue::Float(1e20), "100000000000000000000.000000"),
            (MetricValue::Float(-0.0), "-0.000000"),
            (MetricValue::Float(1e-9), "1e-9"),
            (MetricValue::Float(1.0 / 3.0), "0.3333333333333333"),
            (MetricValue::Float(f64::INFINITY), "inf"),
            (MetricValue::Float(f64::NAN), "nan"),
            (MetricValue::Ints(vec![-1, 2]), "[-1,2]"),
            (MetricValue::Floats(vec![1.0, 0.1, f64::NAN]), "[1,0.1,nan]"),
            (MetricValue::Floats(vec![]), "[]"),
        ] {
            assert_eq!(format_value(&value), expected);
        }
    }

    #[test]
    fn lanes_of_a_thread_follow_each_other_and_those_of_the_main_thread_come_first() {
        let titles = [0, 1].map(|lane| [lane_title("", 5, lane), lane_title("worker", 5, lane)]);
        assert_eq!(titles[0], ["CPU Thread 5", "worker"]);
        assert_eq!(titles[1], ["CPU Thread 5 (2)", "worker (2)"]);
        let lanes = [0, 1, u64::MAX];
        let main = lanes.map(|lane| lane_sort_index(3, true, lane));
        let first = lanes.map(|lane| lane_sort_index(0, false, lane));
        let second = lanes.map(|lane| lane_sort_index(1, false, lane));
        let last = SORT_INDICES_PER_THREAD - 1;
        assert_eq!(main, [0, 1, last]);
        assert_eq!(first, main.map(|index| SORT_INDICES_PER_THREAD + index));
        assert_eq!(second, main.map(|index| 2 * SORT_INDICES_PER_THREAD + index));
    }

    #[test]
    fn the_title_of_an_event_has_its_metrics() {
        let mut metrics: Metrics<String> = Metrics::default();
        metrics.add("tokens", MetricValue::Int(1));
        metrics.add("loss (pty)", MetricValue::Float(1.0));
        metrics.add("tokens", MetricValue::Int(2));
        metrics.add("loss (pty)", MetricValue::Float(0.5));
        assert_eq!(metrics.title("a"), "a: <loss (pty), 0.500000>, <tokens, 3>");
    }
}
