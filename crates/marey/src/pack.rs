//! `marey pack`: packs the folder of a run into one file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_model::quantity::Size;

use crate::foreign;
use crate::import;
use crate::output::{CommandError, Failure, Output};
use crate::runs;
use crate::text::quote_path;

const EXAMPLES: &str = "\
Examples:
  marey pack train.marey                    Write train.marey.zip
  marey pack train.marey -o /tmp/slow.run   Any name works: packs are recognised by content

Every command that takes a run also takes the packed file, a zip of the unchanged tables.";

/// The suffix that is added to the name of a run.
const SUFFIX: &str = ".zip";

/// Arguments of `marey pack`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct PackArgs {
    /// Run to pack: a folder `NAME.marey`, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    run: PathBuf,

    /// File to write [default: RUN.zip, next to the run]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Runs `marey pack`.
pub(crate) fn pack(args: &PackArgs, output: &mut Output) -> Result<(), CommandError> {
    let out = args.output.clone().unwrap_or_else(|| default_path(&args.run));
    if !args.force && out.symlink_metadata().is_ok() {
        return Err(CommandError::Failed(Failure {
            message: format!("{} already exists", quote_path(&out)),
            hint: Some("replace it with --force, or choose another path with -o".into()),
        }));
    }
    let bytes = if runs::is_foreign(&args.run) {
        // Imported into a folder, because a temporary run is not compressed.
        let (run, imported, _folder) = runs::import(std::slice::from_ref(&args.run))?;
        foreign::warnings(&imported).into_iter().try_for_each(|warning| output.warning(warning))?;
        marey_store::pack(run.path(), &out)
    } else {
        let run = runs::open(&args.run, output)?;
        if run.is_pack() {
            let message = format!("{} is already packed", quote_path(&args.run));
            return Err(CommandError::Failed(Failure::new(message)));
        }
        marey_store::pack(run.path(), &out)
    };
    let bytes = bytes.map_err(Failure::from)?;
    Ok(output.note(format_args!("wrote {}, {}", quote_path(&out), Size(bytes)))?)
}

/// Returns the path of the run with the suffix. Ignores a trailing slash.
fn default_path(run: &Path) -> PathBuf {
    let run = if runs::is_foreign(run) { import::default_path(run) } else { run.to_owned() };
    let mut name = OsString::from(run.components().as_path());
    name.push(SUFFIX);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_pack_is_next_to_the_run() {
        for (run, file) in
            [("a/b.marey", "a/b.marey.zip"), ("b.marey/", "b.marey.zip"), ("./b", "./b.zip")]
        {
            assert_eq!(default_path(Path::new(run)), Path::new(file));
        }
    }
}
