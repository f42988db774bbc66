//! The intern tables of the process: names, metric names, and texts that are metric values. Each
//! string gets an id.
//!
//! The event path does not use these tables, because bindings keep the id of a name beside the
//! name.

use crate::lock::{read, write};
use crate::losses;
use marey_model::{loss::LossCause, metric::MetricName};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

/// The name that stands for one that was not kept.
pub(crate) const LOST_NAME: &str = "<lost>";
/// The id of [`LOST_NAME`].
pub(crate) const LOST_NAME_ID: u32 = 1;
/// The id of a text for which there was no memory left. No text has it.
const LOST_TEXT_ID: u32 = u32::MAX;
/// The maximum size of a table in bytes.
const MAX_BYTES: usize = 64 << 20;

static NAMES: LazyLock<RwLock<InternTable<Arc<str>>>> = LazyLock::new(|| {
    let mut table = InternTable::default();
    // Id 0 means "no name". The empty string is a name and gets an id of its own.
    table.values.push(Arc::from(""));
    table.insert(LOST_NAME, Arc::from(LOST_NAME));
    RwLock::new(table)
});

/// The texts that are metric values. They have a table of their own, so that they cannot use up the
/// space for names.
static TEXTS: LazyLock<RwLock<InternTable<Arc<str>>>> = LazyLock::new(RwLock::default);

static METRICS: LazyLock<RwLock<InternTable<InternedMetric>>> = LazyLock::new(RwLock::default);

/// A metric's name, parsed and as the user writes it.
#[derive(Clone)]
struct InternedMetric {
    name: Arc<MetricName>,
    text: Arc<str>,
}

struct InternTable<T> {
    ids: HashMap<Box<str>, u32>,
    values: Vec<T>,
    bytes: usize,
}

impl<T> Default for InternTable<T> {
    fn default() -> Self {
        Self { ids: HashMap::new(), values: Vec::new(), bytes: 0 }
    }
}

impl<T: Clone> InternTable<T> {
    fn insert(&mut self, name: &str, value: T) -> u32 {
        let id = self.values.len() as u32;
        self.bytes += 2 * name.len() + 64;
        self.values.push(value);
        self.ids.insert(name.into(), id);
        id
    }
}

/// Returns the id of a name.
pub fn intern(name: &str) -> u32 {
    intern_in(&NAMES, name, |name| Arc::from(name)).unwrap_or(LOST_NAME_ID)
}

/// Returns the name with this id.
pub fn name(id: u32) -> Arc<str> {
    let table = read(&NAMES);
    table.values.get(id as usize).cloned().unwrap_or_else(|| Arc::from(LOST_NAME))
}

/// Returns the id of a text that is a metric value.
pub fn intern_text(text: &str) -> u32 {
    intern_in(&TEXTS, text, |text| Arc::from(text)).unwrap_or(LOST_TEXT_ID)
}

/// Returns the text with this id.
pub(crate) fn text(id: u32) -> Arc<str> {
    let table = read(&TEXTS);
    table.values.get(id as usize).cloned().unwrap_or_else(|| Arc::from(LOST_NAME))
}

/// Returns the id of a metric's name as the user writes it, suffix included. `None` if the table is
/// full.
pub fn intern_metric(name: &str) -> Option<u32> {
    intern_in(&METRICS, name, |name| InternedMetric {
        name: Arc::new(MetricName::parse(name)),
        text: Arc::from(name),
    })
}

/// Returns the metric name with this id, parsed.
pub(crate) fn metric(id: u32) -> Option<Arc<MetricName>> {
    let table = read(&METRICS);
    table.values.get(id as usize).map(|metric| Arc::clone(&metric.name))
}

/// Returns the metric name with this id, as the user writes it.
pub(crate) fn metric_text(id: u32) -> Arc<str> {
    let table = read(&METRICS);
    let text = table.values.get(id as usize).map(|metric| Arc::clone(&metric.text));
    text.unwrap_or_else(|| Arc::from(LOST_NAME))
}

fn intern_in<T: Clone>(
    table: &RwLock<InternTable<T>>,
    name: &str,
    make_value: impl Fn(&str) -> T,
) -> Option<u32> {
    let lookup = |table: &InternTable<T>| table.ids.get(name).copied();
    if let Some(id) = lookup(&read(table)) {
        return Some(id);
    }
    let mut table = write(table);
    if let Some(id) = lookup(&table) {
        return Some(id);
    }
    if table.bytes + name.len() > MAX_BYTES {
        losses::count(LossCause::Names);
        return None;
    }
    Some(table.insert(name, make_value(name)))
}

/// Takes the tables' locks for the duration of a fork. Otherwise the child could inherit a lock
/// whose holder does not exist in it.
pub(crate) fn lock_for_fork() -> impl Sized {
    (write(&NAMES), write(&TEXTS), write(&METRICS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        let a = intern("names::a");
        assert_eq!(a, intern("names::a"));
        assert_ne!(a, intern("names::b"));
        assert_ne!(intern(""), 0);
        assert_eq!(&*name(intern("")), "");
        assert_eq!(&*name(a), "names::a");
        assert_eq!(&*name(LOST_NAME_ID), LOST_NAME);
        assert_eq!(&*name(u32::MAX), LOST_NAME);
    }
}
