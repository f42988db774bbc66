//! Values as people read them.

use std::borrow::Cow;
use std::fmt::{self, Display};

use marey_model::metric::MetricValue;
use marey_query::graph::{Cells, unit_secs};

use super::number::push;

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
        // Rounded, for no power of ten below one is exact.
        unit_secs(key).map_or(Self::Plain, |secs| Self::Time { nanos: (secs * 1e9).round() })
    }
}

/// Appends the cell of a node; nothing if it has no value.
pub(super) fn push_cell(out: &mut String, cells: &Cells, at: usize, unit: Unit) {
    match cells {
        Cells::Numbers { values, .. } if values[at].is_nan() => {}
        Cells::Numbers { values, are_whole: true } => push_whole(out, values[at] as i64, unit),
        Cells::Numbers { values, .. } => push_real(out, values[at], unit),
        Cells::Values(values) => {
            if let Some(value) = &values[at] {
                push_value(out, value, unit);
            }
        }
    }
}

fn push_value(out: &mut String, value: &MetricValue, unit: Unit) {
    match value {
        MetricValue::Int(value) => push_whole(out, *value, unit),
        MetricValue::Float(value) => push_real(out, *value, unit),
        MetricValue::Text(text) => out.push_str(&printable(text)),
        MetricValue::Ints(values) => {
            push_list(out, values, |out, value| push_whole(out, value, unit));
        }
        MetricValue::Floats(values) => {
            push_list(out, values, |out, value| push_real(out, value, unit));
        }
    }
}

fn push_whole(out: &mut String, value: i64, unit: Unit) {
    match unit {
        Unit::Time { nanos } => push(out, format_args!("{}", Nanos(value as f64 * nanos))),
        Unit::Plain => push(out, format_args!("{}", Grouped(value.into()))),
    }
}

/// Appends a number in its unit.
pub(super) fn push_real(out: &mut String, value: f64, unit: Unit) {
    match unit {
        Unit::Time { nanos } => push(out, format_args!("{}", Nanos(value * nanos))),
        Unit::Plain => push(out, format_args!("{}", Real(value))),
    }
}

fn push_list<T: Copy>(out: &mut String, values: &[T], push_one: impl Fn(&mut String, T)) {
    out.push('[');
    for (at, &value) in values.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        push_one(out, value);
    }
    out.push(']');
}

/// A time with three digits and the unit that suits it.
pub(super) struct Nanos(pub(super) f64);

impl Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last column is where values round up to the next unit.
        const UNITS: [(&str, f64, f64); 6] = [
            ("ns", 1.0, 999.5),
            ("µs", 1e3, 999.5),
            ("ms", 1e6, 999.5),
            ("s", 1e9, 99.95),
            ("min", 60e9, 99.95),
            ("h", 3600e9, f64::INFINITY),
        ];
        let nanos = self.0;
        if !nanos.is_finite() {
            return Real(nanos).fmt(f);
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
        write!(f, "{value:.digits$} {unit}")
    }
}

/// A whole number with its thousands apart.
pub(super) struct Grouped(pub(super) i128);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.0 / 1000;
        if rest == 0 {
            return write!(f, "{}", self.0);
        }
        write!(f, "{},{:03}", Self(rest), (self.0 % 1000).abs())
    }
}

/// A real number with four digits that matter, or as a whole one if it is one and not long.
pub(super) struct Real(pub(super) f64);

impl Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let size = value.abs();
        if !value.is_finite() {
            return write!(f, "{value}");
        }
        if value.fract() == 0.0 && size < 1e9 {
            return Grouped(value as i128).fmt(f);
        }
        if !(1e-3..1e6).contains(&size) {
            return write!(f, "{value:.3e}");
        }
        let digits = match size {
            _ if size < 1.0 => 4,
            _ if size < 10.0 => 3,
            _ if size < 100.0 => 2,
            _ => 1,
        };
        write!(f, "{value:.digits$}")
    }
}

/// A text without characters that would move the cursor, colour the terminal or turn around the
/// order of what follows.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| if is_control(c) { c.escape_default().to_string() } else { c.into() };
    Cow::Owned(text.chars().map(show).collect())
}

/// Unicode's control characters, and those that have its property `Bidi_Control`.
fn is_control(c: char) -> bool {
    let is_bidi = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_bidi || c.is_control()
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
            assert_eq!(Nanos(nanos).to_string(), expected, "{nanos}");
        }
    }

    #[test]
    fn numbers_are_short_and_unambiguous() {
        assert_eq!(Grouped(1_234_567).to_string(), "1,234,567");
        assert_eq!(Grouped(1_000_007).to_string(), "1,000,007");
        assert_eq!(Grouped(-123).to_string(), "-123");
        assert_eq!(Grouped(i64::MIN.into()).to_string(), "-9,223,372,036,854,775,808");
        assert_eq!(Real(1.25).to_string(), "1.250");
        assert_eq!(Real(1e9).to_string(), "1.000e9");
        assert_eq!(Real(0.0).to_string(), "0");
        assert_eq!(Real(0.5).to_string(), "0.5000");
        assert_eq!(Real(-123_456.0).to_string(), "-123,456");
        assert_eq!(Real(f64::INFINITY).to_string(), "inf");
    }

    #[test]
    fn units_come_from_the_key() {
        assert_eq!(Unit::of_key("cpu_time (ns)(exc)"), Unit::Time { nanos: 1.0 });
        assert_eq!(Unit::of_key("wait (ms)"), Unit::Time { nanos: 1e6 });
        assert_eq!(Unit::of_key("wait (µs)"), Unit::Time { nanos: 1e3 });
        assert_eq!(Unit::of_key("wait (ms) (inc)"), Unit::Time { nanos: 1e6 });
        assert_eq!(Unit::of_key("time/ms (inc)"), Unit::Plain);
        assert_eq!(Unit::of_key("count"), Unit::Plain);
        let mut text = String::new();
        push_value(&mut text, &MetricValue::Floats(vec![0.5, 2.0]), Unit::Time { nanos: 1e9 });
        assert_eq!(text, "[500 ms, 2.00 s]");
    }

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(printable("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(printable("a\u{202e}b\u{2066}\u{2069}"), "a\\u{202e}b\\u{2066}\\u{2069}");
        assert_eq!(printable("\u{200e}\u{200f}\u{61c}"), "\\u{200e}\\u{200f}\\u{61c}");
        // What joins letters and emoji, and what stands around the ranges, stays.
        for text in ["é", "\u{200d}", "\u{2029}", "\u{202f}", "\u{2065}", "\u{206a}"] {
            assert_eq!(printable(text), text);
        }
    }
}
