//! Converts counter events, and the metrics that Proton writes into events, to rows.

use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::Assembler;
use marey_store::row::Metric;

use super::event::Event;
use super::lexer::Lexer;
use super::number::trim_quotes;
use super::text::unescape;
use super::threads::ThreadIds;
use crate::shared::import::{Import, ReaderError};

/// Adds a value for each series of a counter.
pub(super) fn add(
    event: &Event,
    time_nanos: i64,
    owner: ThreadIds,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let mut counter = event.name().into_owned();
    if let Some(id) = event.id() {
        counter = format!("{counter}[{id}]"); // one counter for each id
    }
    if event.args().next().is_none() {
        import.lose(LossCause::Unreadable, 1, event.offset, "a counter without values");
    }
    for (series, value) in event.args() {
        let is_only_series = series == "value" || series == event.name();
        let name = if is_only_series { counter.clone() } else { format!("{counter}.{series}") };
        add_value(
            &name,
            parse_counter_value(event, value),
            Assembler::ROOT,
            (time_nanos, owner),
            import,
        )?;
    }
    Ok(())
}

/// Adds Proton's metrics, an object in which all values are strings.
pub(super) fn add_metrics(
    metrics: &str,
    context_id: u32,
    (time_nanos, owner): (i64, ThreadIds),
    import: &mut Import,
) -> Result<(), ReaderError> {
    let mut pairs = Vec::new();
    let mut lexer = Lexer::new(metrics.as_bytes());
    let result = lexer.read_object(|lexer, key| {
        let value = lexer.read_value()?;
        pairs.push((unescape(key.slice(metrics)), value.slice(metrics)));
        Ok(())
    });
    debug_assert_eq!(result, Ok(()), "the object was parsed with the event");
    for (name, value) in pairs {
        let value = match value.strip_prefix('"') {
            Some(_) => parse_text_value(&unescape(trim_quotes(value))),
            None => parse_json_value(value),
        };
        add_value(&name, value, context_id, (time_nanos, owner), import)?;
    }
    Ok(())
}

fn add_value(
    name: &str,
    value: MetricValue,
    context_id: u32,
    (time_nanos, owner): (i64, ThreadIds),
    import: &mut Import,
) -> Result<(), ReaderError> {
    let name_id = import.run.text_id(name);
    let row = Metric::new(owner.thread_id, context_id, name_id, time_nanos, value);
    Ok(import.run.add_metric(&row)?)
}

/// Returns the value of a counter. A string stays a text, unless it is a number that JSON cannot
/// represent.
fn parse_counter_value(event: &Event, json: &str) -> MetricValue {
    if json.starts_with('"') {
        let text = event.unquote(json);
        return parse_non_finite(&text)
            .unwrap_or_else(|| MetricValue::Text(text.into_owned().into()));
    }
    parse_json_value(json)
}

fn parse_json_value(json: &str) -> MetricValue {
    parse_list(json).unwrap_or_else(|| parse_text_value(json))
}

/// Returns the number in a text, or the text.
fn parse_text_value(text: &str) -> MetricValue {
    if let Ok(value) = text.parse() {
        return MetricValue::Int(value);
    }
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    match text.parse() {
        Ok(value) if is_number => MetricValue::Float(value),
        _ => parse_non_finite(text)
            .or_else(|| parse_list(text))
            .unwrap_or_else(|| MetricValue::Text(text.into())),
    }
}

/// Returns the infinity or NaN that a text denotes, if it denotes one.
fn parse_non_finite(text: &str) -> Option<MetricValue> {
    let value: f64 = text.parse().ok()?;
    (!value.is_finite()).then_some(MetricValue::Float(value))
}

/// Returns the value of a JSON list of numbers.
fn parse_list(json: &str) -> Option<MetricValue> {
    let inside = json.strip_prefix('[')?.strip_suffix(']')?;
    let numbers = inside.split(',').map(str::trim);
    if let Some(ints) = numbers.clone().map(|number| number.parse().ok()).collect() {
        return Some(MetricValue::Ints(ints));
    }
    numbers.map(|number| number.parse().ok()).collect::<Option<_>>().map(MetricValue::Floats)
}
