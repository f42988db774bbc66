//! The arguments of `marey view`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use marey_query::graph::{Filter, NameStyle, Threshold};

use super::choose::Wanted;
use super::rows::Order;
use crate::output::Failure;

const EXAMPLES: &str = "\
Examples:
  marey view train.hatchet                             A table of what suits the file
  marey view --sort value -t 1% train.hatchet          What takes at least 1 %, the most first
  marey view -m total/ms,p99/us train.hatchet | less   Lines, as proton-viewer prints them
  marey view a.hatchet b.hatchet                       Side by side
  marey view train.marey                               A run, summed up; so is trace.json.gz
  marey view --diff-profile before.hatchet after.hatchet
  marey view --json train.hatchet | jq .               For programs

Metrics of every file that marey wrote: total, self, calls, min, max, p50, p90, p99.
Times are wall times of a scope with everything inside it; `self` is what no inner scope covers.
Derived where the file has what they need: time/s (ms, us, ns), avg_time/s, cpu_time/s, flop/s,
gflop16/s, tbyte/s and the like, util, and METRIC/% of any metric.";

/// Levels that are shown as text unless --depth says otherwise.
const DEFAULT_LEVELS: usize = 100;

/// Arguments of `marey view`.
#[derive(Args)]
#[command(version, display_name = "marey view", after_help = EXAMPLES)]
#[command(infer_long_args = true, args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ViewArgs {
    /// Profiles to show, runs, or files of other formats; several stand side by side
    #[arg(required_unless_present = "list_backends", value_name = "FILE")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) files: Vec<PathBuf>,

    /// List the metrics of the file
    // Prefixes that --list-backends and --layout would make ambiguous.
    #[arg(short, long, aliases = ["l", "li", "lis"], conflicts_with_all = ["json", "csv"])]
    pub(super) list: bool,

    /// Metrics to show, separated by commas; the first one serves --threshold and --sort
    #[arg(short, long, value_name = "METRICS")]
    metrics: Option<String>,

    /// Show the nodes whose names match from their start, what is above and what is below them
    #[arg(short, long, value_name = "REGEX")]
    include: Option<String>,

    /// Leave out the nodes whose names match from their start, and what is below them
    #[arg(short, long, value_name = "REGEX")]
    exclude: Option<String>,

    /// Show the nodes that reach VALUE, such as `5000` or `1%` of the whole, and what is above them
    #[arg(short, long, value_name = "VALUE", value_parser = limit, allow_hyphen_values = true)]
    threshold: Option<Limit>,

    /// Levels to show; ROOT is the first [default: 100, or all as JSON and CSV]
    #[arg(short, long, value_name = "N", value_parser = whole_number, allow_hyphen_values = true)]
    depth: Option<i64>,

    /// What to show of names such as `/home/me/train.py:12@forward`
    #[arg(short, long, value_name = "FORMAT", default_value = "full")]
    format: NameFormat,

    /// After the tree, list its nodes by the first metric
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(super) print_sorted: bool,

    /// Show what changed since the profile FILE; also spelled -diff
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) diff_profile: Option<PathBuf>,

    /// Order of siblings [default: first-seen, or name as lines]
    #[arg(long, value_name = "ORDER")]
    sort: Option<Sort>,

    /// Text for people or as proton-viewer has it [default: lines in a pipe with --metrics, else
    /// table]
    #[arg(long, value_name = "LAYOUT", conflicts_with_all = ["json", "csv"])]
    layout: Option<Layout>,

    /// Print one JSON object a file, with every metric unless --metrics is given
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,

    /// Print CSV, with every metric unless --metrics is given
    #[arg(long, conflicts_with = "list_backends")]
    csv: bool,

    /// List what `marey.start(backend=...)` takes and whether it can start here
    #[arg(long)]
    pub(super) list_backends: bool,
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    Table,
    Json,
    Csv,
}

// Help is shorter without a line for each value.
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
enum Layout {
    Table,
    Lines,
}

