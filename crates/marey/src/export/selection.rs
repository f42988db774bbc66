//! Selects the rows that an export writes, by time, training step and rank.

use std::collections::{BTreeSet, HashSet};
use std::str::FromStr;

use marey_store::row::Step;
use marey_store::{Reader, Run, Selection};

use crate::output::Failure;

/// A time range of a run.
#[derive(Clone, Copy, Debug)]
pub enum TimeRange {
    /// From one time to another. `None` is no limit.
    Times {
        /// Events that end before are excluded.
        from: Option<Moment>,
        /// Events that begin at this time or later are excluded.
        to: Option<Moment>,
    },
    /// From the start of one training step to the end of another.
    Steps {
        /// Number of the first step.
        first: u32,
        /// Number of the last step. It may exceed the last one of the run.
        last: u32,
    },
}

/// A point in time as a user gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// In nanoseconds since the run began.
    SinceStart(i64),
    /// In nanoseconds since 1970.
    Since1970(i64),
}

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const UNITS: [(&str, f64); 6] =
            [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9)];
        const EXPECTED: &str =
            "expected a time such as `1.5s` or `200ms`, or nanoseconds since 1970";
        if let Ok(nanos) = text.parse() {
            return Ok(Self::Since1970(nanos));
        }
        let unit = UNITS.iter().find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?, nanos)));
        let Some((number, nanos)) = unit else { return Err(EXPECTED) };
        match number.trim_end().parse::<f64>() {
            Ok(number) if number.is_finite() => {
                Ok(Self::SinceStart((number * nanos).round() as i64))
            }
            _ => Err(EXPECTED),
        }
    }
}

/// Parses `10`, `10:12`, `10:` or `:12`.
pub(super) fn parse_steps(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.parse().ok();
    let range = match text.split_once(':') {
        None => number(text).map(|step| (step, step)),
        Some((first, "")) => number(first).map(|first| (first, u32::MAX)),
        Some(("", last)) => number(last).map(|last| (0, last)),
        Some((first, last)) => number(first).zip(number(last)),
    };
    let range = range.filter(|(first, last)| first <= last);
    range.ok_or_else(|| "expected steps such as `10`, `10:12`, `10:` or `:12`".to_owned())
}

/// Parses `0,2-3`.
pub(super) fn parse_ranks(text: &str) -> Result<std::sync::Arc<[u32]>, String> {
    const MAX_RANGE_LENGTH: u32 = 1 << 20;
    let error = || "expected numbers such as `0,2-3`".to_owned();
    let mut ranks = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last && last - first < MAX_RANGE_LENGTH => {
                ranks.extend(first..=last);
            }
            _ => return Err(error()),
        }
    }
    Ok(ranks.into_iter().collect())
}

/// Returns the selection of an export.
pub(super) fn select_rows(
    run: &Run,
    range: &TimeRange,
    ranks: Option<&[u32]>,
) -> Result<Selection, Failure> {
    let process_ids = ranks.map(|ranks| processes_of_ranks(run, ranks)).transpose()?;
    let (from_nanos, until_nanos) = match *range {
        TimeRange::Times { from, to } => time_range(run, from, to)?,
        TimeRange::Steps { first, last } => {
            time_range_of_steps(run, process_ids.as_ref(), first, last)?
        }
    };
    Ok(Selection { from_nanos, until_nanos, processes: process_ids })
}

/// Returns the processes of some ranks. Fails if the run lacks a rank.
fn processes_of_ranks(run: &Run, ranks: &[u32]) -> Result<HashSet<u32>, Failure> {
    let processes = &run.manifest().processes;
    let known_ranks: BTreeSet<u32> = processes.iter().filter_map(|process| process.rank).collect();
    if let Some(rank) = ranks.iter().find(|rank| !known_ranks.contains(rank)) {
        let message = format!("the run has no rank {rank}");
        let hint = match (known_ranks.first(), known_ranks.last()) {
            (Some(first), Some(last)) if first == last => format!("its only rank is {first}"),
            (Some(first), Some(last)) => format!("its ranks are {first} to {last}"),
            _ => "its processes have no ranks".to_owned(),
        };
        return Err(Failure { message, hint: Some(hint) });
    }
    let is_wanted = |rank: Option<u32>| rank.is_some_and(|rank| ranks.contains(&rank));
    Ok(processes
        .iter()
        .filter(|process| is_wanted(process.rank))
        .map(|process| process.id)
        .collect())
}

