//! Formats numbers with their units as text, for tables and comments.

use marey_model::quantity::{Nanos, Real, Size};

use crate::gate::{Threshold, Verdict};
use crate::metric::Unit;
use crate::stats::Interval;

/// The placeholder for a number that is not known.
pub(super) const UNKNOWN: &str = "–";

/// Returns a value of a metric as text.
pub fn value(number: Option<f64>, unit: Unit) -> String {
    let Some(number) = number else { return UNKNOWN.into() };
    match unit {
        Unit::Count => Real(number).to_string(),
        Unit::Nanos => Nanos(number).to_string(),
        Unit::Bytes => size(number),
        Unit::BytesPerStep => format!("{}/step", size(number)),
        Unit::Percent => format!("{number:.1} %"),
        Unit::Flag => if number > 0.0 { "yes" } else { "no" }.into(),
    }
}

/// Returns a change of a metric as text, with its sign.
pub fn change(number: Option<f64>, unit: Unit) -> String {
    let Some(number) = number else { return UNKNOWN.into() };
    match unit {
        Unit::Flag => match number.total_cmp(&0.0) {
            std::cmp::Ordering::Equal => "same",
            std::cmp::Ordering::Greater => "now",
            std::cmp::Ordering::Less => "no more",
        }
        .into(),
        Unit::Percent => format!("{number:+.1} pp"),
        _ => signed(number, &value(Some(number), unit)),
    }
}

/// Returns a change in per cent of the value before as text.
pub fn percent(number: Option<f64>) -> String {
    match number {
        None => UNKNOWN.into(),
        Some(number) if number.is_infinite() => if number > 0.0 { "+∞" } else { "-∞" }.into(),
        Some(number) => format!("{number:+.1} %"),
    }
}

/// Returns an interval as text: its two ends, each formatted by `show_end`.
pub fn interval(interval: Option<Interval>, show_end: impl Fn(Option<f64>) -> String) -> String {
    interval.map_or(UNKNOWN.into(), |Interval { low, high }| {
        format!("{} to {}", show_end(Some(low)), show_end(Some(high)))
    })
}

/// Returns the number that was compared with a verdict's threshold, or an end of its interval, as
/// text.
pub fn judged_number(verdict: &Verdict, number: Option<f64>) -> String {
    match verdict.threshold {
        Threshold::Value(_) => value(number, verdict.metric.unit()),
        Threshold::Change(_) => change(number, verdict.metric.unit()),
        Threshold::Percent(_) => percent(number),
    }
}

fn signed(number: f64, shown: &str) -> String {
    if number > 0.0 { format!("+{shown}") } else { shown.to_owned() }
}

fn size(bytes: f64) -> String {
    let sign = if bytes < 0.0 { "-" } else { "" };
    format!("{sign}{}", Size(bytes.abs() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_and_changes_have_signs() {
        assert_eq!(value(Some(1.5e6), Unit::Nanos), "1.50 ms");
        assert_eq!(change(Some(1.5e6), Unit::Nanos), "+1.50 ms");
        assert_eq!(change(Some(-1.5e6), Unit::Nanos), "-1.50 ms");
        assert_eq!(change(Some(-2e6), Unit::BytesPerStep), "-2.00 MB/step");
        assert_eq!(change(Some(0.0), Unit::Bytes), "0 B");
        assert_eq!(change(Some(2.0), Unit::Percent), "+2.0 pp");
        assert_eq!(change(Some(1.0), Unit::Flag), "now");
        assert_eq!(value(Some(1.0), Unit::Flag), "yes");
        assert_eq!(value(None, Unit::Count), "–");
        assert_eq!(percent(Some(f64::INFINITY)), "+∞");
        let between = Some(Interval { low: -1.0, high: 2.0 });
        assert_eq!(interval(between, percent), "-1.0 % to +2.0 %");
    }
}
