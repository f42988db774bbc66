//! The arguments of `marey export`, and its answer.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use marey_formats::Format;
use marey_model::quantity::Size;

use super::window::{Moment, Span, numbers, steps};
use super::{Export, ExportFailure, format, lacks};
use crate::foreign::STDIN as STDOUT;
use crate::output::{Failure, Output, Stop};
use crate::runs;
use crate::text::quoted;

const EXAMPLES: &str = "\
Examples:
  marey export train.marey -o train.pftrace          For ui.perfetto.dev: the ending says it
  marey export train.marey -f chrome-trace -o trace.json.gz
  marey export train.marey -f tensorboard -o runs/   A file of the usual name in a folder
  marey export job.marey -f kineto -o traces/        A file for each rank, as HTA wants them
  marey export train.marey -f csv -o - | head        To stdout
  marey export job.marey --steps 10:12 --ranks 0,2-3 -o slow.json
  marey export train.marey --from 1.5s --to 2s -o part.speedscope.json
  marey export trace.json.gz -o trace.collapsed      From one format to another

Times are since the start of the run (1.5s, 200ms, 30us, 5ns, 2min), or whole nanoseconds since
1970. --steps 10:12 is from the start of step 10 to the end of step 12. What reaches into a stretch
of time is in it. What a format has no place for is counted on stderr.";

/// Arguments of `marey export`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct ExportArgs {
    /// The run: a folder `NAME.marey`, the one file of `marey pack`, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    run: PathBuf,

    /// Format to write [default: what the name of OUT says]
    #[arg(short, long, value_name = "FORMAT", value_parser = formats())]
    format: Option<Format>,

    /// File to write, or a folder for a file of the usual name; .gz compresses, `-` is stdout
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::AnyPath)]
    output: PathBuf,

    /// Leave out what ends before TIME
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,

    /// Leave out what begins at TIME or later
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,

    /// Only the time of these training steps: `10`, `10:12`, `10:` or `:12`, both included
    #[arg(long, value_name = "STEPS", conflicts_with_all = ["from", "to"], value_parser = steps)]
    steps: Option<(u32, u32)>,

    /// Only these ranks: `0,2-3`
    #[arg(long, value_name = "RANKS", value_parser = numbers)]
    ranks: Option<Numbers>,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

/// A list, which clap would otherwise take for a repeated option.
type Numbers = std::sync::Arc<[u32]>;

fn formats() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.into_iter().filter(|format| format.is_writable());
    let names = names.map(|format| {
        PossibleValue::new(format.as_str()).aliases(format::aliases(format).iter().copied())
    });
    PossibleValuesParser::new(names).try_map(|name| format::parse(&name).ok_or("no such format"))
}

/// Writes the files.
pub(crate) fn export(args: &ExportArgs, output: &mut Output) -> Result<(), Stop> {
    let run = runs::open(&args.run, output)?;
    let export = Export {
        run: &run,
        name: run.name(),
        format: args.format,
        out: &args.output,
        replaces: args.force,
        span: args.span(),
        ranks: args.ranks.as_deref().map(<[u32]>::to_vec),
    };
    if args.output == Path::new(STDOUT) {
        return write_to_stdout(&export, output);
    }
    for written in export.write()? {
        written.warnings().try_for_each(|warning| output.warning(warning))?;
        output.note(format_args!("wrote {}, {}", quoted(&written.path), Size(written.bytes)))?;
    }
    Ok(())
}

fn write_to_stdout(export: &Export<'_>, output: &mut Output) -> Result<(), Stop> {
    let Some(format) = export.format else { return Err(format::unclear(export.out).into()) };
    if output.is_terminal && format::is_binary(format) {
        return Err(Stop::Failed(Failure {
            message: "this format is not for terminals".into(),
            hint: Some("write it to a file, or into a pipe".into()),
        }));
    }
    let left_out = export.write_to(format, output.data()).map_err(|failure| match failure {
        ExportFailure::Failed(failure) => Stop::Failed(failure),
        ExportFailure::Output(error) => Stop::Output(error),
    })?;
    Ok(lacks(format, &left_out).try_for_each(|warning| output.warning(warning))?)
}

impl ExportArgs {
    fn span(&self) -> Span {
        match self.steps {
            Some((first, last)) => Span::Steps { first, last },
            None => Span::Times { from: self.from, to: self.to },
        }
    }
}
