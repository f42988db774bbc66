//! Formats durations, sizes and numbers for people. The recorder and the tools use it for messages
//! and reports.

use std::fmt::{self, Display};

/// A duration, formatted with three significant digits and a suitable unit.
pub struct Nanos(pub f64);

impl Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last element is the value from which the next unit is used.
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
        let fits = |&&(_, scale, end): &&(&str, f64, f64)| nanos.abs() / scale < end;
        let (unit, scale, _) = UNITS.iter().find(fits).unwrap_or(&UNITS[UNITS.len() - 1]);
        let value = nanos / scale;
        let digits = match value.abs() {
            _ if *unit == "ns" => 0,
            magnitude if magnitude < 9.995 => 2,
            magnitude if magnitude < 99.95 => 1,
            _ => 0,
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

/// A size in bytes, formatted with three significant digits and a suitable unit.
pub struct Size(pub u64);

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last element is the value from which the next unit is used.
        const UNITS: [(&str, f64, f64); 4] = [
            ("kB", 1e3, 999.5),
            ("MB", 1e6, 999.5),
            ("GB", 1e9, 999.5),
            ("TB", 1e12, f64::INFINITY),
        ];
        if self.0 < 1_000 {
            return write!(f, "{} B", self.0);
        }
        let bytes = self.0 as f64;
        let fits = |&&(_, scale, end): &&(&str, f64, f64)| bytes / scale < end;
        let (unit, scale, _) = UNITS.iter().find(fits).unwrap_or(&UNITS[UNITS.len() - 1]);
        let value = bytes / scale;
        let digits = match value {
            _ if value < 9.995 => 2,
            _ if value < 99.95 => 1,
            _ => 0,
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

/// An integer with thousands separators.
pub struct Grouped(pub i128);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousands = self.0 / 1000;
        if thousands == 0 {
            return write!(f, "{}", self.0);
        }
        write!(f, "{},{:03}", Self(thousands), (self.0 % 1000).abs())
    }
}

/// A number for readers: all digits of an integer below 1e9, otherwise at most four decimals, fewer
/// the larger it is, or an exponent where it is below 0.001 or from 1e6 on.
pub struct Real(pub f64);

impl Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let magnitude = value.abs();
        if !value.is_finite() {
            return write!(f, "{value}");
        }
        if value.fract() == 0.0 && magnitude < 1e9 {
            return Grouped(value as i128).fmt(f);
        }
        if !(1e-3..1e6).contains(&magnitude) {
            return write!(f, "{value:.3e}");
        }
        let digits = match magnitude {
            _ if magnitude < 1.0 => 4,
            _ if magnitude < 10.0 => 3,
            _ if magnitude < 100.0 => 2,
            _ => 1,
        };
        write!(f, "{value:.digits$}")
    }
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
    fn sizes_keep_three_digits_across_units() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (9_995, "10.0 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (12_345_678, "12.3 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(Size(bytes).to_string(), expected);
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
    fn values_that_round_to_another_digit_lose_a_decimal() {
        assert_eq!(Nanos(9_995.0).to_string(), "10.0 µs");
        assert_eq!(Nanos(99_950.0).to_string(), "100 µs");
        assert_eq!(Size(99_950).to_string(), "100 kB");
        assert_eq!(Real(12.5).to_string(), "12.50");
        assert_eq!(Real(123.5).to_string(), "123.5");
    }
}
