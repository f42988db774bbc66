//! The log of a thread: a ring buffer of spans, values and arguments on their way to the spool.
//!
//! The owner appends to it inside its events, without a lock. [`super`] drains it. An entry is one
//! record of a [`RingBuffer`]; the elements of vectors and texts follow in further records.

use crate::local::AutogradCall;
use crate::losses;
use crate::ring::{Pushed, RECORD_BYTES, Record, RingBuffer, WORDS_PER_RECORD};
use crate::settings;
use crate::tag::Tag;
use crate::trace::{self, texts};
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::setting::Setting;

/// The log of a thread.
#[derive(Debug)]
pub(crate) struct Log(RingBuffer);

impl Log {
    /// Creates a log of the size that the setting says.
    pub(crate) fn new() -> Self {
        Self::with_records(settings::whole(Setting::TraceBufferBytes) / RECORD_BYTES)
    }

    /// Creates a log with room for this many records.
    pub(crate) fn with_records(records: u64) -> Self {
        Self(RingBuffer::new(records))
    }

    /// Logs a span: a scope that was exited.
    #[inline(always)]
    pub(crate) fn push_span(&self, node: u32, start_ticks: u64, end_ticks: u64, sessions: u64) {
        handle_push(self.0.push([node.into(), start_ticks, end_ticks, sessions]));
    }

    /// Logs a launch that has returned.
    #[inline(always)]
    pub(crate) fn push_launch(
        &self,
        node: u32,
        start_ticks: u64,
        end_ticks: u64,
        sessions: u64,
        correlation_id: u32,
    ) {
        let head =
            u64::from(node) | LAUNCH_TAG << TAG_SHIFT | u64::from(correlation_id) << METRIC_SHIFT;
        let ticks = end_ticks.wrapping_sub(start_ticks) & LAUNCH_TICKS_MASK;
        let correlation_high = u64::from(correlation_id >> 24) << LAUNCH_TICKS_MASK.trailing_ones();
        handle_push(self.0.push([head, start_ticks, ticks | correlation_high, sessions]));
    }

    /// Logs the span of an operator that takes part in a backward pass.
    pub(crate) fn push_autograd_span(
        &self,
        node: u32,
        start_ticks: u64,
        end_ticks: u64,
        sessions: u64,
        call: AutogradCall,
    ) {
        let span = [u64::from(node) | AUTOGRAD_TAG << TAG_SHIFT, start_ticks, end_ticks, sessions];
        let call = [call.sequence, call.forward_os_id, 0, 0];
        handle_push(self.0.push_many(2, |index| if index == 0 { span } else { call }));
    }

    /// Logs the arguments of an open scope. Its node and start identify the span that follows.
    pub(crate) fn push_args(&self, node: u32, start_ticks: u64, args_text_id: u32, sessions: u64) {
        let head = u64::from(node) | ARGS_TAG << TAG_SHIFT;
        handle_push(self.0.push([head, start_ticks, args_text_id.into(), sessions]));
    }

    /// Logs a value that was added to a metric.
    pub(crate) fn push_value(
        &self,
        node: u32,
        time_ticks: u64,
        metric_id: u32,
        value: &MetricValue,
        sessions: u64,
    ) {
        let tag = Tag::for_value(value);
        let bytes = match value {
            MetricValue::Text(text) => texts::text_or_lost(text).as_bytes(),
            _ => &[],
        };
        let bits = match value {
            MetricValue::Int(value) => value.cast_unsigned(),
            MetricValue::Float(value) => value.to_bits(),
            MetricValue::Text(_) => bytes.len() as u64,
            MetricValue::Ints(values) => values.len() as u64,
            MetricValue::Floats(values) => values.len() as u64,
        };
        let head = [pack_head(node, tag, metric_id), time_ticks, bits, sessions];
        let elements = |first: usize| match value {
            MetricValue::Ints(values) => record_words(values, first, i64::cast_unsigned),
            MetricValue::Floats(values) => record_words(values, first, f64::to_bits),
            MetricValue::Text(_) => std::array::from_fn(|offset| word_at(bytes, first + offset)),
            _ => Record::default(),
        };
        let extra_records = tag.extra_words(bits).div_ceil(WORDS_PER_RECORD as u64);
        handle_push(self.0.push_many(1 + extra_records, |index| match index.checked_sub(1) {
            None => head,
            Some(preceding) => elements(preceding as usize * WORDS_PER_RECORD),
        }));
    }

    /// Takes the logged entries, oldest first.
    pub(super) fn drain(&self, decoder: &mut LogDecoder, mut receive: impl FnMut(LogEntry)) {
        self.0.drain(|record| {
            if let Some(entry) = decoder.decode(record) {
                receive(entry);
            }
        });
    }

