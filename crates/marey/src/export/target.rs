//! Finds the files that an export writes, and their default names.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use marey_formats::Format;
use marey_store::{ProcessEntry, Selection};

use super::{Export, format};
use crate::output::Failure;
use crate::text::quote_path;

/// Whether a path is a folder or will be one. `TensorBoard` reads only folders.
pub(super) fn is_folder(out: &Path, format: Option<Format>) -> bool {
    let ends_with_slash = out.as_os_str().as_encoded_bytes().ends_with(b"/");
    let is_tensorboard_folder =
        format == Some(Format::TensorBoard) && format::from_file_name(out) != format;
    out.is_dir() || ends_with_slash || (is_tensorboard_folder && !out.exists())
}

/// Fails if a file exists and must not be replaced.
pub(super) fn check_replaceable(file: &Path, replaces_existing: bool) -> Result<(), Failure> {
    match file.metadata() {
        Ok(metadata) if metadata.is_file() && !replaces_existing => Err(Failure {
            message: format!("{} already exists", quote_path(file)),
            hint: Some("replace it with --force, or choose another path with -o".into()),
        }),
        _ => Ok(()),
    }
}

/// Returns the files to write in a folder, each with its rows. Kineto has a file for each rank.
pub(super) fn default_files(
    export: &Export<'_>,
    format: Format,
    selection: &Selection,
) -> Vec<(PathBuf, Selection)> {
    let processes = export.run.manifest().processes.iter();
    let is_wanted = |id| selection.processes.as_ref().is_none_or(|wanted| wanted.contains(id));
    let processes: Vec<_> = processes.filter(|process| is_wanted(&process.id)).collect();
    let path =
        |processes: &[&ProcessEntry]| export.out.join(default_name(export, format, processes));
    if format != Format::Kineto {
        return vec![(path(&processes), selection.clone())];
    }
    let mut ranks: BTreeMap<Option<u32>, Vec<&ProcessEntry>> = BTreeMap::new();
    for process in &processes {
        ranks.entry(process.rank).or_default().push(process);
    }
    if ranks.len() < 2 {
        return vec![(path(&processes), selection.clone())];
    }
    let rank_file = |processes: Vec<&ProcessEntry>| {
        let ids: HashSet<u32> = processes.iter().map(|process| process.id).collect();
        (path(&processes), Selection { processes: Some(ids), ..selection.clone() })
    };
    ranks.into_values().map(rank_file).collect()
}

/// Returns the default name of a file.
fn default_name(export: &Export<'_>, format: Format, processes: &[&ProcessEntry]) -> String {
    let first = processes.first();
    let host = first.map(|process| &*process.host).filter(|host| !host.is_empty());
    let host = host.map_or_else(|| "host".to_owned(), sanitize);
    let start_nanos = first.map_or(0, |process| process.start_unix_nanos.max(0));
    let suffix = format::default_suffix(format);
    match format {
        Format::Kineto => {
            let pid = first.map_or(0, |process| process.pid);
            // Ranks in containers of one host may have the same process id.
            let rank = first.and_then(|process| process.rank);
            let rank = rank.map_or_else(String::new, |rank| format!("-{rank}"));
            format!("{host}_{pid}{rank}.{}{suffix}", start_nanos / 1_000_000)
        }
        Format::TensorBoard => {
            let secs = start_nanos / 1_000_000_000;
            format!("{}{secs:010}.{host}{suffix}", format::TFEVENTS)
        }
        _ => format!("{}{suffix}", stem(export.name)),
    }
}

/// Replaces characters that are unsafe in file names.
fn sanitize(host: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    host.chars().map(|char| if is_safe(char) { char } else { '_' }).collect()
}

/// Returns the file name of a run without suffixes.
fn stem(run: &Path) -> String {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').find(|part| !part.is_empty());
    stem.filter(|stem| *stem != "-").unwrap_or("run").to_owned()
}
