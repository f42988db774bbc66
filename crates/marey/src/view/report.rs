//! Writes the text around the tree of `marey view`: the heading, and notes on hidden nodes,
//! overhead and losses.

use std::io::{self, Write};
use std::path::Path;

use marey_model::loss::LossCause;
use marey_model::profile::{Meta, Overhead, Process};
use marey_model::quantity::{Grouped, Nanos};

use super::args::ViewArgs;
use crate::output::{Output, Paint, Style};
use crate::text::printable;

/// The maximum length of the command line in a heading, in characters.
const MAX_COMMAND_CHARS: usize = 60;

/// Writes a heading. `label` is the name of the file in the table, if it has one.
pub(super) fn write_heading(
    out: &mut impl Write,
    paint: Paint,
    label: Option<&str>,
    file: &Path,
    meta: &Meta,
) -> io::Result<()> {
    let file = file.to_string_lossy();
    let mut heading = match label {
        Some(label) if label != file => format!("{} = ", printable(label)),
        _ => String::new(),
    };
    heading.push_str(&paint.with(Style::Bold, printable(&file)).to_string());
    if let Some(process) = &meta.process {
        heading.push_str(": ");
        heading.push_str(&printable(&describe_process(process)));
    }
    writeln!(out, "{heading}")
}

fn describe_process(process: &Process) -> String {
    let mut command = process.argv.join(" ");
    if let Some((end, _)) = command.char_indices().nth(MAX_COMMAND_CHARS) {
        command.truncate(end);
        command.push('…');
    }
    let rank = process.rank.map(|rank| format!("rank {rank}"));
    let host = Some(&process.host).filter(|host| !host.is_empty());
    let host = host.map_or_else(String::new, |host| format!(" on {host}"));
    let location = format!("pid {}{host}", process.pid);
    let duration = Nanos(process.duration_nanos as f64).to_string();
    let command = Some(command).filter(|command| !command.is_empty());
    let parts: Vec<_> =
        [command, rank, Some(location), Some(duration)].into_iter().flatten().collect();
    parts.join(", ")
}

/// Notes how many nodes the filters and `--depth` hide.
pub(super) fn note_hidden(
    args: &ViewArgs,
    output: &mut Output,
    filtered_count: usize,
    too_deep_count: usize,
) -> io::Result<()> {
    for (count, options) in
        [(filtered_count, args.filter_options().join(" and ")), (too_deep_count, "--depth".into())]
    {
        if count > 0 {
            output.note(format_args!("nodes hidden by {options}: {}", Grouped(count as i128)))?;
        }
    }
    Ok(())
}

/// Notes how many metrics are hidden by default. `file_prefix` names the file if there are several.
pub(super) fn note_omitted_metrics(
    output: &mut Output,
    file_prefix: &str,
    omitted_metrics: usize,
) -> io::Result<()> {
    match omitted_metrics {
        0 => Ok(()),
        1 => output.note(format_args!("{file_prefix}1 more metric: see --list")),
        _ => output.note(format_args!(
            "{file_prefix}{} more metrics: see --list",
            Grouped(omitted_metrics as i128)
        )),
    }
}

/// Warns of losses. `file_prefix` names the file if there are several.
pub(super) fn warn_of_losses(
    output: &mut Output,
    file_prefix: &str,
    meta: &Meta,
) -> io::Result<()> {
    for (cause, count) in meta.losses.iter().filter(|(_, count)| *count > 0) {
        output.warning(format_args!("{file_prefix}{}", describe_loss(cause, *count)))?;
    }
    Ok(())
}

/// Warns that a file is a checkpoint. `file_prefix` names the file if there are several.
pub(super) fn warn_of_checkpoint(
    output: &mut Output,
    file_prefix: &str,
    meta: &Meta,
) -> io::Result<()> {
    if meta.process.as_ref().is_none_or(|process| process.is_complete) {
        return Ok(());
    }
    output.warning(format_args!(
        "{file_prefix}this is a checkpoint, written before the program ended"
    ))
}

/// Notes the overhead, measured or estimated. `file_prefix` names the file if there are several.
pub(super) fn note_overhead(output: &mut Output, file_prefix: &str, meta: &Meta) -> io::Result<()> {
    if let Some((_, statement)) = meta.notes.iter().find(|(key, _)| key == "overhead") {
        output.note(format_args!("{file_prefix}cost of recording: {}", printable(statement)))?;
    }
    match &meta.overhead {
        Some(overhead) => output.note(format_args!(
            "{file_prefix}{}",
            describe_overhead(overhead, meta.process.as_ref())
        )),
        None => Ok(()),
    }
}

/// Describes a loss and its cause.
pub(crate) fn describe_loss(cause: &str, count: u64) -> String {
    let loss_cause = LossCause::ALL.into_iter().find(|loss_cause| loss_cause.as_str() == cause);
    let doc = loss_cause.map_or_else(String::new, |loss_cause| {
        format!(": {}", loss_cause.doc().trim_end_matches('.'))
    });
    format!("{} {}{doc}", Grouped(count.into()), printable(&cause.replace('_', " ")))
}

fn describe_overhead(overhead: &Overhead, process: Option<&Process>) -> String {
    let spent_nanos = overhead.recording_nanos.saturating_add(overhead.flushing_nanos) as f64;
    let share =
        process.filter(|process| process.duration_nanos > 0).map_or_else(String::new, |process| {
            let duration_nanos = process.duration_nanos as f64;
            let duration = Nanos(duration_nanos);
            if spent_nanos > duration_nanos {
                return format!(
                    ", more than the {duration} recorded: on several threads, or inaccurate"
                );
            }
            format!(", {:.2} % of {duration}", 100.0 * spent_nanos / duration_nanos)
        });
    format!(
        "overhead: {} recording {} events ({} a scope), {} writing{share}",
        Nanos(overhead.recording_nanos as f64),
        Grouped(overhead.events.into()),
        Nanos(overhead.scope_nanos),
        Nanos(overhead.flushing_nanos as f64),
    )
}
