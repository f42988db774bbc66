//! Where a run is written, and the names that are usual there.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use marey_formats::Format;
use marey_store::{ProcessEntry, Window};

use super::{Export, format};
use crate::output::Failure;
use crate::text::quoted;

/// Whether a path names a folder. `TensorBoard` is given folders only.
pub(super) fn is_folder(out: &Path, format: Option<Format>) -> bool {
    let is_named_so = out.as_os_str().as_encoded_bytes().ends_with(b"/");
    let is_of_events = format == Some(Format::TensorBoard) && format::of_name(out) != format;
    out.is_dir() || is_named_so || (is_of_events && !out.exists())
}

/// A file may be made there.
pub(super) fn check(file: &Path, replaces: bool) -> Result<(), Failure> {
    match file.metadata() {
        Ok(there) if there.is_file() && !replaces => Err(Failure {
            message: format!("{} is there already", quoted(file)),
            hint: Some("--force replaces it, -o writes another".into()),
        }),
        _ => Ok(()),
    }
}

/// The files in a folder and what each holds. Of `torch.profiler`'s format each rank has one.
pub(super) fn files(
    export: &Export<'_>,
    format: Format,
    window: &Window,
) -> Vec<(PathBuf, Window)> {
    let processes = export.run.manifest().processes.iter();
    let is_wanted = |id| window.processes.as_ref().is_none_or(|wanted| wanted.contains(id));
    let processes: Vec<_> = processes.filter(|process| is_wanted(&process.id)).collect();
    let path = |processes: &[&ProcessEntry]| export.out.join(name(export, format, processes));
    if format != Format::Kineto {
        return vec![(path(&processes), window.clone())];
    }
    let mut ranks: BTreeMap<Option<u32>, Vec<&ProcessEntry>> = BTreeMap::new();
    for process in &processes {
        ranks.entry(process.rank).or_default().push(process);
    }
    if ranks.len() < 2 {
        return vec![(path(&processes), window.clone())];
    }
    let of_rank = |processes: Vec<&ProcessEntry>| {
        let ids: HashSet<u32> = processes.iter().map(|process| process.id).collect();
        (path(&processes), Window { processes: Some(ids), ..window.clone() })
    };
    ranks.into_values().map(of_rank).collect()
}

/// The name that is usual for a format.
fn name(export: &Export<'_>, format: Format, processes: &[&ProcessEntry]) -> String {
    let first = processes.first();
    let host = first.map(|process| &*process.host).filter(|host| !host.is_empty());
    let host = host.map_or_else(|| "host".to_owned(), plain);
    let start_nanos = first.map_or(0, |process| process.start_unix_nanos.max(0));
    let ending = format::ending(format);
    match format {
        Format::Kineto => {
            let pid = first.map_or(0, |process| process.pid);
            // Ranks of one container may have the same number.
            let rank = first.and_then(|process| process.rank);
            let rank = rank.map_or_else(String::new, |rank| format!("-{rank}"));
            format!("{host}_{pid}{rank}.{}{ending}", start_nanos / 1_000_000)
        }
        Format::TensorBoard => {
            let secs = start_nanos / 1_000_000_000;
            format!("{}{secs:010}.{host}{ending}", format::TFEVENTS)
        }
        _ => format!("{}{ending}", stem(export.name)),
    }
}

/// Only what is harmless in the name of a file.
fn plain(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    host.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// The name of a run without folders and ending.
fn stem(run: &Path) -> String {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').find(|part| !part.is_empty());
    stem.filter(|stem| *stem != "-").unwrap_or("run").to_owned()
}