impl ViewArgs {
    /// Says what no answer can be given to.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let failure = |message: &str| Err(Failure { message: message.into(), hint: None });
        if given(self.include.as_deref()).is_some() && given(self.exclude.as_deref()).is_some() {
            return failure("--include and --exclude cannot be used together");
        }
        if self.diff_profile.is_some() && self.files.len() > 1 {
            return failure("--diff-profile compares one file, and several are given");
        }
        Ok(())
    }

    pub(super) fn form(&self, is_terminal: bool) -> Form {
        match self.layout {
            _ if self.json => Form::Json,
            _ if self.csv => Form::Csv,
            Some(Layout::Lines) => Form::Lines,
            // Numbers of several files need headings.
            None if self.asked().is_some() && !is_terminal && self.files.len() < 2 => Form::Lines,
            Some(Layout::Table) | None => Form::Table,
        }
    }

    pub(super) fn wanted(&self, form: Form) -> Wanted<'_> {
        match (self.asked(), form) {
            (Some(metrics), _) => Wanted::Asked(metrics.split(',').collect()),
            (None, Form::Json | Form::Csv) => Wanted::All,
            (None, Form::Lines | Form::Table) => Wanted::AtAGlance,
        }
    }

    fn asked(&self) -> Option<&str> {
        given(self.metrics.as_deref())
    }

    pub(super) fn order(&self, form: Form) -> Order {
        match self.sort {
            Some(Sort::Name) => Order::Name,
            Some(Sort::Value) => Order::Value,
            None if form == Form::Lines => Order::Name,
            Some(Sort::FirstSeen) | None => Order::FirstSeen,
        }
    }

    pub(super) fn levels(&self, form: Form) -> usize {
        match self.depth {
            Some(levels) => usize::try_from(levels).unwrap_or(0),
            None if matches!(form, Form::Json | Form::Csv) => usize::MAX,
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

    /// The part of the filter that asks for names.
    pub(super) fn name_filter(&self) -> Filter {
        let text = |option: &Option<String>| given(option.as_deref()).map(Into::into);
        Filter { include: text(&self.include), exclude: text(&self.exclude), threshold: None }
    }

    /// The part of the filter that asks for values.
    pub(super) fn threshold(&self) -> Option<Threshold> {
        self.threshold.and_then(|limit| limit.0)
    }

    /// The filters that are given.
    pub(super) fn filters(&self) -> Vec<&'static str> {
        let filter = self.filter();
        let options = [
            ("--include", filter.include.is_some()),
            ("--exclude", filter.exclude.is_some()),
            ("--threshold", filter.threshold.is_some()),
        ];
        options.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

/// An empty text is none, as for Proton's viewer.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// What a node must reach; 0 is no limit, as for Proton's viewer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit(Option<Threshold>);

fn limit(text: &str) -> Result<Limit, String> {
    let (digits, threshold): (_, fn(f64) -> Threshold) = match text.trim_end().strip_suffix('%') {
        Some(digits) => (digits, Threshold::Percent),
        None => (text, Threshold::Value),
    };
    match without_underscores(digits).and_then(|digits| digits.parse().ok()) {
        Some(0.0) => Ok(Limit(None)),
        Some(value) if !f64::is_nan(value) => Ok(Limit(Some(threshold(value)))),
        _ => Err("not a number or percentage".into()),
    }
}

fn whole_number(text: &str) -> Result<i64, String> {
    let digits = without_underscores(text);
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| "not a whole number".into())
}

/// The number as Python reads it: blanks around it and single underscores between digits do not
/// count.
fn without_underscores(text: &str) -> Option<String> {
    let text = text.trim();
    let is_digit = |at: Option<usize>| {
        at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit)
    };
    let mut underscores = text.match_indices('_').map(|(at, _)| at);
    let is_sound = underscores.all(|at| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)));
    is_sound.then(|| text.replace('_', ""))
}

/// Respells Proton's `-diff FILE` and `-diff=FILE`, a long option with one dash.
pub(crate) fn respell_diff(args: &mut [OsString]) {
    for arg in args.iter_mut().take_while(|arg| *arg != "--") {
        if let Some(rest) = arg.as_bytes().strip_prefix(b"-diff")
            && matches!(rest.first(), None | Some(b'='))
        {
            *arg = OsString::from_vec([b"--diff-profile", rest].concat());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_as_python_reads_them_or_percentages() {
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
            assert_eq!(limit(text), Ok(Limit(expected)), "{text}");
        }
        for text in ["", "abc", "nan", "1__0", "_1", "1_", "%", "5%%", "0x10"] {
            assert!(limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depths_are_whole_numbers() {
        assert_eq!(whole_number("1_0"), Ok(10));
        assert_eq!(whole_number("-1"), Ok(-1));
        assert!(whole_number("1.5").is_err());
    }

    #[test]
    fn diff_with_one_dash_is_respelled() {
        let respelled = |line: &str| {
            let mut args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            respell_diff(&mut args);
            args.join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(respelled("-diff a b"), "--diff-profile a b");
        assert_eq!(respelled("-diff=a b"), "--diff-profile=a b");
        assert_eq!(respelled("-diffuse --diff a -- -diff"), "-diffuse --diff a -- -diff");
    }
}
