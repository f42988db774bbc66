//! The direction of the modules of `marey-formats`: from the registry to the formats to the shared parts.
//!
//! A module is a file or folder directly under `src`. The registry may import every module, a format
//! only the shared parts, and these no other module. Paths that start with `crate::` are checked.

use std::fs;
use std::path::{Path, PathBuf};

use super::Violation;
use crate::XtaskError;

const SOURCE: &str = "crates/marey-formats/src";
const ROOT: &str = "lib";
const REGISTRY: &str = "registry";
const SHARED: &str = "shared";

/// Returns the forbidden imports in the sources under `root`, and how many modules there are.
pub(super) fn check(root: &Path) -> Result<(Vec<Violation>, usize), XtaskError> {
    let source = root.join(SOURCE);
    let mut files = Vec::new();
    collect_files(&source, &mut files)?;
    files.sort();
    let mut violations = Vec::new();
    let mut modules = Vec::new();
    for path in &files {
        let relative = path.strip_prefix(&source).expect("`collect` returns files under `source`");
        let module = module_of(relative);
        let text = fs::read_to_string(path)
            .map_err(|source| XtaskError::File { path: path.clone(), source })?;
        for used in imports(&text) {
            if !is_allowed(&module, used) {
                let file = relative.display().to_string();
                violations.push(Violation::ForbiddenImport { file, used: used.to_owned() });
            }
        }
        modules.push(module);
    }
    modules.dedup();
    Ok((violations, modules.len()))
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), XtaskError> {
    let to_error = |source| XtaskError::File { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(to_error)? {
        let path = entry.map_err(to_error)?.path();
        if path.is_dir() {
            collect_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the module of a file: the first component of its path.
fn module_of(relative: &Path) -> String {
    let first = relative.components().next().expect("a file has a name");
    let first = first.as_os_str().to_string_lossy();
    first.strip_suffix(".rs").unwrap_or(&first).to_owned()
}

fn is_allowed(module: &str, used: &str) -> bool {
    matches!(module, ROOT | REGISTRY) || used == module || used == SHARED
}

/// Returns the names that follow `crate::` in a source text, those in braces included.
fn imports(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (start, _) in text.match_indices("crate::") {
        let is_path_start = !text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if !is_path_start {
            continue;
        }
        let path = &text[start + "crate::".len()..];
        match path.strip_prefix('{') {
            Some(group) => names.extend(group_names(group)),
            None => names.push(identifier(path)),
        }
    }
    names
}

/// Returns the first name of each path in a `{…}` group.
fn group_names(group: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut is_item_start = true;
    for (position, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_item_start = true,
            _ if is_item_start && !character.is_whitespace() => {
                names.push(identifier(&group[position..]));
                is_item_start = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(path: &str) -> &str {
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_import_shared_parts_only() {
        for (module, used, expected) in [
            ("pprof", "shared", true),
            ("pprof", "pprof", true),
            ("pprof", "hatchet", false),
            ("pprof", "registry", false),
            ("pprof", "Format", false),
            ("shared", "shared", true),
            ("shared", "pprof", false),
            ("shared", "registry", false),
            ("registry", "pprof", true),
            ("registry", "shared", true),
            ("lib", "registry", true),
        ] {
            assert_eq!(is_allowed(module, used), expected, "{module} imports {used}");
        }
    }

    #[test]
    fn imports_are_found_in_paths_and_groups() {
        let text = "use crate::shared::{a, b};\nuse crate::{\n    Format, csv::{x, y}, json,\n};\n\
            fn f() { crate::pprof::read(); my_crate::other(); }";
        assert_eq!(imports(text), ["shared", "Format", "csv", "json", "pprof"]);
    }

    #[test]
    fn the_module_of_a_file_is_its_first_folder() {
        assert_eq!(module_of(Path::new("lib.rs")), "lib");
        assert_eq!(module_of(Path::new("pprof/read.rs")), "pprof");
    }
}
