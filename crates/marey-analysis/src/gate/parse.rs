//! Parses a condition such as `step_time.p50>+3%` into a [`Gate`]. An error names the column, the
//! problem, and similar names.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::metric::{Metric, Quantity};
use marey_query::near::nearest;

use super::units::units;
use super::{Direction, Gate, Threshold};

/// The reason why a condition cannot be parsed, and its position.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("bad condition `{expression}`, column {column}: {problem}")]
pub struct ParseError {
    /// The condition as written.
    pub expression: String,
    /// The first wrong character, counted from 1.
    pub column: usize,
    /// The problem at that position.
    pub problem: ParseProblem,
}

/// The kinds of problems with a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseProblem {
    /// The comparison is missing.
    NoComparison,
    /// The comparison is not supported, such as `>=`.
    UnsupportedComparison,
    /// No metric has this name.
    UnknownMetric {
        /// The name.
        name: String,
        /// Similar names.
        similar: Vec<String>,
    },
    /// The metric has no such statistic.
    UnknownStatistic {
        /// The metric.
        metric: &'static str,
        /// The statistic.
        name: String,
        /// Similar names.
        similar: Vec<String>,
        /// The statistics of the metric.
        valid_summaries: Vec<String>,
    },
    /// A number is missing.
    NoNumber,
    /// The metric does not have this unit.
    UnknownUnit {
        /// The metric.
        metric: String,
        /// The unit as written.
        unit: String,
        /// The units that are valid.
        valid_units: Vec<&'static str>,
    },
    /// An unsigned percentage for a metric that is not a percentage.
    UnsignedPercent {
        /// The metric.
        metric: String,
        /// The threshold that was probably meant.
        suggestion: String,
    },
}

impl fmt::Display for ParseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoComparison => {
                f.write_str("`>` or `<` is missing; write METRIC>THRESHOLD in quotes, as in 'step_time.p50>+3%'")
            }
            Self::UnsupportedComparison => f.write_str("only `>` and `<` compare"),
            Self::UnknownMetric { name, similar } => {
                write!(f, "no metric `{name}`{}; the metrics are ", DidYouMean(similar))?;
                f.write_str(&Quantity::names().collect::<Vec<_>>().join(", "))
            }
            Self::UnknownStatistic { metric, name, similar, valid_summaries } => {
                write!(f, "`{metric}` has no statistic `{name}`{}; ", DidYouMean(similar))?;
                write!(f, "it has {}", valid_summaries.join(", "))?;
                let has_percentiles = valid_summaries.iter().any(|name| name == "p90");
                f.write_str(if has_percentiles { ", and all other percentiles p1 to p99" } else { "" })
            }
            Self::NoNumber => f.write_str("expected a number, as in +3%, +2ms or 30"),
            Self::UnknownUnit { metric, unit, valid_units } => {
                let units: Vec<_> =
                    valid_units.iter().filter(|unit| !unit.is_empty()).copied().collect();
                match (unit.as_str(), units.is_empty()) {
                    ("", _) => write!(f, "`{metric}` needs a unit: {}", units.join(", ")),
                    (_, true) => write!(f, "`{metric}` is a count and has no unit"),
                    _ => write!(f, "`{metric}` has no unit `{unit}`; use {}", units.join(", ")),
                }
            }
            Self::UnsignedPercent { metric, suggestion } => {
                write!(f, "`{metric}` is not a percentage; for a relative change write `{suggestion}`")
            }
        }
    }
}

struct DidYouMean<'a>(&'a [String]);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            write!(f, "{} `{name}`", if index == 0 { "; did you mean" } else { " or" })?;
        }
        Ok(())
    }
}

impl FromStr for Gate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_gate(text).map_err(|(offset, problem)| ParseError {
            expression: text.to_owned(),
            column: text.get(..offset).unwrap_or(text).chars().count() + 1,
            problem,
        })
    }
}

/// A problem and the byte offset at which it begins.
type OffsetAndProblem = (usize, ParseProblem);

fn parse_gate(text: &str) -> Result<Gate, OffsetAndProblem> {
    let operator_offset =
        text.find(['>', '<', '=']).ok_or((text.trim_end().len(), ParseProblem::NoComparison))?;
    let direction = match &text[operator_offset..=operator_offset] {
        ">" => Direction::Above,
        "<" => Direction::Below,
        _ => return Err((operator_offset, ParseProblem::UnsupportedComparison)),
    };
    let metric = parse_metric(text, operator_offset)?;
    let after_operator = &text[operator_offset + 1..];
    let threshold_offset = text.len() - after_operator.trim_start().len();
    if after_operator.starts_with(['=', '>', '<']) {
        return Err((operator_offset + 1, ParseProblem::UnsupportedComparison));
    }
    let threshold = parse_threshold(text[threshold_offset..].trim_end(), metric).map_err(
        |(offset_in_threshold, problem)| (threshold_offset + offset_in_threshold, problem),
    )?;
    Ok(Gate { expression: text.trim().to_owned(), metric, direction, threshold })
}

fn parse_metric(text: &str, name_end: usize) -> Result<Metric, OffsetAndProblem> {
    let name = text[..name_end].trim();
    let name_offset = text.len() - text.trim_start().len();
    let (name, summary) = match name.split_once('.') {
        Some((name, summary)) => (name, Some((name.len() + 1, summary))),
        None => (name, None),
    };
    let quantity = Quantity::parse(name).ok_or_else(|| {
        let names: Vec<String> = Quantity::names().map(str::to_owned).collect();
        let similar = nearest(name, &names);
        (name_offset.min(name_end), ParseProblem::UnknownMetric { name: name.to_owned(), similar })
    })?;
    let Some((summary_offset, summary)) = summary else { return Ok(quantity.default_metric()) };
    Metric::with_summary(quantity, summary).ok_or_else(|| {
        let valid_summaries: Vec<String> = quantity.summaries().collect();
        let similar = nearest(summary, &valid_summaries);
        let (metric, name) = (quantity.name(), summary.to_owned());
        (
            name_offset + summary_offset,
            ParseProblem::UnknownStatistic { metric, name, similar, valid_summaries },
        )
    })
}