fn time_range(run: &Run, from: Option<Moment>, to: Option<Moment>) -> Result<(i64, i64), Failure> {
    let starts = run.manifest().processes.iter().map(|process| process.start_unix_nanos);
    let start_nanos = starts.min().unwrap_or(0);
    let unix_nanos = |moment| match moment {
        Moment::SinceStart(nanos) => start_nanos.saturating_add(nanos),
        Moment::Since1970(nanos) => nanos,
    };
    let (from_nanos, until_nanos) =
        (from.map_or(i64::MIN, unix_nanos), to.map_or(i64::MAX, unix_nanos));
    if from_nanos < until_nanos {
        return Ok((from_nanos, until_nanos));
    }
    Err(Failure::new("the start must be before the end"))
}

fn time_range_of_steps(
    run: &Run,
    processes: Option<&HashSet<u32>>,
    first: u32,
    last: u32,
) -> Result<(i64, i64), Failure> {
    let selection = Selection { processes: processes.cloned(), ..Selection::default() };
    let reader = Reader::new(run, selection).map_err(Failure::from)?;
    let mut step_range: Option<(u32, u32)> = None;
    let mut time_range_nanos: Option<(i64, i64)> = None;
    for step in reader.rows::<Step>().map_err(Failure::from)? {
        let Step { start_nanos, duration_nanos, number, .. } = step.map_err(Failure::from)?;
        let (min, max) = step_range.unwrap_or((number, number));
        step_range = Some((min.min(number), max.max(number)));
        if (first..=last).contains(&number) {
            let end_nanos = start_nanos.saturating_add(duration_nanos);
            let (start, end) = time_range_nanos.unwrap_or((start_nanos, end_nanos));
            time_range_nanos = Some((start.min(start_nanos), end.max(end_nanos)));
        }
    }
    time_range_nanos.ok_or_else(|| Failure {
        message: "the run has none of the selected steps".to_owned(),
        hint: Some(match step_range {
            Some((min, max)) => format!("its steps are {min} to {max}"),
            None => "it has no steps".to_owned(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_or_are_since_1970() {
        use Moment::{Since1970, SinceStart};
        for (text, moment) in [
            ("1.5s", SinceStart(1_500_000_000)),
            ("200ms", SinceStart(200_000_000)),
            ("3 us", SinceStart(3_000)),
            ("3µs", SinceStart(3_000)),
            ("2min", SinceStart(120_000_000_000)),
            ("7ns", SinceStart(7)),
            ("1700000000000000000", Since1970(1_700_000_000_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(moment), "{text}");
        }
        for text in ["", "s", "x", "1.5", "1h", "infs", "nans"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }

    #[test]
    fn steps_are_a_number_or_a_range() {
        for (text, range) in
            [("10", (10, 10)), ("10:12", (10, 12)), ("10:", (10, u32::MAX)), (":3", (0, 3))]
        {
            assert_eq!(parse_steps(text), Ok(range), "{text}");
        }
        for text in ["", ":", "a", "12:10", "1:2:3", "-1"] {
            assert!(parse_steps(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranks_are_numbers_and_ranges() {
        for (text, expected) in [("0", &[0][..]), ("0,2-3", &[0, 2, 3]), ("3, 1,1", &[1, 3])] {
            assert_eq!(&*parse_ranks(text).unwrap(), expected, "{text}");
        }
        for text in ["", "a", "3-1", "1,", "-1", "0-4294967295"] {
            assert!(parse_ranks(text).is_err(), "{text}");
        }
    }
}
