//! The arguments of `marey view`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use marey_query::graph::{Filter, NameStyle, Threshold};

use super::choose::MetricRequest;
use super::rows::SiblingOrder;
use crate::output::Failure;

const EXAMPLES: &str = "\
Examples:
  marey view train.hatchet                             Show the main metrics of a profile
  marey view --sort value -t 1% train.hatchet          Show nodes with at least 1 %, largest first
  marey view -m total/ms,p99/us train.hatchet | less   Print lines, like proton-viewer
  marey view a.hatchet b.hatchet                       Show profiles side by side
  marey view train.marey                               Show the sums of a run or trace
  marey view --diff-profile before.hatchet after.hatchet
  marey view --json train.hatchet | jq .               Print JSON for programs

Metrics of files from marey: total, self, calls, min, max, p50, p90, p99. Times are wall times of a
scope including everything inside it; `self` excludes inner scopes. Derived metrics, where the file
has their sources: time/s (ms, us, ns), avg_time/s, cpu_time/s, flop/s, gflop16/s, tbyte/s and the
like, util, and METRIC/% of any metric.";

/// Default of --depth for text.
const DEFAULT_LEVELS: usize = 100;

/// Arguments of `marey view`.
#[derive(Args)]
#[command(version, display_name = "marey view", after_help = EXAMPLES)]
#[command(infer_long_args = true, args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ViewArgs {
    /// Profiles, runs, or files of other formats; several are shown side by side
    #[arg(required_unless_present = "list_backends", value_name = "FILE")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) files: Vec<PathBuf>,

    /// List the metrics of each file
    // Proton's abbreviations, which --list-backends and --layout would make ambiguous.
    #[arg(short, long, aliases = ["l", "li", "lis"], conflicts_with_all = ["json", "csv"])]
    pub(super) list: bool,

    /// Metrics to show, separated by commas; --threshold and --sort use the first
    #[arg(short, long, value_name = "METRICS")]
    metrics: Option<String>,

    /// Show nodes whose names match REGEX from the start, with their ancestors and descendants
    #[arg(short, long, value_name = "REGEX")]
    include: Option<String>,

    /// Hide nodes whose names match REGEX from the start, with their descendants
    #[arg(short, long, value_name = "REGEX")]
    exclude: Option<String>,

    /// Show nodes of at least VALUE, such as `5000` or `1%` of the total, with their ancestors
    #[arg(short, long, value_name = "VALUE", value_parser = parse_threshold, allow_hyphen_values = true)]
    threshold: Option<ThresholdArg>,

    /// Show at most N levels; ROOT is the first [default: 100, or all as JSON and CSV]
    #[arg(short, long, value_name = "N", value_parser = parse_whole_number, allow_hyphen_values = true)]
    depth: Option<i64>,

    /// Parts to show of names such as `/home/me/train.py:12@forward`
    #[arg(short, long, value_name = "FORMAT", default_value = "full")]
    format: NameFormat,

    /// Also list the nodes by the first metric, after the tree
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(super) print_sorted: bool,

    /// Show the changes since the profile FILE; also spelled -diff
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) diff_profile: Option<PathBuf>,

    /// Order of siblings [default: first-seen, or name as lines]
    #[arg(long, value_name = "ORDER")]
    sort: Option<Sort>,

    /// Text layout: a table, or lines like proton-viewer [default: lines in a pipe with --metrics,
    /// else table]
    #[arg(long, value_name = "LAYOUT", conflicts_with_all = ["json", "csv"])]
    layout: Option<TextForm>,

    /// Print a JSON object for each file, with all metrics unless --metrics is given
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,

    /// Print CSV, with all metrics unless --metrics is given
    #[arg(long, conflicts_with = "list_backends")]
    csv: bool,

    /// List the values of `marey.start(backend=...)` and whether each can start here
    #[arg(long)]
    pub(super) list_backends: bool,
}

/// Output form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputForm {
    Lines,
    Table,
    Json,
    Csv,
}

// Variants have no doc comments, which keeps `--help` short.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum NameFormat {
    Full,
    FileFunctionLine,
    FunctionLine,
    FileFunction,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    Name,
    FirstSeen,
    Value,
}

#[derive(Clone, Copy, ValueEnum)]
enum TextForm {
    Table,
    Lines,
}

