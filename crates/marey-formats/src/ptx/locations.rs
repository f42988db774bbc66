//! Collects the source locations of a PTX text, from its directives `.loc` and `.file`.

use std::collections::HashMap;
use std::sync::Arc;

use super::SourceLocation;

/// The maximum number of enclosing calls. Compilers do not inline that deeply, but a crafted text
/// may.
const MAX_CALLS: u32 = 64;

/// The separator between a location and the call that it was inlined at, in comments of LLVM.
const INLINED_AT: &str = "@[";

/// A file, by its number in the text or by its name in a comment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FileRef {
    Number(u32),
    Named(u32),
}

/// A line and a column of a file.
type Position = (FileRef, u32, u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Frame {
    position: Position,
    /// The call that it was inlined at, which is an earlier frame.
    caller: Option<FrameId>,
    /// Number of enclosing calls.
    depth: u32,
}

/// A location with its enclosing calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FrameId(u32);

/// The source locations of a text. Each is stored once.
#[derive(Default)]
pub(super) struct Locations {
    frames: Vec<Frame>,
    ids_by_frame: HashMap<Frame, FrameId>,
    /// The last frame at each position. It is needed because `inlined_at` names a call only by its
    /// position.
    latest_frames: HashMap<Position, FrameId>,
    files: HashMap<u32, Arc<str>>,
    /// Paths by file name, `None` if several files have the name.
    paths_by_name: HashMap<String, Option<Arc<str>>>,
    file_names: Vec<Arc<str>>,
    name_ids: HashMap<Arc<str>, u32>,
}

impl Locations {
    /// Adds `.file NUMBER "PATH"`.
    pub(super) fn add_file(&mut self, line: &str) {
        let number = line.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
        let path = line.split('"').nth(1);
        if let (Some(number), Some(path)) = (number, path) {
            let name = path.rsplit('/').next().unwrap_or(path);
            let path: Arc<str> = path.into();
            self.paths_by_name
                .entry(name.to_owned())
                .and_modify(|known| *known = known.take().filter(|known| *known == path))
                .or_insert_with(|| Some(Arc::clone(&path)));
            self.files.insert(number, path);
        }
    }

    /// Adds `.loc FILE LINE COLUMN`. The call that it was inlined at follows or, in output of older
    /// LLVM, a comment with all calls.
    pub(super) fn add_location(&mut self, line: &str, comment: &str) -> Option<FrameId> {
        let (position, attributes) = line.split_once(',').unwrap_or((line, ""));
        let position = parse_numbered(position.strip_prefix(".loc")?)?;
        let mut attributes = attributes.split(',').map(str::trim);
        let caller = attributes.find_map(|attribute| attribute.strip_prefix("inlined_at"));
        let caller = match caller {
            Some(caller) => Some(self.call_frame(parse_numbered(caller)?)),
            None => self.add_commented_calls(comment),
        };
        Some(self.add_frame(position, caller))
    }

    /// Returns the frame of the call of an inlined function. The text has listed the call before,
    /// with its own callers.
    fn call_frame(&mut self, position: Position) -> FrameId {
        self.latest_frames.get(&position).copied().unwrap_or_else(|| self.add_frame(position, None))
    }

    /// Adds the calls in a comment of the form `location @[ inner call @[ outer call ] ]`.
    fn add_commented_calls(&mut self, comment: &str) -> Option<FrameId> {
        let mut calls: Vec<&str> =
            comment.split(INLINED_AT).skip(1).take(MAX_CALLS as usize).collect();
        calls.reverse();
        let mut caller = None;
        for call in calls {
            let position = self.parse_named(call.trim_matches([' ', ']']))?;
            caller = Some(self.add_frame(position, caller));
        }
        caller
    }

    /// Parses `name:line:column`. LLVM omits a column that is 0.
    fn parse_named(&mut self, text: &str) -> Option<Position> {
        let (prefix, last_number) = text.rsplit_once(':')?;
        let last_number = last_number.parse().ok()?;
        let (name, line, column) = match prefix.rsplit_once(':') {
            Some((name, line)) if line.parse::<u32>().is_ok() => {
                (name, line.parse().ok()?, last_number)
            }
            _ => (prefix, last_number, 0),
        };
        let id = self.name_ids.get(name).copied().unwrap_or_else(|| {
            let id = self.file_names.len() as u32;
            let name: Arc<str> = name.into();
            self.file_names.push(Arc::clone(&name));
            self.name_ids.insert(name, id);
            id
        });
        Some((FileRef::Named(id), line, column))
    }

    fn add_frame(&mut self, position: Position, caller: Option<FrameId>) -> FrameId {
        let depth = caller.map_or(0, |caller| self.frames[caller.0 as usize].depth + 1);
        let caller = caller.filter(|_| depth <= MAX_CALLS);
        let frame = Frame { position, caller, depth: depth.min(MAX_CALLS) };
        let next_id = FrameId(self.frames.len() as u32);
        let id = *self.ids_by_frame.entry(frame).or_insert(next_id);
        if id == next_id {
            self.frames.push(frame);
        }
        self.latest_frames.insert(position, id);
        id
    }

    /// Returns a location and its enclosing calls, innermost first.
    pub(super) fn resolve(&self, id: FrameId) -> Arc<[SourceLocation]> {
        let mut locations = Vec::new();
        let mut next_id = Some(id);
        while let Some(FrameId(index)) = next_id {
            let Frame { position: (file, line, column), caller, .. } = self.frames[index as usize];
            locations.push(SourceLocation { file: self.path(file), line, column });
            next_id = caller;
        }
        locations.into()
    }

    fn path(&self, file: FileRef) -> Arc<str> {
        match file {
            FileRef::Number(number) => self
                .files
                .get(&number)
                .map_or_else(|| format!("<file {number}>").into(), Arc::clone),
            FileRef::Named(id) => {
                let name = &self.file_names[id as usize];
                Arc::clone(self.paths_by_name.get(&**name).and_then(Option::as_ref).unwrap_or(name))
            }
        }
    }
}

/// Parses `FILE LINE COLUMN`.
fn parse_numbered(text: &str) -> Option<Position> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    let file = FileRef::Number(numbers.next()??);
    Some((file, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn display(locations: &Locations, id: Option<FrameId>) -> String {
        let locations = locations.resolve(id.unwrap());
        locations.iter().map(ToString::to_string).collect::<Vec<_>>().join(" < ")
    }

    #[test]
    fn calls_are_resolved_by_their_positions() {
        let mut locations = Locations::default();
        locations.add_location(".loc 1 18 30", "");
        locations.add_location(".loc 1 11 12, function_name $L0, inlined_at 1 18 30", "");
        let inner =
            locations.add_location(".loc\t2 216 16, function_name $L0+8, inlined_at 1 11 12", "");
        locations.add_location(".loc 1 20 5", "");
        locations.add_location(".loc 1 11 12, function_name $L0, inlined_at 1 20 5", "");
        let again = locations.add_location(".loc 2 216 16, inlined_at 1 11 12", "");
        locations.add_file(".file 1 \"/a/kernels.py\"");
        locations.add_file(".file 2 \"/b c/standard.py\"");
        let calls = "/b c/standard.py:216:16 < /a/kernels.py:11:12 < /a/kernels.py";
        assert_eq!(display(&locations, inner), format!("{calls}:18:30"));
        assert_eq!(display(&locations, again), format!("{calls}:20:5"));
    }

    #[test]
    fn calls_are_resolved_from_comments() {
        let mut locations = Locations::default();
        locations.add_file(".file 1 \"/a/kernels.py\"");
        locations.add_file(".file 2 \"/b/x:y.py\"");
        locations.add_file(".file 3 \"/a/same.py\"");
        locations.add_file(".file 4 \"/b/same.py\"");
        let comment = "x:y.py:9:1 @[ kernels.py:11:18 @[ same.py:18 @[ x:y.py:3:7 ] ] ]";
        let id = locations.add_location(".loc 2 9 1", comment);
        assert_eq!(
            display(&locations, id),
            "/b/x:y.py:9:1 < /a/kernels.py:11:18 < same.py:18:0 < /b/x:y.py:3:7"
        );
    }

    #[test]
    fn malformed_locations_are_ignored() {
        let mut locations = Locations::default();
        for line in [".loc", ".loc 1 2", ".loc 1 2 x", ".loc 1 -2 3", ".loc 1 2 3, inlined_at 1"] {
            assert_eq!(locations.add_location(line, ""), None, "{line}");
        }
        let id = locations.add_location(".loc 7 1 1", "");
        assert_eq!(display(&locations, id), "<file 7>:1:1");
    }

    #[test]
    fn endless_calls_are_truncated() {
        let mut locations = Locations::default();
        let mut id = locations.add_location(".loc 1 1 1", "");
        for index in 1..10_000 {
            id = locations
                .add_location(&format!(".loc 1 {} 1, inlined_at 1 {index} 1", index + 1), "");
        }
        assert!(locations.resolve(id.unwrap()).len() <= MAX_CALLS as usize + 1);
        let recursive = locations.add_location(".loc 1 10000 1, inlined_at 1 10000 1", "");
        assert!(locations.resolve(recursive.unwrap()).len() <= MAX_CALLS as usize + 1);
    }
}