fn parse_threshold(text: &str, metric: Metric) -> Result<Threshold, OffsetAndProblem> {
    let is_change = text.starts_with(['+', '-']);
    let sign_bytes = usize::from(is_change);
    let is_digit_or_point = |letter: char| letter.is_ascii_digit() || letter == '.';
    let digit_count = text[sign_bytes..]
        .find(|letter| !is_digit_or_point(letter))
        .unwrap_or(text.len() - sign_bytes);
    let (number, unit) = text.split_at(sign_bytes + digit_count);
    let number: f64 = number.parse().map_err(|_not_a_number| (0, ParseProblem::NoNumber))?;
    if !number.is_finite() {
        return Err((0, ParseProblem::NoNumber));
    }
    let unit_offset = text.len() - unit.trim_start().len();
    let unit = unit.trim_start();
    if is_change && unit == "%" {
        return Ok(Threshold::Percent(number));
    }
    let units = units(metric.unit(), is_change);
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        let metric = metric.to_string();
        if unit == "%" {
            let suggestion = format!("+{text}");
            return Err((unit_offset, ParseProblem::UnsignedPercent { metric, suggestion }));
        }
        let mut valid_units: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        if is_change {
            valid_units.insert(0, "%");
        }
        return Err((
            unit_offset,
            ParseProblem::UnknownUnit { metric, unit: unit.to_owned(), valid_units },
        ));
    };
    let number = number * scale;
    Ok(if is_change { Threshold::Change(number) } else { Threshold::Value(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, Direction, Threshold) {
        let gate: Gate = text.parse().unwrap();
        (gate.metric.to_string(), gate.direction, gate.threshold)
    }

    #[test]
    fn conditions_parse_with_their_units() {
        use Direction::{Above, Below};
        use Threshold::{Change, Percent, Value};
        for (text, metric, direction, threshold) in [
            ("step_time.p50>+3%", "step_time.p50", Above, Percent(3.0)),
            ("step_time.p99>+2ms", "step_time.p99", Above, Change(2e6)),
            ("gpu_idle.percent>30", "gpu_idle.percent", Above, Value(30.0)),
            ("gpu_idle.percent>30%", "gpu_idle.percent", Above, Value(30.0)),
            ("gpu_idle.percent > +5 pp", "gpu_idle.percent", Above, Change(5.0)),
            ("gpu_memory.peak>+100MB", "gpu_memory.peak", Above, Change(1e8)),
            ("gpu_memory>1.5GiB", "gpu_memory.peak", Above, Value(1.5 * 1024_f64.powi(3))),
            ("gpu_memory.growth>10MB", "gpu_memory.growth", Above, Value(1e7)),
            ("gpu_memory.growing>0", "gpu_memory.growing", Above, Value(0.0)),
            ("exposed_communication.mean>+5%", "exposed_communication.mean", Above, Percent(5.0)),
            ("mfu.percent<-2%", "mfu.percent", Below, Percent(-2.0)),
            ("mfu<40", "mfu.percent", Below, Value(40.0)),
            (" step_time > 20 µs ", "step_time.p50", Above, Value(2e4)),
            ("steps<10", "steps.count", Below, Value(10.0)),
            ("step_time.median>+.5%", "step_time.p50", Above, Percent(0.5)),
        ] {
            assert_eq!(parse(text), (metric.to_owned(), direction, threshold), "{text}");
        }
    }

    #[test]
    fn errors_have_a_column_and_list_the_valid_names() {
        for (text, column, part) in [
            (
                "step_tme.p50>+3%",
                1,
                "did you mean `step_time` or `steps`; the metrics are steps, total_time",
            ),
            ("  stp>3", 3, "no metric `stp`"),
            ("", 1, "`>` or `<` is missing"),
            ("step_time.p50", 14, "'step_time.p50>+3%'"),
            ("step_time.p50>=3ms", 15, "only `>` and `<`"),
            ("step_time=3ms", 10, "only `>` and `<`"),
            (
                "step_time.max>3ms",
                11,
                "has no statistic `max`; it has p50, mean, p90, p99, and all other",
            ),
            ("gpu_memory.peek>3MB", 12, "did you mean `peak`; it has peak, growth, growing"),
            ("step_time.p50>", 15, "expected a number"),
            ("step_time.p50>fast", 15, "expected a number"),
            ("step_time.p50>+-3%", 15, "expected a number"),
            ("step_time.p50>1.2.3ms", 15, "expected a number"),
            ("step_time.p50>30", 17, "needs a unit: ns, us"),
            ("step_time.p50>+3", 17, "needs a unit: %, ns"),
            ("step_time.p50>+3MB", 17, "has no unit `MB`; use %, ns"),
            ("step_time.p50>3%", 16, "write `+3%`"),
            ("kernel_launches>3ms", 18, "is a count and has no unit"),
            ("gpu_idle.percent>+5", 20, "needs a unit: %, pp"),
            ("µµ>3", 1, "no metric `µµ`"),
            (">3", 1, "no metric ``"),
        ] {
            let error = text.parse::<Gate>().unwrap_err();
            assert_eq!(error.column, column, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
