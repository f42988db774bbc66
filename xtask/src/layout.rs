//! Comparison of the ABI tables of `marey-gpu` with the vendor's headers: `cargo xtask layout`.
//!
//! For each version of the headers, a generated C program prints every offset, size and constant in
//! the tables. No part of the headers is stored in this repository.

mod checks;
mod headers;
mod program;

use std::path::{Path, PathBuf};

use thiserror::Error;

use self::checks::{Check, create_checks};
use self::headers::Headers;
use crate::XtaskError;

/// A number that differs between the tables and the headers.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("API {api_version}: {name} is {expected} in the tables and {} in the headers", found.map_or_else(|| "missing".to_owned(), |number| number.to_string()))]
pub(crate) struct Mismatch {
    api_version: u32,
    name: String,
    expected: u64,
    found: Option<u64>,
}

/// Compares with the headers of the vendor's wheels, which are cached in a folder.
#[expect(clippy::disallowed_methods, reason = "this process is our own")]
pub(crate) fn run(cache: Option<&str>) -> Result<String, XtaskError> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let folder = cache.map_or_else(|| home.join(".cache/marey/cupti-headers"), PathBuf::from);
    compare(&headers::from_wheels(&folder)?)
}

/// Compares with the headers in these folders; folders without CUPTI's headers provide CUDA's for
/// all.
pub(crate) fn run_on_folders(folders: &[&str]) -> Result<String, XtaskError> {
    let folders: Vec<&Path> = folders.iter().map(Path::new).collect();
    compare(&headers::from_folders(&folders)?)
}

fn compare(versions: &[Headers]) -> Result<String, XtaskError> {
    let mut mismatches = Vec::new();
    let mut notes = Vec::new();
    let mut count = 0;
    for headers in versions {
        let (checks, unknown) = create_checks(headers);
        let found = program::run(headers, &checks)?;
        count += checks.len();
        mismatches.extend(find_mismatches(headers.api_version, &checks, &found));
        notes.extend(unknown.into_iter().map(|name| {
            format!("\nnote: API {} has {name}; add it to `abi/layout.rs`", headers.api_version)
        }));
    }
    if !mismatches.is_empty() {
        return Err(XtaskError::Layout(mismatches));
    }
    let versions: Vec<String> =
        versions.iter().map(|headers| headers.api_version.to_string()).collect();
    let notes: String = notes.concat();
    Ok(format!("{count} offsets, sizes and numbers agree, in API {}{notes}", versions.join(", ")))
}

fn find_mismatches(api_version: u32, checks: &[Check], found: &[Option<u64>]) -> Vec<Mismatch> {
    checks
        .iter()
        .zip(found)
        .filter(|(check, found)| **found != Some(check.expected))
        .map(|(check, &found)| Mismatch {
            api_version,
            name: check.name.clone(),
            expected: check.expected,
            found,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns headers that declare one record, like the vendor's.
    fn headers(folder: &Path, record: &str) -> Headers {
        let include = folder.to_path_buf();
        std::fs::write(folder.join("record.h"), record).unwrap();
        Headers { api_version: 28, text: record.to_owned(), include: vec![include] }
    }

    fn check(name: &str, expression: &str, expected: u64) -> Check {
        Check { name: name.to_owned(), expression: expression.to_owned(), expected }
    }

    #[expect(clippy::disallowed_methods, reason = "the process is our own")]
    #[test]
    fn a_mismatch_has_name_expected_and_found_value() {
        let folder = std::env::temp_dir().join(format!("marey-layout-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let headers = headers(&folder, "typedef struct { int kind; long start; } Record;");
        let checks = [
            check("size of Record", "sizeof(Record)", 16),
            check("Record.start", "offsetof(Record, start)", 4),
            check("Record.end", "offsetof(Record, end)", 16),
            check("Record.kind", "offsetof(Record, kind)", 0),
        ];
        let found = program::run_with(&headers, &["record.h"], &checks).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [Some(16), Some(8), None, Some(0)]);
        let messages: Vec<String> =
            find_mismatches(28, &checks, &found).iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "API 28: Record.start is 4 in the tables and 8 in the headers",
                "API 28: Record.end is 16 in the tables and missing in the headers"
            ]
        );
    }
}
