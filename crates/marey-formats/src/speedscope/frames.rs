//! Reads the frames of a file, and finds their labels in a run.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// A frame as the file has it.
pub(super) type FrameObject = Map<String, Value>;

/// Returns the name of a frame, empty if it has none.
pub(super) fn name(frame: &FrameObject) -> &str {
    frame.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Returns a valid frame, which has a name and no location fields of the wrong type.
pub(super) fn normalise(mut frame: FrameObject) -> FrameObject {
    frame.retain(|key, value| match key.as_str() {
        "name" | "file" => value.is_string(),
        "line" | "col" => value.is_number(),
        _ => true,
    });
    frame.entry("name").or_insert_with(|| Value::from(""));
    frame
}

/// Returns a unique label for each distinct frame. It is the name, followed by file, line and
/// column if several frames have the name.
pub(super) fn labels(frames: &[FrameObject]) -> Vec<String> {
    let mut first_by_name = HashMap::new();
    let mut ambiguous = HashSet::new();
    for frame in frames {
        if *first_by_name.entry(name(frame)).or_insert(frame) != frame {
            ambiguous.insert(name(frame));
        }
    }
    let mut used_labels: HashMap<String, &FrameObject> = HashMap::with_capacity(frames.len());
    let label = |(number, frame): (usize, _)| {
        let mut label = name(frame).to_owned();
        if ambiguous.contains(&*label) {
            add_location(frame, &mut label);
        }
        while used_labels.get(&label).is_some_and(|other| *other != frame) {
            write!(label, " #{number}").expect("writing to a `String` cannot fail");
        }
        used_labels.entry(label.clone()).or_insert(frame);
        label
    };
    frames.iter().enumerate().map(label).collect()
}

fn add_location(frame: &FrameObject, label: &mut String) {
    let mut separator = " (";
    for key in ["file", "line", "col"] {
        let part = match frame.get(key) {
            Some(Value::String(file)) => file.clone(),
            Some(number) => number.to_string(),
            None => continue,
        };
        label.push_str(separator);
        label.push_str(&part);
        separator = ":";
    }
    if separator == ":" {
        label.push(')');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_names_get_a_location() {
        let frames: Vec<FrameObject> = serde_json::from_str(
            r#"[{"name": "main", "file": "a.py", "line": 1},
                {"name": "run", "file": "a.py", "line": 7, "col": 2},
                {"name": "run", "file": "a.py", "line": 9},
                {"name": "run", "file": "a.py", "line": 9},
                {"name": "run (a.py:9)"},
                {"name": "run"}, {"name": "run", "x": 1}, {}]"#,
        )
        .unwrap();
        let expected = [
            "main",
            "run (a.py:7:2)",
            "run (a.py:9)",
            "run (a.py:9)",
            "run (a.py:9) #4",
            "run",
            "run #6",
            "",
        ];
        assert_eq!(labels(&frames), expected);
    }

    #[test]
    fn a_name_that_looks_like_a_numbered_label_stays_distinct() {
        let frames: Vec<FrameObject> = serde_json::from_str(
            r#"[{"name": "run #2"}, {"name": "run"}, {"name": "run", "x": 1}]"#,
        )
        .unwrap();
        assert_eq!(labels(&frames), ["run #2", "run", "run #2 #2"]);
    }
}
