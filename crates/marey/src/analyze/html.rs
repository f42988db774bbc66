//! Writes a report of `marey analyze` as one self-contained HTML page.

use std::io::{self, Write};
use std::time::SystemTime;

use arrow::temporal_conversions::timestamp_s_to_datetime;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use marey_analysis::Report;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The page, with placeholders such as `{{css}}`.
const PAGE: &str = include_str!("page/report.html");
const STYLE: &str = include_str!("page/report.css");
const SCRIPT: &str = concat!(
    include_str!("page/base.js"),
    include_str!("page/table.js"),
    include_str!("page/charts.js"),
    include_str!("page/flame.js"),
    include_str!("page/report.js"),
);

/// The largest integer that JavaScript does not round.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// Writes the page.
pub(super) fn write(report: &Report, title: &str, out: &mut impl Write) -> io::Result<()> {
    let mut report = serde_json::to_value(report)?;
    stringify_large_integers(&mut report);
    report["title"] = json!(title);
    report["created"] = json!(utc_now());
    // Escapes `<`, so that no text of the run can close the script element.
    let json = report.to_string().replace('<', "\\u003c");
    let (style_hash, script_hash) = (hash(STYLE), hash(SCRIPT));
    let replacement = |placeholder: &str| match placeholder {
        "css" => STYLE,
        "js" => SCRIPT,
        "css_sha256" => &style_hash,
        "js_sha256" => &script_hash,
        "json" => &json,
        _ => "",
    };
    // Replaces in one pass, so that a placeholder in a name of the run stays as it is.
    let mut remaining = PAGE;
    while let Some((before, (placeholder, after))) = remaining
        .split_once("{{")
        .and_then(|(before, after)| Some((before, after.split_once("}}")?)))
    {
        out.write_all(before.as_bytes())?;
        out.write_all(replacement(placeholder).as_bytes())?;
        remaining = after;
    }
    out.write_all(remaining.as_bytes())
}

/// Converts integers that JavaScript would round to strings.
fn stringify_large_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if number.as_i64().is_some_and(|integer| integer.unsigned_abs() > MAX_EXACT_INTEGER) {
                *value = Value::String(number.to_string());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(stringify_large_integers),
        Value::Object(fields) => fields.values_mut().for_each(stringify_large_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Returns the hash of a script or style. The Content-Security-Policy of the page allows only
/// these.
fn hash(text: &str) -> String {
    BASE64_STANDARD.encode(Sha256::digest(text))
}

fn utc_now() -> String {
    let secs = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let secs = secs.map_or(0, |since| since.as_secs().cast_signed());
    timestamp_s_to_datetime(secs)
        .map(|now| format!("{}Z", now.format("%Y-%m-%dT%H:%M:%S")))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_javascript_would_round_become_strings() {
        let mut value = json!({"a": [1_u64 << 53, (1_u64 << 53) + 1, -1.5], "b": i64::MIN});
        stringify_large_integers(&mut value);
        let texts =
            json!({"a": [1_u64 << 53, "9007199254740993", -1.5], "b": i64::MIN.to_string()});
        assert_eq!(value, texts);
    }

    #[test]
    fn every_placeholder_of_the_page_is_known() {
        let placeholders =
            PAGE.split("{{").skip(1).map(|remaining| remaining.split("}}").next().unwrap());
        let known = ["js_sha256", "css_sha256", "css", "json", "js"];
        assert_eq!(placeholders.collect::<Vec<_>>(), known);
    }
}
