//! `marey view --list-backends`: lists the values of `marey.start(backend=...)`, and whether each
//! can start on this machine.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use marey_model::backend::{ALL, Backend, HOST_DOC};
use serde::Serialize;

use crate::output::{Paint, Style};

/// The library folders of common systems. The linker searches `LD_LIBRARY_PATH` before them.
const FOLDERS: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/opt/rocm/lib",
    "/usr/local/cuda/lib64",
];

const HOST_ONLY: &str = "this version records the host side only";

#[derive(Serialize)]
struct BackendEntry {
    /// `None` stands for a session without a backend.
    backend: Option<&'static str>,
    records: &'static str,
    library: Option<&'static str>,
    library_path: Option<PathBuf>,
    can_start: bool,
    reason: Option<String>,
}

/// Writes a line for each backend, or all as a JSON array.
pub(super) fn write(out: &mut impl Write, paint: Paint, wants_json: bool) -> io::Result<()> {
    let entries = entries(&folders());
    if wants_json {
        serde_json::to_writer(&mut *out, &entries)?;
        return writeln!(out);
    }
    write_table(out, paint, &entries)
}

#[expect(clippy::disallowed_methods, reason = "this process is our own")]
fn folders() -> Vec<PathBuf> {
    let configured_folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    // The linker takes an empty entry for the working directory. That is rarely intended, so such
    // entries are left out.
    let configured_folders =
        env::split_paths(&configured_folders).filter(|folder| !folder.as_os_str().is_empty());
    configured_folders.chain(FOLDERS.map(PathBuf::from)).collect()
}

fn entries(folders: &[PathBuf]) -> Vec<BackendEntry> {
    let host = BackendEntry {
        backend: None,
        records: HOST_DOC,
        library: None,
        library_path: None,
        can_start: true,
        reason: None,
    };
    [host].into_iter().chain(ALL.iter().map(|backend| entry(backend, folders))).collect()
}

fn entry(backend: &Backend, folders: &[PathBuf]) -> BackendEntry {
    let library_path =
        folders.iter().map(|folder| folder.join(backend.library)).find(|path| path.exists());
    let reason = match &library_path {
        Some(_) => HOST_ONLY.to_owned(),
        None => format!("{} was not found, and {HOST_ONLY}", backend.library),
    };
    BackendEntry {
        backend: Some(backend.name),
        records: backend.doc,
        library: Some(backend.library),
        library_path,
        can_start: false,
        reason: Some(reason),
    }
}

fn write_table(out: &mut impl Write, paint: Paint, entries: &[BackendEntry]) -> io::Result<()> {
    let name = |entry: &BackendEntry| entry.backend.unwrap_or("(none)");
    let max_width = |length: &dyn Fn(&BackendEntry) -> usize| {
        entries.iter().map(length).max().unwrap_or_default()
    };
    let name_width = max_width(&|entry| name(entry).len());
    let records = max_width(&|entry| entry.records.len());
    let header = format!("{:name_width$}  {:records$}  can start here", "backend", "records");
    writeln!(out, "{}", paint.with(Style::Dim, header))?;
    for entry in entries {
        let verdict = match &entry.reason {
            None => "yes".to_owned(),
            Some(reason) => format!("no: {reason}"),
        };
        writeln!(out, "{:name_width$}  {:records$}  {verdict}", name(entry), entry.records)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(folder: &std::path::Path) -> String {
        let mut text = Vec::new();
        write_table(&mut text, Paint { is_on: false }, &entries(&[folder.to_owned()])).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn nothing_but_the_host_can_start_with_or_without_a_driver() {
        let folder = tempfile::tempdir().unwrap();
        insta::assert_snapshot!(table(folder.path()), @r"
        backend           records                                            can start here
        (none)            scopes, states, operators and metrics of the host  yes
        cupti             kernels on NVIDIA GPUs                             no: libcuda.so.1 was not found, and this version records the host side only
        cupti_pcsampling  samples of instructions on NVIDIA GPUs             no: libcuda.so.1 was not found, and this version records the host side only
        instrumentation   regions inside Triton kernels                      no: libcuda.so.1 was not found, and this version records the host side only
        rocprofiler       kernels on AMD GPUs                                no: libamdhip64.so was not found, and this version records the host side only
        roctracer         kernels on AMD GPUs, for older ROCm                no: libamdhip64.so was not found, and this version records the host side only
        ");
        std::fs::write(folder.path().join("libcuda.so.1"), b"").unwrap();
        let cupti = table(folder.path()).lines().nth(2).map(str::to_owned).unwrap();
        assert!(cupti.ends_with("  no: this version records the host side only"), "{cupti}");
    }
}
