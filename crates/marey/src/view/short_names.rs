//! Finds short and distinct names of files, for headings and columns.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Returns for each file the shortest form of its path that identifies it: the stem, the file name,
/// or the name with folders. A form that several files share is used for none of them.
pub(super) fn short_names(files: &[&Path]) -> Vec<String> {
    let forms: Vec<Vec<String>> = files.iter().map(|file| path_forms(file)).collect();
    let mut form_counts: HashMap<&str, usize> = HashMap::new();
    for forms in &forms {
        for form in forms.iter().map(String::as_str).collect::<HashSet<_>>() {
            *form_counts.entry(form).or_default() += 1;
        }
    }
    let mut path_counts: HashMap<&str, usize> = HashMap::new();
    for forms in &forms {
        *path_counts.entry(full_path(forms)).or_default() += 1;
    }
    let name = |forms: &Vec<String>| {
        let unique = forms.iter().find(|form| form_counts[form.as_str()] == 1);
        let path = forms.last().filter(|path| path_counts[path.as_str()] == 1);
        unique.or(path).cloned()
    };
    let names = forms.iter().map(name).collect();
    number_duplicates(names, &forms)
}

/// Returns a name for each file. Adds a number to the name of a file that is given twice.
fn number_duplicates(names: Vec<Option<String>>, forms: &[Vec<String>]) -> Vec<String> {
    let mut used_names: HashSet<String> = names.iter().flatten().cloned().collect();
    let number = |(index, name): (usize, Option<String>)| {
        name.unwrap_or_else(|| {
            let mut number = index + 1;
            loop {
                let name = format!("{} #{number}", full_path(&forms[index]));
                if used_names.insert(name.clone()) {
                    return name;
                }
                number += 1;
            }
        })
    };
    names.into_iter().enumerate().map(number).collect()
}

/// Returns the forms of a path, shortest first. The last one is the full path.
fn path_forms(file: &Path) -> Vec<String> {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let stem = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let tails = (1..parts.len()).rev().map(|from| parts[from..].join("/"));
    [stem].into_iter().chain(tails).chain([file.to_string_lossy().into_owned()]).collect()
}

fn full_path(forms: &[String]) -> &str {
    forms.last().map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str]) -> String {
        short_names(&files.iter().map(Path::new).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn files_have_their_shortest_distinct_name() {
        assert_eq!(names(&["runs/a.hatchet", "runs/b.hatchet"]), "a b");
        assert_eq!(names(&["a.hatchet", "a.hatchet_msgpack"]), "a.hatchet a.hatchet_msgpack");
        assert_eq!(names(&["1/a.hatchet", "2/a.hatchet", "c"]), "1/a.hatchet 2/a.hatchet c");
        assert_eq!(names(&["a.hatchet", "x/a.hatchet"]), "a.hatchet x/a.hatchet");
        assert_eq!(names(&["/r/a.hatchet", "/s/a.hatchet"]), "r/a.hatchet s/a.hatchet");
        assert_eq!(names(&["/a.hatchet", "/s/a.hatchet"]), "/a.hatchet s/a.hatchet");
        assert_eq!(names(&["a", "a", "b"]), "a #1 a #2 b");
    }

    #[test]
    fn no_file_has_the_name_of_another() {
        let trio = ["a.hatchet", "a.hatchet.bak", "a.hatchet_msgpack"];
        assert_eq!(names(&trio), trio.join(" "));
        let trio = trio.map(|name| format!("runs/{name}"));
        assert_eq!(
            names(&trio.each_ref().map(|path| &**path)),
            "runs/a.hatchet a.hatchet.bak a.hatchet_msgpack"
        );
        assert_eq!(names(&["a", "a", "a #1"]), "a #2 a #3 a #1");
    }
}
