//! Formats numbers like Python's `format`, because Proton's viewer does so.

use std::fmt::Write;

use marey_model::metric::MetricValue;
use marey_query::graph::Cells;

/// Returns the cell as a number, NaN if it is not a number.
pub(super) fn from_cell(cells: &Cells, node: usize) -> f64 {
    match cells {
        Cells::Numbers { values, .. } => values[node],
        Cells::Values(values) => match &values[node] {
            Some(MetricValue::Int(value)) => *value as f64,
            Some(MetricValue::Float(value)) => *value,
            _ => f64::NAN,
        },
    }
}

/// Appends `format(value, ".{precision}f")`.
pub(super) fn push_fixed(out: &mut String, value: f64, precision: usize) {
    if value.is_finite() {
        push(out, format_args!("{value:.precision$}"));
    } else {
        out.push_str(non_finite_word(value));
    }
}

/// The number of significant digits of [`push_general`].
const SIGNIFICANT_DIGITS: i32 = 4;

/// Appends `format(value, ".4")`. The number has four significant digits, and no trailing zeros
/// except one after the point. It has an exponent if it is below 1e-4 or has four digits before the
/// point.
pub(super) fn push_general(out: &mut String, value: f64) {
    if !value.is_finite() {
        return out.push_str(non_finite_word(value));
    }
    let start = out.len();
    push(out, format_args!("{value:.0$e}", SIGNIFICANT_DIGITS as usize - 1));
    let exponent_start =
        out[start..].find('e').map_or(out.len(), |exponent_start| start + exponent_start);
    let exponent: i32 = out[exponent_start..].trim_start_matches('e').parse().unwrap_or_default();
    if (-SIGNIFICANT_DIGITS..SIGNIFICANT_DIGITS - 1).contains(&exponent) {
        out.truncate(start);
        push(out, format_args!("{value:.0$}", (SIGNIFICANT_DIGITS - 1 - exponent) as usize));
        trim_zeros(out);
        if out.ends_with('.') {
            out.push('0');
        }
    } else {
        out.truncate(exponent_start);
        trim_zeros(out);
        if out.ends_with('.') {
            out.pop();
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        push(out, format_args!("e{sign}{:02}", exponent.abs()));
    }
}

const fn non_finite_word(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "inf",
        f64::NEG_INFINITY => "-inf",
        _ => "nan",
    }
}

fn trim_zeros(out: &mut String) {
    out.truncate(out.trim_end_matches('0').len());
}

/// Appends a formatted text. A write to a `String` cannot fail.
pub(super) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `repr(value)` and `f"{value:.4}"`, printed by Python 3.11.
    const GENERAL: [(&str, &str); 63] = [
        ("0.0", "0.0"),
        ("-0.0", "-0.0"),
        ("1.0", "1.0"),
        ("-1.0", "-1.0"),
        ("5.0", "5.0"),
        ("9.999", "9.999"),
        ("9.9994", "9.999"),
        ("9.9995", "9.999"),
        ("9.9996", "10.0"),
        ("99.99", "99.99"),
        ("99.994", "99.99"),
        ("99.995", "100.0"),
        ("99.996", "100.0"),
        ("100.0", "100.0"),
        ("123.45", "123.5"),
        ("488.28125", "488.3"),
        ("999.4", "999.4"),
        ("999.5", "999.5"),
        ("999.94", "999.9"),
        ("999.95", "1e+03"),
        ("999.96", "1e+03"),
        ("999.9499999", "999.9"),
        ("1000.0", "1e+03"),
        ("1234.5", "1.234e+03"),
        ("1235.5", "1.236e+03"),
        ("12345.678", "1.235e+04"),
        ("99995.0", "1e+05"),
        ("1000000.0", "1e+06"),
        ("1048576.0", "1.049e+06"),
        ("1000000000000000.0", "1e+15"),
        ("1e+16", "1e+16"),
        ("1.7976931348623157e+308", "1.798e+308"),
        ("1e+300", "1e+300"),
        ("0.1", "0.1"),
        ("0.5", "0.5"),
        ("0.25", "0.25"),
        ("0.123456", "0.1235"),
        ("0.00012345", "0.0001234"),
        ("0.000123455", "0.0001235"),
        ("0.0001", "0.0001"),
        ("9.999e-05", "9.999e-05"),
        ("9.9999e-05", "0.0001"),
        ("9.9995e-05", "9.999e-05"),
        ("1e-05", "1e-05"),
        ("5e-324", "4.941e-324"),
        ("2.2250738585072014e-308", "2.225e-308"),
        ("-1e-05", "-1e-05"),
        ("-0.0001", "-0.0001"),
        ("-488.28125", "-488.3"),
        ("-1000000.0", "-1e+06"),
        ("3.141592653589793", "3.142"),
        ("2.718281828459045", "2.718"),
        ("0.3333333333333333", "0.3333"),
        ("0.6666666666666666", "0.6667"),
        ("2.5e-07", "2.5e-07"),
        ("0.012345", "0.01235"),
        ("0.0012345", "0.001234"),
        ("0.0010005", "0.001001"),
        ("1.0005", "1.0"),
        ("1.0015", "1.002"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("-inf", "-inf"),
    ];

    #[test]
    fn four_significant_digits_match_python() {
        for (value, expected) in GENERAL {
            let mut text = String::from("0");
            push_general(&mut text, value.parse().unwrap());
            assert_eq!(text, format!("0{expected}"), "{value}");
        }
    }

    /// `repr(value)` and `f"{value:.3f}"`, printed by Python 3.11.
    const FIXED: [(&str, &str); 12] = [
        ("0.0", "0.000"),
        ("-0.0", "-0.000"),
        ("-0.0001", "-0.000"),
        ("0.0005", "0.001"),
        ("0.0015", "0.002"),
        ("2.0005", "2.001"),
        ("1.0005", "1.000"),
        ("1000000000000000.1", "1000000000000000.125"),
        ("1e+23", "99999999999999991611392.000"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("-inf", "-inf"),
    ];

    #[test]
    fn three_decimal_places_match_python() {
        for (value, expected) in FIXED {
            let mut text = String::new();
            push_fixed(&mut text, value.parse().unwrap(), 3);
            assert_eq!(text, expected, "{value}");
        }
    }
}
