//! `marey pack`: a run as one file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_model::quantity::Size;

use crate::foreign;
use crate::import;
use crate::output::{Failure, Output, Stop};
use crate::runs;
use crate::text::quoted;

const EXAMPLES: &str = "\
Examples:
  marey pack train.marey                    Writes train.marey.zip
  marey pack train.marey -o /tmp/slow.run   Any name will do: it is known by its content

Every command that takes a run takes the file. It is a zip that holds the tables as they are.";

/// What the name of a run gets.
const SUFFIX: &str = ".zip";

/// Arguments of `marey pack`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct PackArgs {
    /// The run: a folder `NAME.marey`, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    run: PathBuf,

    /// File to write [default: RUN.zip, beside the run]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

/// Writes the file.
pub(crate) fn pack(args: &PackArgs, output: &mut Output) -> Result<(), Stop> {
    let out = args.output.clone().unwrap_or_else(|| beside(&args.run));
    if !args.force && out.symlink_metadata().is_ok() {
        return Err(Stop::Failed(Failure {
            message: format!("{} is there already", quoted(&out)),
            hint: Some("--force replaces it, -o writes another".into()),
        }));
    }
    let bytes = if runs::is_foreign(&args.run) {
        // What is kept is compressed, other than a run that goes with the command.
        let (run, imported, _folder) = runs::import(std::slice::from_ref(&args.run))?;
        foreign::warnings(&imported).into_iter().try_for_each(|warning| output.warning(warning))?;
        marey_store::pack(run.path(), &out)
    } else {
        let run = runs::open(&args.run, output)?;
        if run.is_pack() {
            let message = format!("{} is one file already", quoted(&args.run));
            return Err(Stop::Failed(Failure { message, hint: None }));
        }
        marey_store::pack(run.path(), &out)
    };
    let bytes = bytes.map_err(Failure::from)?;
    Ok(output.note(format_args!("wrote {}, {}", quoted(&out), Size(bytes)))?)
}

/// The run's name with the suffix, whether it was given with a slash behind it or not.
fn beside(run: &Path) -> PathBuf {
    let run = if runs::is_foreign(run) { import::beside(run) } else { run.to_owned() };
    let mut name = OsString::from(run.components().as_path());
    name.push(SUFFIX);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lies_beside_the_run() {
        for (run, file) in
            [("a/b.marey", "a/b.marey.zip"), ("b.marey/", "b.marey.zip"), ("./b", "./b.zip")]
        {
            assert_eq!(beside(Path::new(run)), Path::new(file));
        }
    }
}
