//! What files are called beside each other.

use std::collections::HashMap;
use std::path::Path;

/// For each file the shortest part of its path that no other file shares: its name without the
/// ending, its name, then with folders.
pub(super) fn short_names(files: &[&Path]) -> Vec<String> {
    let forms: Vec<Vec<String>> = files.iter().map(|file| forms_of(file)).collect();
    let longest = forms.iter().map(Vec::len).max().unwrap_or_default();
    let mut names: Vec<Option<String>> = vec![None; files.len()];
    for length in 0..longest {
        let at_length = |forms: &Vec<String>| forms[length.min(forms.len() - 1)].clone();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for form in forms.iter().map(at_length) {
            *counts.entry(form).or_default() += 1;
        }
        for (name, form) in names.iter_mut().zip(forms.iter().map(at_length)) {
            if name.is_none() && counts[&form] == 1 {
                *name = Some(form);
            }
        }
    }
    // A file that is given twice.
    let numbered = |(at, name): (usize, Option<String>)| {
        name.unwrap_or_else(|| format!("{} #{}", files[at].to_string_lossy(), at + 1))
    };
    names.into_iter().enumerate().map(numbered).collect()
}

fn forms_of(file: &Path) -> Vec<String> {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let stem = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let tails = (0..parts.len()).rev().map(|from| parts[from..].join("/"));
    [stem].into_iter().chain(tails).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_by_the_shortest_part_that_tells_them_apart() {
        let names = |files: &[&str]| {
            short_names(&files.iter().map(Path::new).collect::<Vec<_>>()).join(" ")
        };
        assert_eq!(names(&["runs/a.hatchet", "runs/b.hatchet"]), "a b");
        assert_eq!(names(&["a.hatchet", "a.hatchet_msgpack"]), "a.hatchet a.hatchet_msgpack");
        assert_eq!(names(&["1/a.hatchet", "2/a.hatchet", "c"]), "1/a.hatchet 2/a.hatchet c");
        assert_eq!(names(&["a.hatchet", "x/a.hatchet"]), "a.hatchet x/a.hatchet");
        assert_eq!(names(&["a", "a", "b"]), "a #1 a #2 b");
    }
}
