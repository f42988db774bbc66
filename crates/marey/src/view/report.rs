//! What stands around the tree: whose profile it is, what it cost, and what it lacks.

use std::io::{self, Write};
use std::path::Path;

use marey_formats::hatchet::{Overhead, Process, Profile};
use marey_model::loss::LossCause;

use super::rows::Rows;
use super::units;
use crate::output::{Output, Paint};

/// Longest command line in a heading, in characters.
const MAX_COMMAND: usize = 60;

/// Writes the line above the tree.
pub(super) fn write_heading(
    out: &mut impl Write,
    paint: Paint,
    file: &Path,
    profile: &Profile,
) -> io::Result<()> {
    let file = file.display().to_string();
    let mut heading = paint.bold(&units::printable(&file));
    if let Some(process) = &profile.meta.process {
        heading.push_str(": ");
        heading.push_str(&units::printable(&describe(process)));
    }
    writeln!(out, "{heading}")
}

fn describe(process: &Process) -> String {
    let mut command = process.argv.join(" ");
    if let Some((end, _)) = command.char_indices().nth(MAX_COMMAND) {
        command.truncate(end);
        command.push('…');
    }
    let rank = process.rank.map(|rank| format!("rank {rank}"));
    let place = format!("pid {} on {}", process.pid, process.host);
    let duration = units::duration(process.duration_nanos as f64);
    let command = Some(command).filter(|command| !command.is_empty());
    let parts: Vec<_> =
        [command, rank, Some(place), Some(duration)].into_iter().flatten().collect();
    parts.join(", ")
}

/// Says on stderr what the tree does not show.
pub(super) fn note_rest(output: &mut Output, profile: &Profile, rows: &Rows) -> io::Result<()> {
    let meta = &profile.meta;
    if rows.hidden > 0 {
        let hidden = units::grouped(rows.hidden as u64);
        output.note(format_args!("nodes hidden by --depth or --threshold: {hidden}"))?;
    }
    if meta.process.as_ref().is_some_and(|process| !process.complete) {
        output.warning("this is a checkpoint; the program had not ended when it was written")?;
    }
    for (cause, count) in meta.losses.iter().filter(|(_, count)| *count > 0) {
        output.warning(describe_loss(cause, *count))?;
    }
    if let Some(overhead) = &meta.overhead {
        output.note(describe_overhead(overhead, meta.process.as_ref()))?;
    }
    Ok(())
}

fn describe_loss(cause: &str, count: u64) -> String {
    let known = LossCause::ALL.into_iter().find(|known| known.as_str() == cause);
    let doc =
        known.map_or_else(String::new, |known| format!(": {}", known.doc().trim_end_matches('.')));
    format!("{} {}{doc}", units::grouped(count), units::printable(&cause.replace('_', " ")))
}

fn describe_overhead(overhead: &Overhead, process: Option<&Process>) -> String {
    let nanos = |nanos: u64| units::duration(nanos as f64);
    let spent = overhead.recording_nanos.saturating_add(overhead.flushing_nanos) as f64;
    let share =
        process.filter(|process| process.duration_nanos > 0).map_or_else(String::new, |process| {
            let percent = 100.0 * spent / process.duration_nanos as f64;
            format!(", {percent:.2} % of {}", nanos(process.duration_nanos))
        });
    format!(
        "overhead: {} recording {} events ({} a scope), {} writing{share}",
        nanos(overhead.recording_nanos),
        units::grouped(overhead.events),
        units::duration(overhead.scope_nanos),
        nanos(overhead.flushing_nanos),
    )
}