    /// Drops the logged records and returns their number.
    pub(crate) fn discard(&self) -> u64 {
        self.0.drain(|_| ())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The position of the tag in the first word of a record, above the node.
const TAG_SHIFT: u32 = 32;
/// The position above the tag of the metric, or of a part of the correlation id.
const METRIC_SHIFT: u32 = 40;
/// The tag of a launch's record. The lower 24 bits of the correlation id are above the tag in the
/// first word. Its upper 8 bits are above the duration.
const LAUNCH_TAG: u64 = 0xff;
/// The tag of the first record of an operator in a backward pass. A second record follows.
const AUTOGRAD_TAG: u64 = 0xfe;
/// The tag of the arguments of a scope.
const ARGS_TAG: u64 = 0xfd;
/// The bits that hold a launch's duration.
const LAUNCH_TICKS_MASK: u64 = (1 << 56) - 1;

/// Requests a drain if the log is half full, and counts a loss if it is full.
#[inline(always)]
fn handle_push(pushed: Pushed) {
    match pushed {
        Pushed::WithRoom => {}
        Pushed::BeyondHalf => trace::request_drain(),
        Pushed::Refused => losses::count(LossCause::TraceBuffer),
    }
}

fn record_words<T: Copy>(values: &[T], first: usize, bits: fn(T) -> u64) -> Record {
    std::array::from_fn(|offset| values.get(first + offset).map_or(0, |&value| bits(value)))
}

/// Returns the word at an index of the bytes, padded with zeros.
fn word_at(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; size_of::<u64>()];
    let remaining = bytes.get(index * word.len()..).unwrap_or_default();
    word.iter_mut().zip(remaining).for_each(|(to, &from)| *to = from);
    u64::from_ne_bytes(word)
}

/// Packs node, tag and metric into one word. A metric's id fits into its 24 bits, because the table
/// of names is full before ids need more.
fn pack_head(node: u32, tag: Tag, metric_id: u32) -> u64 {
    u64::from(node) | (tag as u64) << TAG_SHIFT | u64::from(metric_id) << METRIC_SHIFT
}

fn unpack_tag(head: u64) -> Option<Tag> {
    Tag::from_u8((head >> TAG_SHIFT) as u8)
}

/// A scope, or a launch if the correlation id is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LoggedSpan {
    pub(super) node: u32,
    pub(super) start_ticks: u64,
    pub(super) end_ticks: u64,
    pub(super) sessions: u64,
    pub(super) correlation_id: u32,
    pub(super) autograd: Option<AutogradCall>,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LogEntry {
    Span(LoggedSpan),
    /// The arguments of a scope that is still open. `args_text_id` is the id of an interned text.
    Args {
        node: u32,
        start_ticks: u64,
        args_text_id: u32,
    },
    Value {
        node: u32,
        time_ticks: u64,
        metric_id: u32,
        value: MetricValue,
        sessions: u64,
    },
}

/// The assembly of entries from records. It keeps an entry whose records are not complete yet.
#[derive(Debug, Default)]
pub(super) struct LogDecoder {
    /// A vector or text that still lacks elements.
    vector: Option<PartialVector>,
    /// The first record of an operator that takes part in a backward pass.
    autograd: Option<Record>,
}

#[derive(Debug)]
struct PartialVector {
    head: Record,
    elements: Vec<u64>,
}

impl LogDecoder {
    fn decode(&mut self, record: Record) -> Option<LogEntry> {
        if let Some([head, start_ticks, end_ticks, sessions]) = self.autograd.take() {
            let [sequence, forward_os_id, ..] = record;
            return Some(LogEntry::Span(LoggedSpan {
                node: head as u32,
                start_ticks,
                end_ticks,
                sessions,
                autograd: Some(AutogradCall { sequence, forward_os_id }),
                ..LoggedSpan::default()
            }));
        }
        let Some(mut vector) = self.vector.take() else { return self.decode_head(record) };
        vector.elements.extend(record);
        self.finish_vector(vector)
    }

    fn decode_head(&mut self, record: Record) -> Option<LogEntry> {
        let [head, first_word, second_word, sessions] = record;
        let node = head as u32;
        let span = LoggedSpan { node, start_ticks: first_word, sessions, ..LoggedSpan::default() };
        if (head >> TAG_SHIFT) & 0xff == AUTOGRAD_TAG {
            self.autograd = Some(record);
            return None;
        }
        if (head >> TAG_SHIFT) & 0xff == ARGS_TAG {
            return Some(LogEntry::Args {
                node,
                start_ticks: first_word,
                args_text_id: second_word as u32,
            });
        }
        if (head >> TAG_SHIFT) & 0xff == LAUNCH_TAG {
            let end_ticks = first_word.wrapping_add(second_word & LAUNCH_TICKS_MASK);
            let correlation_high = second_word >> LAUNCH_TICKS_MASK.trailing_ones();
            let correlation_id = (head >> METRIC_SHIFT) as u32 | (correlation_high as u32) << 24;
            return Some(LogEntry::Span(LoggedSpan { end_ticks, correlation_id, ..span }));
        }
        let value = match unpack_tag(head) {
            None => return Some(LogEntry::Span(LoggedSpan { end_ticks: second_word, ..span })),
            Some(Tag::Int) => MetricValue::Int(second_word.cast_signed()),
            Some(Tag::Float) => MetricValue::Float(f64::from_bits(second_word)),
            Some(Tag::Text | Tag::Ints | Tag::Floats) => {
                return self.finish_vector(PartialVector { head: record, elements: Vec::new() });
            }
        };
        Some(value_entry(record, value))
    }

