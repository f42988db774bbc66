//! The arguments of `marey export`, and the command that runs an export and reports its files.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use marey_formats::Format;
use marey_model::quantity::Size;

use super::selection::{Moment, TimeRange, parse_ranks, parse_steps};
use super::{Export, ExportFailure, describe_left_out, format};
use crate::foreign::STDIN as STDOUT;
use crate::output::{CommandError, Failure, Output};
use crate::runs;
use crate::text::quote_path;

const EXAMPLES: &str = "\
Examples:
  marey export train.marey -o train.pftrace          For ui.perfetto.dev, by the suffix
  marey export train.marey -f chrome-trace -o trace.json.gz
  marey export train.marey -f tensorboard -o runs/   A file with the default name, in a folder
  marey export job.marey -f kineto -o traces/        One file for each rank, as HTA expects
  marey export train.marey -f csv -o - | head        To stdout
  marey export job.marey --steps 10:12 --ranks 0,2-3 -o slow.json
  marey export train.marey --from 1.5s --to 2s -o part.speedscope.json
  marey export trace.json.gz -o trace.collapsed      Convert between other formats

A TIME is relative to the start of the run (1.5s, 200ms, 30us, 5ns, 2min) or in whole nanoseconds
since 1970. --steps 10:12 selects from the start of step 10 to the end of step 12. Events that
overlap the time range are included. Data that the format cannot represent is counted on stderr.";

/// Arguments of `marey export`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct ExportArgs {
    /// Run to export: a folder `NAME.marey`, a packed run, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    run: PathBuf,

    /// Output format [default: from the name of OUT]
    #[arg(short, long, value_name = "FORMAT", value_parser = format_parser())]
    format: Option<Format>,

    /// File to write, or a folder for files with default names; .gz compresses, `-` is stdout
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::AnyPath)]
    output: PathBuf,

    /// Exclude events that end before TIME
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,

    /// Exclude events that begin at TIME or later
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,

    /// Include only these training steps: `10`, `10:12`, `10:` or `:12`, both ends included
    #[arg(long, value_name = "STEPS", conflicts_with_all = ["from", "to"], value_parser = parse_steps)]
    steps: Option<(u32, u32)>,

    /// Include only these ranks, such as `0,2-3`
    #[arg(long, value_name = "RANKS", value_parser = parse_ranks)]
    ranks: Option<Ranks>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// An `Arc` and not a `Vec`, because clap takes a `Vec` for a repeated option.
type Ranks = std::sync::Arc<[u32]>;

fn format_parser() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.into_iter().filter(|format| format.is_writable());
    let names = names.map(|format| {
        PossibleValue::new(format.as_str()).aliases(format::aliases(format).iter().copied())
    });
    PossibleValuesParser::new(names).try_map(|name| format::parse(&name).ok_or("no such format"))
}

/// Runs `marey export`.
pub(crate) fn export(args: &ExportArgs, output: &mut Output) -> Result<(), CommandError> {
    let run = runs::open(&args.run, output)?;
    let export = Export {
        run: &run,
        name: run.name(),
        format: args.format,
        out: &args.output,
        replaces_existing: args.force,
        time_range: args.time_range(),
        ranks: args.ranks.as_deref().map(<[u32]>::to_vec),
    };
    if args.output == Path::new(STDOUT) {
        return write_to_stdout(&export, output);
    }
    for written in export.write()? {
        written.warnings().try_for_each(|warning| output.warning(warning))?;
        output.note(format_args!(
            "wrote {}, {}",
            quote_path(&written.path),
            Size(written.bytes)
        ))?;
    }
    Ok(())
}

fn write_to_stdout(export: &Export<'_>, output: &mut Output) -> Result<(), CommandError> {
    let Some(format) = export.format else { return Err(format::missing_format(export.out).into()) };
    if output.is_terminal && format::is_binary(format) {
        return Err(CommandError::Failed(Failure {
            message: "a binary format cannot be written to a terminal".into(),
            hint: Some("write to a file or a pipe".into()),
        }));
    }
    let left_out = export.write_to(format, output.data()).map_err(|failure| match failure {
        ExportFailure::Failed(failure) => CommandError::Failed(failure),
        ExportFailure::Output(error) => CommandError::Output(error),
    })?;
    Ok(describe_left_out(format, &left_out).try_for_each(|warning| output.warning(warning))?)
}

impl ExportArgs {
    fn time_range(&self) -> TimeRange {
        match self.steps {
            Some((first, last)) => TimeRange::Steps { first, last },
            None => TimeRange::Times { from: self.from, to: self.to },
        }
    }
}
