//! Generation of the checked-in files that derive from the tables of `marey-model`.

mod header;
mod python;
mod reference;

use std::path::Path;

use crate::XtaskError;

/// A generated file: its path relative to the repository root, and its content.
struct Generated {
    path: &'static str,
    text: String,
}

fn generated_files() -> [Generated; 8] {
    [
        Generated { path: "docs/reference/counters.md", text: reference::counters() },
        Generated { path: "docs/reference/environment.md", text: reference::environment() },
        Generated { path: "docs/reference/losses.md", text: reference::losses() },
        Generated { path: "docs/reference/metrics.md", text: reference::metrics() },
        Generated { path: "docs/reference/schema.md", text: reference::schema() },
        Generated { path: "docs/reference/settings.md", text: reference::settings() },
        Generated { path: "include/marey_enums.h", text: header::enums() },
        Generated { path: "python/marey/_names.py", text: python::names() },
    ]
}

/// Writes the generated files that are out of date.
pub(crate) fn write(root: &Path) -> Result<String, XtaskError> {
    let mut written = 0;
    for file in generated_files().iter().filter(|file| !is_current(root, file)) {
        let path = root.join(file.path);
        std::fs::write(&path, &file.text).map_err(|source| XtaskError::File { path, source })?;
        written += 1;
    }
    Ok(format!(
        "{written} generated files written, {} were current",
        generated_files().len() - written
    ))
}

/// Fails if a generated file is out of date.
pub(crate) fn check(root: &Path) -> Result<String, XtaskError> {
    let stale: Vec<_> = generated_files()
        .iter()
        .filter(|file| !is_current(root, file))
        .map(|file| file.path)
        .collect();
    if stale.is_empty() {
        Ok(format!("{} generated files are current", generated_files().len()))
    } else {
        Err(XtaskError::Stale(stale))
    }
}

fn is_current(root: &Path, file: &Generated) -> bool {
    std::fs::read_to_string(root.join(file.path)).is_ok_and(|text| text == file.text)
}
