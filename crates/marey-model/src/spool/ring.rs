//! Joins the segments of a ring into one spool, which readers and the collection take like any
//! other.
//!
//! A ring keeps only its last records. It is written as segments, each a complete spool: a segment
//! defines all texts, nodes, shapes and arguments that it uses, and numbers them from zero. So the
//! oldest segment can be removed. Threads have the same number in all segments. Joining reads the
//! segments twice. The first pass finds the limits of the ring and the number of its records. The
//! second pass renumbers the definitions and leaves out the records beyond the limits.

use std::io::{self, Read, Write};

use super::ring_join::RingJoin;
use super::{SpoolError, SpoolFrame, SpoolReader};

/// Key of the note with the number of records that a ring keeps, 0 for no limit.
pub const RING_RECORDS: &str = "ring_records";
/// Key of the note with the seconds before its last record that a ring keeps, 0 for no limit.
pub const RING_SECONDS: &str = "ring_seconds";

/// The limits of a ring, and the extent of its records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingSurvey {
    record_count: u64,
    last_record_nanos: Option<i64>,
    max_records: u64,
    max_secs: f64,
}

impl RingSurvey {
    /// Returns the number of the oldest records that are too many.
    pub(super) fn excess_records(&self) -> u64 {
        if self.max_records == 0 { 0 } else { self.record_count.saturating_sub(self.max_records) }
    }

    /// Returns the time before which records are left out.
    pub(super) fn cutoff_nanos(&self) -> i64 {
        match self.last_record_nanos {
            Some(last_record_nanos) if self.max_secs > 0.0 => {
                last_record_nanos.saturating_sub((self.max_secs * 1e9) as i64)
            }
            _ => i64::MIN,
        }
    }

    /// Adds the next frame of the segments.
    fn add(&mut self, frame: &SpoolFrame) {
        match frame {
            SpoolFrame::Note { key, value } if key == RING_RECORDS => {
                self.max_records = value.parse().unwrap_or_default();
            }
            SpoolFrame::Note { key, value } if key == RING_SECONDS => {
                self.max_secs = value.parse().unwrap_or_default();
            }
            frame => {
                let times = record_times(frame);
                self.record_count += times.len() as u64;
                self.last_record_nanos =
                    self.last_record_nanos.max(times.into_iter().flatten().max());
            }
        }
    }
}

/// Returns the time of each record in a frame, `None` for records with another clock.
pub(super) fn record_times(frame: &SpoolFrame) -> Vec<Option<i64>> {
    match frame {
        SpoolFrame::Spans { spans, .. } => spans.iter().map(|span| Some(span.end_nanos)).collect(),
        SpoolFrame::Values { values, .. } => {
            values.iter().map(|value| Some(value.time_nanos)).collect()
        }
        SpoolFrame::Counters(counters) => {
            counters.iter().map(|counter| Some(counter.time_nanos)).collect()
        }
        SpoolFrame::Activities { activities, .. } => activities
            .iter()
            .map(|activity| {
                let duration_nanos = i64::try_from(activity.duration_nanos).unwrap_or(i64::MAX);
                Some(activity.start_nanos.saturating_add(duration_nanos))
            })
            .collect(),
        SpoolFrame::Samples { samples, .. } => {
            samples.iter().map(|sample| Some(sample.time_nanos)).collect()
        }
        SpoolFrame::Variables(variables) => {
            variables.iter().map(|variable| Some(variable.time_nanos)).collect()
        }
        SpoolFrame::Collectives(collectives) => vec![None; collectives.len()],
        _ => Vec::new(),
    }
}

/// Joins the segments of a ring, oldest first, into a spool. Leaves out a torn end of a segment,
/// and the part of a segment after a frame that contradicts an earlier one. Returns the first such
/// reason. Each segment is opened twice and must have the same bytes both times.
pub fn join_ring<'a, S, R: Read>(
    segments: &'a [S],
    open: impl Fn(&'a S) -> io::Result<R>,
    out: impl Write,
) -> Result<Option<SpoolError>, SpoolError> {
    let mut survey = RingSurvey::default();
    read_segments(segments, &open, |frame, _| {
        survey.add(&frame);
        Ok(())
    })?;
    let mut join = RingJoin::new(&survey, out)?;
    let first_error = read_segments(segments, &open, |frame, is_first| {
        if is_first {
            join.begin_segment()?;
        }
        join.add(frame)
    })?;
    join.finish()?;
    Ok(first_error)
}

/// Passes on every frame and whether it is the first of its segment. Returns the first reason why a
/// segment could be read only in part. The segments after it are not affected, because they define
/// all that they use.
fn read_segments<'a, S, R: Read>(
    segments: &'a [S],
    open: impl Fn(&'a S) -> io::Result<R>,
    mut on_frame: impl FnMut(SpoolFrame, bool) -> io::Result<()>,
) -> Result<Option<SpoolError>, SpoolError> {
    let mut first_error = None;
    for segment in segments {
        match read_segment(open(segment)?, &mut on_frame) {
            Ok(()) => {}
            Err(SpoolError::Io(error)) => return Err(SpoolError::Io(error)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Ok(first_error)
}

/// Passes on every frame of a segment and whether it is the first.
fn read_segment(
    segment: impl Read,
    on_frame: &mut impl FnMut(SpoolFrame, bool) -> io::Result<()>,
) -> Result<(), SpoolError> {
    let mut is_first = true;
    for frame in SpoolReader::new(segment)? {
        on_frame(frame?, std::mem::take(&mut is_first))?;
    }
    Ok(())
}