impl ViewArgs {
    /// Fails on options that contradict each other.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let failure = |message: &str| Err(Failure::new(message));
        if non_empty(self.include.as_deref()).is_some()
            && non_empty(self.exclude.as_deref()).is_some()
        {
            return failure("--include and --exclude cannot be used together");
        }
        if self.diff_profile.is_some() && self.files.len() > 1 {
            return failure("--diff-profile takes exactly one other file");
        }
        Ok(())
    }

    pub(super) fn form(&self, is_terminal: bool) -> OutputForm {
        match self.layout {
            _ if self.json => OutputForm::Json,
            _ if self.csv => OutputForm::Csv,
            Some(TextForm::Lines) => OutputForm::Lines,
            // Columns of several files need headings.
            None if self.requested_metrics().is_some() && !is_terminal && self.files.len() < 2 => {
                OutputForm::Lines
            }
            Some(TextForm::Table) | None => OutputForm::Table,
        }
    }

    pub(super) fn request(&self, form: OutputForm) -> MetricRequest<'_> {
        match (self.requested_metrics(), form) {
            (Some(metrics), _) => MetricRequest::Named(metrics.split(',').collect()),
            (None, OutputForm::Json | OutputForm::Csv) => MetricRequest::All,
            (None, OutputForm::Lines | OutputForm::Table) => MetricRequest::Default,
        }
    }

    fn requested_metrics(&self) -> Option<&str> {
        non_empty(self.metrics.as_deref())
    }

    pub(super) fn order(&self, form: OutputForm) -> SiblingOrder {
        match self.sort {
            Some(Sort::Name) => SiblingOrder::Name,
            Some(Sort::Value) => SiblingOrder::Value,
            None if form == OutputForm::Lines => SiblingOrder::Name,
            Some(Sort::FirstSeen) | None => SiblingOrder::FirstSeen,
        }
    }

    pub(super) fn max_levels(&self, form: OutputForm) -> usize {
        match self.depth {
            Some(levels) => usize::try_from(levels).unwrap_or(0),
            None if matches!(form, OutputForm::Json | OutputForm::Csv) => usize::MAX,
            None => DEFAULT_LEVELS,
        }
    }

    pub(super) const fn name_style(&self) -> NameStyle {
        match self.format {
            NameFormat::Full => NameStyle::Full,
            NameFormat::FileFunctionLine => NameStyle::FileFunctionLine,
            NameFormat::FunctionLine => NameStyle::FunctionLine,
            NameFormat::FileFunction => NameStyle::FileFunction,
        }
    }

    pub(super) fn filter(&self) -> Filter {
        Filter { threshold: self.threshold(), ..self.name_filter() }
    }

    /// Returns the filter by names.
    pub(super) fn name_filter(&self) -> Filter {
        let text = |option: &Option<String>| non_empty(option.as_deref()).map(Into::into);
        Filter { include: text(&self.include), exclude: text(&self.exclude), threshold: None }
    }

    /// Returns the filter by values.
    pub(super) fn threshold(&self) -> Option<Threshold> {
        self.threshold.and_then(|limit| limit.0)
    }

    /// Returns the names of the filter options in use.
    pub(super) fn filter_options(&self) -> Vec<&'static str> {
        let filter = self.filter();
        let options = [
            ("--include", filter.include.is_some()),
            ("--exclude", filter.exclude.is_some()),
            ("--threshold", filter.threshold.is_some()),
        ];
        options.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

/// Returns a text unless it is empty, which means absent, as in Proton's viewer.
fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// The argument of `--threshold`. 0 is no limit, as in Proton's viewer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ThresholdArg(Option<Threshold>);

fn parse_threshold(text: &str) -> Result<ThresholdArg, String> {
    let (digits, threshold): (_, fn(f64) -> Threshold) = match text.trim_end().strip_suffix('%') {
        Some(digits) => (digits, Threshold::Percent),
        None => (text, Threshold::Value),
    };
    match without_underscores(digits).and_then(|digits| digits.parse().ok()) {
        Some(0.0) => Ok(ThresholdArg(None)),
        Some(value) if !f64::is_nan(value) => Ok(ThresholdArg(Some(threshold(value)))),
        _ => Err("expected a number or percentage".into()),
    }
}

fn parse_whole_number(text: &str) -> Result<i64, String> {
    let digits = without_underscores(text);
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| "expected a whole number".into())
}

/// Removes what Python's number syntax allows in addition: surrounding blanks, and single
/// underscores between digits. Returns `None` for misplaced underscores.
fn without_underscores(text: &str) -> Option<String> {
    let text = text.trim();
    let is_digit = |index: Option<usize>| {
        index.and_then(|index| text.as_bytes().get(index)).is_some_and(u8::is_ascii_digit)
    };
    let mut underscores = text.match_indices('_').map(|(index, _)| index);
    let is_valid =
        underscores.all(|index| is_digit(index.checked_sub(1)) && is_digit(Some(index + 1)));
    is_valid.then(|| text.replace('_', ""))
}

/// Converts Proton's `-diff FILE` and `-diff=FILE`, a long option with one dash.
pub(crate) fn convert_diff_option(args: &mut [OsString]) {
    for arg in args.iter_mut().take_while(|arg| *arg != "--") {
        if let Some(suffix) = arg.as_bytes().strip_prefix(b"-diff")
            && matches!(suffix.first(), None | Some(b'='))
        {
            *arg = OsString::from_vec([b"--diff-profile", suffix].concat());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_numbers_in_python_syntax_or_percentages() {
        for (text, expected) in [
            ("5", Some(Threshold::Value(5.0))),
            ("-1", Some(Threshold::Value(-1.0))),
            ("1e3", Some(Threshold::Value(1000.0))),
            (" 1_0. ", Some(Threshold::Value(10.0))),
            ("inf", Some(Threshold::Value(f64::INFINITY))),
            ("5%", Some(Threshold::Percent(5.0))),
            (".5 %", Some(Threshold::Percent(0.5))),
            ("0", None),
            ("-0", None),
            ("1e-400", None),
            ("0%", None),
        ] {
            assert_eq!(parse_threshold(text), Ok(ThresholdArg(expected)), "{text}");
        }
        for text in ["", "abc", "nan", "1__0", "_1", "1_", "%", "5%%", "0x10"] {
            assert!(parse_threshold(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depths_are_whole_numbers() {
        assert_eq!(parse_whole_number("1_0"), Ok(10));
        assert_eq!(parse_whole_number("-1"), Ok(-1));
        assert!(parse_whole_number("1.5").is_err());
    }

    #[test]
    fn diff_with_one_dash_is_converted() {
        let converted = |line: &str| {
            let mut args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            convert_diff_option(&mut args);
            args.join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(converted("-diff a b"), "--diff-profile a b");
        assert_eq!(converted("-diff=a b"), "--diff-profile=a b");
        assert_eq!(converted("-diffuse --diff a -- -diff"), "-diffuse --diff a -- -diff");
    }
}
