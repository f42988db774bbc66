//! Values as people read them.

use std::borrow::Cow;

use marey_model::metric::MetricValue;

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    /// Time, in units of so many nanoseconds.
    Time {
        /// Nanoseconds in a unit.
        nanos: f64,
    },
    /// Anything else.
    Plain,
}

impl Unit {
    /// The unit that stands in parentheses in a metric's key.
    pub(super) fn of_key(key: &str) -> Self {
        let unit = key.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let nanos = match unit.map(|(unit, _)| unit.trim()) {
            Some("ns") => 1.0,
            Some("us" | "µs") => 1e3,
            Some("ms") => 1e6,
            Some("s") => 1e9,
            _ => return Self::Plain,
        };
        Self::Time { nanos }
    }
}

/// A metric's key without what stands in parentheses.
pub(super) fn without_unit(key: &str) -> &str {
    key.split('(').next().map_or(key, str::trim)
}

/// A value for a cell.
pub(super) fn show(value: &MetricValue, unit: Unit) -> String {
    match value {
        MetricValue::Int(value) => number(*value as f64, unit, || grouped(*value)),
        MetricValue::Float(value) => number(*value, unit, || real(*value)),
        MetricValue::Text(text) => printable(text).into_owned(),
        MetricValue::Ints(values) => {
            list(values.iter().map(|value| show(&MetricValue::Int(*value), unit)))
        }
        MetricValue::Floats(values) => {
            list(values.iter().map(|value| show(&MetricValue::Float(*value), unit)))
        }
    }
}

fn number(value: f64, unit: Unit, plain: impl FnOnce() -> String) -> String {
    match unit {
        Unit::Time { nanos } => duration(value * nanos),
        Unit::Plain => plain(),
    }
}

fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

/// A time with three digits and the unit that suits it.
pub(super) fn duration(nanos: f64) -> String {
    // The last column is where values round up to the next unit.
    const UNITS: [(&str, f64, f64); 6] = [
        ("ns", 1.0, 999.5),
        ("µs", 1e3, 999.5),
        ("ms", 1e6, 999.5),
        ("s", 1e9, 99.95),
        ("min", 60e9, 99.95),
        ("h", 3600e9, f64::INFINITY),
    ];
    if !nanos.is_finite() {
        return real(nanos);
    }
    let serves = |&&(_, scale, end): &&(&str, f64, f64)| nanos.abs() / scale < end;
    let (unit, scale, _) = UNITS.iter().find(serves).unwrap_or(&UNITS[UNITS.len() - 1]);
    let value = nanos / scale;
    let digits = match value.abs() {
        _ if *unit == "ns" => 0,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// A whole number with its thousands apart.
pub(super) fn grouped(value: impl Into<i128>) -> String {
    let value = value.into();
    let digits = value.unsigned_abs().to_string();
    let mut text = if value < 0 { String::from("-") } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A real number with four digits that matter, or as a whole one if it is one and not long.
fn real(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return format!("{value}");
    }
    if value.fract() == 0.0 && size < 1e9 {
        return grouped(value as i64);
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = match size {
        _ if size < 1.0 => 4,
        _ if size < 10.0 => 3,
        _ if size < 100.0 => 2,
        _ => 1,
    };
    format!("{value:.digits$}")
}

/// A text without characters that would move the cursor or colour the terminal.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    Cow::Owned(text.chars().map(show).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits_across_units() {
        for (nanos, expected) in [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (999.6, "1.00 µs"),
            (1_234.0, "1.23 µs"),
            (99_960.0, "100 µs"),
            (999_499.0, "999 µs"),
            (999_500.0, "1.00 ms"),
            (15_010_000.0, "15.0 ms"),
            (75.002e9, "75.0 s"),
            (99.96e9, "1.67 min"),
            (7_200e9, "2.00 h"),
            (720_000e9, "200 h"),
            (-1_500.0, "-1.50 µs"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(duration(nanos), expected, "{nanos}");
        }
    }

    #[test]
    fn numbers_are_short_and_unambiguous() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(-123), "-123");
        assert_eq!(grouped(i64::MIN), "-9,223,372,036,854,775,808");
        assert_eq!(real(1.25), "1.250");
        assert_eq!(real(1e9), "1.000e9");
        assert_eq!(real(0.0), "0");
        assert_eq!(real(0.5), "0.5000");
        assert_eq!(real(-123_456.0), "-123,456");
        assert_eq!(real(f64::INFINITY), "inf");
    }

    #[test]
    fn units_come_from_the_key() {
        assert_eq!(Unit::of_key("cpu_time (ns)(exc)"), Unit::Time { nanos: 1.0 });
        assert_eq!(Unit::of_key("wait (ms)"), Unit::Time { nanos: 1e6 });
        assert_eq!(Unit::of_key("count"), Unit::Plain);
        assert_eq!(without_unit("wait (ms)"), "wait");
        assert_eq!(
            show(&MetricValue::Floats(vec![0.5, 2.0]), Unit::Time { nanos: 1e9 }),
            "[500 ms, 2.00 s]"
        );
    }

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(printable("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(printable("é"), "é");
    }
}
