//! Renders verdicts as the `JUnit` XML that CI servers read, with a test case for each condition.
//!
//! A regression is a failure, an inconclusive condition is a skipped test, and the numbers are
//! properties. No standard defines the format: this is what Ant wrote and what servers accept.

use std::fmt::Write;

use crate::gate::{Outcome, Verdict};

use super::show;

/// Returns the verdicts on a run as an XML 1.0 document in UTF-8.
pub fn junit(before: &str, after: &str, verdicts: &[Verdict]) -> String {
    let count = |outcome| verdicts.iter().filter(|verdict| verdict.outcome == outcome).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"",
        verdicts.len(),
        count(Outcome::Regression),
        count(Outcome::Inconclusive),
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    push(&mut out, format_args!("  <testsuite name=\"marey check\" {counts} time=\"0\">\n"));
    push_properties(&mut out, "    ", &[("before", before.into()), ("after", after.into())]);
    for verdict in verdicts {
        push_case(&mut out, verdict);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn push_case(out: &mut String, verdict: &Verdict) {
    let name = escape(&verdict.expression);
    push(
        out,
        format_args!("    <testcase classname=\"marey.check\" name=\"{name}\" time=\"0\">\n"),
    );
    let unit = verdict.metric.unit();
    let judged_number = |number| show::judged_number(verdict, number);
    let numbers = [
        ("metric", verdict.metric.to_string()),
        ("before", show::value(verdict.before, unit)),
        ("after", show::value(verdict.after, unit)),
        ("judged", judged_number(verdict.change)),
        ("interval", show::interval(verdict.interval, judged_number)),
        ("outcome", verdict.outcome.to_string()),
    ];
    push_properties(out, "      ", &numbers);
    let [.., (_, before), (_, after), (_, value), (_, interval), _] = &numbers;
    let why = &verdict.why;
    let text = format!("before {before}, after {after}; judged {value}, 95 % interval {interval}");
    let (why, text) = (escape(why), escape(&text));
    match verdict.outcome {
        Outcome::Pass => {}
        Outcome::Regression => push(
            out,
            format_args!("      <failure message=\"{why}\" type=\"regression\">{text}</failure>\n"),
        ),
        Outcome::Inconclusive => {
            push(out, format_args!("      <skipped message=\"inconclusive: {why}\"/>\n"));
        }
    }
    out.push_str("    </testcase>\n");
}

fn push_properties(out: &mut String, indent: &str, properties: &[(&str, String)]) {
    push(out, format_args!("{indent}<properties>\n"));
    for (name, value) in properties {
        let value = escape(value);
        push(out, format_args!("{indent}  <property name=\"{name}\" value=\"{value}\"/>\n"));
    }
    push(out, format_args!("{indent}</properties>\n"));
}

#[expect(clippy::let_underscore_must_use, reason = "writing to a String cannot fail")]
fn push(out: &mut String, text: std::fmt::Arguments) {
    let _ = out.write_fmt(text);
}

/// Returns the text escaped for attribute values and content. Characters that XML 1.0 does not
/// allow are dropped.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {}
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn characters_with_a_meaning_in_xml_are_escaped() {
        assert_eq!(
            escape("a<b> & 'c' \"d\"\n"),
            "a&lt;b&gt; &amp; &apos;c&apos; &quot;d&quot;&#10;"
        );
        assert_eq!(escape("\u{0}\u{1b}[31m\u{85}x\u{ffff}"), "[31mx");
    }
}