    /// Returns the entry of a vector or text once all of its elements have been read.
    fn finish_vector(&mut self, mut vector: PartialVector) -> Option<LogEntry> {
        let [head, _, len, _] = vector.head;
        let tag = unpack_tag(head)?;
        let word_count = tag.extra_words(len);
        if (vector.elements.len() as u64) < word_count {
            self.vector = Some(vector);
            return None;
        }
        vector.elements.truncate(word_count as usize);
        let elements = vector.elements.into_iter();
        let value = match tag {
            Tag::Text => {
                let mut bytes: Vec<u8> = elements.flat_map(u64::to_ne_bytes).collect();
                bytes.truncate(len as usize);
                MetricValue::Text(String::from_utf8_lossy(&bytes).into())
            }
            Tag::Ints => MetricValue::Ints(elements.map(u64::cast_signed).collect()),
            _ => MetricValue::Floats(elements.map(f64::from_bits).collect()),
        };
        Some(value_entry(vector.head, value))
    }
}

/// Returns the entry of a value by its first record.
fn value_entry([head, time_ticks, _, sessions]: Record, value: MetricValue) -> LogEntry {
    let (node, metric_id) = (head as u32, (head >> METRIC_SHIFT) as u32);
    LogEntry::Value { node, time_ticks, metric_id, value, sessions }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(log: &Log) -> Vec<LogEntry> {
        let mut entries = Vec::new();
        log.drain(&mut LogDecoder::default(), |entry| entries.push(entry));
        entries
    }

    #[test]
    fn logged_entries_are_taken_unchanged() {
        let log = Log::with_records(128);
        let values = [
            MetricValue::Int(-3),
            MetricValue::Float(0.5),
            MetricValue::Text("".into()),
            MetricValue::Text("eight by".into()),
            MetricValue::Text("thirty-two bytes and some; ä".into()),
            MetricValue::Text("x".repeat(1000).into()),
            MetricValue::Ints(vec![]),
            MetricValue::Ints(vec![i64::MIN, 2, 3, 4, 5]),
            MetricValue::Floats(vec![0.25, -0.0, f64::INFINITY, 1e300]),
        ];
        log.push_span(7, 10, 20, 1 << 63);
        log.push_launch(u32::MAX, 10, 20, 1, u32::MAX);
        let call = AutogradCall { sequence: u64::MAX, forward_os_id: 9 };
        log.push_autograd_span(u32::MAX, 10, 20, 1 << 63, call);
        let span = |node, sessions| LoggedSpan {
            node,
            start_ticks: 10,
            end_ticks: 20,
            sessions,
            ..LoggedSpan::default()
        };
        let mut expected = vec![
            LogEntry::Span(span(7, 1 << 63)),
            LogEntry::Span(LoggedSpan { correlation_id: u32::MAX, ..span(u32::MAX, 1) }),
            LogEntry::Span(LoggedSpan { autograd: Some(call), ..span(u32::MAX, 1 << 63) }),
        ];
        log.push_args(u32::MAX, 10, u32::MAX, 1 << 63);
        expected.push(LogEntry::Args { node: u32::MAX, start_ticks: 10, args_text_id: u32::MAX });
        for (metric_id, value) in (0xff_fff0..).zip(values) {
            log.push_value(u32::MAX, 15, metric_id, &value, 3);
            expected.push(LogEntry::Value {
                node: u32::MAX,
                time_ticks: 15,
                metric_id,
                value,
                sessions: 3,
            });
        }
        assert_eq!(entries(&log), expected);
        assert!(log.is_empty());
    }

    #[test]
    fn an_entry_that_does_not_fit_is_left_out_entirely() {
        let log = Log::with_records(4);
        log.push_value(1, 1, 1, &MetricValue::Ints(vec![1; 100]), 1);
        log.push_span(2, 2, 2, 1);
        let span = LoggedSpan {
            node: 2,
            start_ticks: 2,
            end_ticks: 2,
            sessions: 1,
            ..LoggedSpan::default()
        };
        assert_eq!(entries(&log), [LogEntry::Span(span)]);
    }
}
