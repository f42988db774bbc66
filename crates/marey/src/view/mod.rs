//! `marey view`: shows profiles as trees.
//!
//! [`load`] reads files into graphs, [`choose`] chooses metrics, and [`rows`] selects and orders
//! nodes. [`lines`], [`table`], [`json`] and [`csv`] write the rows.

mod args;
mod backends;
mod choose;
mod columns;
mod csv;
mod diff;
mod files;
#[cfg(test)]
mod fixture;
mod json;
pub mod lines;
mod list;
mod load;
mod number;
mod report;
mod rows;
mod shared_threshold;
mod short_names;
mod show;
mod table;
mod units;

use std::io::Write;

pub(crate) use args::{ViewArgs, convert_diff_option};
pub(crate) use report::describe_loss;

use crate::output::{CommandError, Output, Style};
use crate::text::quote_path;

/// Runs `marey view`.
pub(crate) fn view(args: &ViewArgs, output: &mut Output) -> Result<(), CommandError> {
    if args.list_backends {
        let paint = output.paint;
        return Ok(backends::write(output.data(), paint, args.json)?);
    }
    args.check()?;
    if args.list {
        return list(args, output);
    }
    match &args.diff_profile {
        Some(before) => diff::view(args, before, output),
        None => files::view(args, output),
    }
}

fn list(args: &ViewArgs, output: &mut Output) -> Result<(), CommandError> {
    for file in &args.files {
        match load::open(file) {
            Err(failure) => output.error(&failure)?,
            Ok((graph, notes)) => {
                if args.files.len() > 1 {
                    let name = output.paint.with(Style::Bold, quote_path(file));
                    writeln!(output.data(), "{name}")?;
                }
                list::write(output.data(), &graph)?;
                notes.into_iter().try_for_each(|note| output.warning(note))?;
            }
        }
    }
    Ok(())
}
