//! Places in the source: `.loc` and `.file`.

use std::collections::HashMap;
use std::sync::Arc;

use super::Place;

/// Calls around a line that are kept. No compiler inlines so deeply; a made up text might.
const MAX_CALLS: u32 = 64;

/// What stands between a place and the call that it was inlined at, in a comment of LLVM.
const INLINED_AT: &str = "@[";

/// A file: its number, or a name that a comment gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum File {
    Number(u32),
    Named(u32),
}

/// A line and a column of a file.
type Position = (File, u32, u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Frame {
    position: Position,
    /// The call that it was inlined at: an earlier frame.
    caller: Option<FrameId>,
    /// Callers above.
    depth: u32,
}

/// A place and the calls around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FrameId(u32);

/// Every place that a text names, once each.
#[derive(Default)]
pub(super) struct Places {
    frames: Vec<Frame>,
    ids: HashMap<Frame, FrameId>,
    /// The last frame at each position: calls around an inlined line name their position only.
    latest: HashMap<Position, FrameId>,
    files: HashMap<u32, Arc<str>>,
    /// By the last part of the path; `None` where several files have it.
    by_name: HashMap<String, Option<Arc<str>>>,
    names: Vec<Arc<str>>,
    name_ids: HashMap<Arc<str>, u32>,
}

impl Places {
    /// Takes `.file NUMBER "PATH"`.
    pub(super) fn add_file(&mut self, line: &str) {
        let number = line.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
        let path = line.split('"').nth(1);
        if let (Some(number), Some(path)) = (number, path) {
            let name = path.rsplit('/').next().unwrap_or(path);
            let path: Arc<str> = path.into();
            self.by_name
                .entry(name.to_owned())
                .and_modify(|only| *only = only.take().filter(|only| *only == path))
                .or_insert_with(|| Some(Arc::clone(&path)));
            self.files.insert(number, path);
        }
    }

    /// Takes `.loc FILE LINE COLUMN`, with the call that it was inlined at behind a comma, or, from
    /// older LLVM, with all calls in the comment.
    pub(super) fn add_location(&mut self, line: &str, comment: &str) -> Option<FrameId> {
        let (position, attributes) = line.split_once(',').unwrap_or((line, ""));
        let position = numbered(position.strip_prefix(".loc")?)?;
        let mut attributes = attributes.split(',').map(str::trim);
        let caller = attributes.find_map(|attribute| attribute.strip_prefix("inlined_at"));
        let caller = match caller {
            Some(caller) => Some(self.call(numbered(caller)?)),
            None => self.calls(comment),
        };
        Some(self.add(position, caller))
    }

    /// Where an inlined function was called. The text has told it before, with the calls around.
    fn call(&mut self, position: Position) -> FrameId {
        self.latest.get(&position).copied().unwrap_or_else(|| self.add(position, None))
    }

    /// The calls that a comment names: `place @[ inner call @[ outer call ] ]`.
    fn calls(&mut self, comment: &str) -> Option<FrameId> {
        let mut calls: Vec<&str> =
            comment.split(INLINED_AT).skip(1).take(MAX_CALLS as usize).collect();
        calls.reverse();
        let mut caller = None;
        for call in calls {
            let position = self.named(call.trim_matches([' ', ']']))?;
            caller = Some(self.add(position, caller));
        }
        caller
    }

    /// `name:line:column`; LLVM leaves out a column that is 0.
    fn named(&mut self, text: &str) -> Option<Position> {
        let (before, last) = text.rsplit_once(':')?;
        let last = last.parse().ok()?;
        let (name, line, column) = match before.rsplit_once(':') {
            Some((name, line)) if line.parse::<u32>().is_ok() => (name, line.parse().ok()?, last),
            _ => (before, last, 0),
        };
        let id = self.name_ids.get(name).copied().unwrap_or_else(|| {
            let id = self.names.len() as u32;
            let name: Arc<str> = name.into();
            self.names.push(Arc::clone(&name));
            self.name_ids.insert(name, id);
            id
        });
        Some((File::Named(id), line, column))
    }

    fn add(&mut self, position: Position, caller: Option<FrameId>) -> FrameId {
        let depth = caller.map_or(0, |caller| self.frames[caller.0 as usize].depth + 1);
        let caller = caller.filter(|_| depth <= MAX_CALLS);
        let frame = Frame { position, caller, depth: depth.min(MAX_CALLS) };
        let next = FrameId(self.frames.len() as u32);
        let id = *self.ids.entry(frame).or_insert(next);
        if id == next {
            self.frames.push(frame);
        }
        self.latest.insert(position, id);
        id
    }

    /// A place, then the calls around it outwards.
    pub(super) fn resolve(&self, id: FrameId) -> Arc<[Place]> {
        let mut places = Vec::new();
        let mut next = Some(id);
        while let Some(FrameId(at)) = next {
            let Frame { position: (file, line, column), caller, .. } = self.frames[at as usize];
            places.push(Place { file: self.path(file), line, column });
            next = caller;
        }
        places.into()
    }

    fn path(&self, file: File) -> Arc<str> {
        match file {
            File::Number(number) => self
                .files
                .get(&number)
                .map_or_else(|| format!("<file {number}>").into(), Arc::clone),
            File::Named(id) => {
                let name = &self.names[id as usize];
                Arc::clone(self.by_name.get(&**name).and_then(Option::as_ref).unwrap_or(name))
            }
        }
    }
}

/// `FILE LINE COLUMN`.
fn numbered(text: &str) -> Option<Position> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    let file = File::Number(numbers.next()??);
    Some((file, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(places: &Places, id: Option<FrameId>) -> String {
        let places = places.resolve(id.unwrap());
        places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" < ")
    }

    #[test]
    fn calls_are_found_by_their_positions() {
        let mut places = Places::default();
        places.add_location(".loc 1 18 30", "");
        places.add_location(".loc 1 11 12, function_name $L0, inlined_at 1 18 30", "");
        let inner =
            places.add_location(".loc\t2 216 16, function_name $L0+8, inlined_at 1 11 12", "");
        places.add_location(".loc 1 20 5", "");
        places.add_location(".loc 1 11 12, function_name $L0, inlined_at 1 20 5", "");
        let again = places.add_location(".loc 2 216 16, inlined_at 1 11 12", "");
        places.add_file(".file 1 \"/a/kernels.py\"");
        places.add_file(".file 2 \"/b c/standard.py\"");
        let calls = "/b c/standard.py:216:16 < /a/kernels.py:11:12 < /a/kernels.py";
        assert_eq!(told(&places, inner), format!("{calls}:18:30"));
        assert_eq!(told(&places, again), format!("{calls}:20:5"));
    }

    #[test]
    fn calls_may_stand_in_the_comment() {
        let mut places = Places::default();
        places.add_file(".file 1 \"/a/kernels.py\"");
        places.add_file(".file 2 \"/b/x:y.py\"");
        places.add_file(".file 3 \"/a/same.py\"");
        places.add_file(".file 4 \"/b/same.py\"");
        let comment = "x:y.py:9:1 @[ kernels.py:11:18 @[ same.py:18 @[ x:y.py:3:7 ] ] ]";
        let id = places.add_location(".loc 2 9 1", comment);
        assert_eq!(
            told(&places, id),
            "/b/x:y.py:9:1 < /a/kernels.py:11:18 < same.py:18:0 < /b/x:y.py:3:7"
        );
    }

    #[test]
    fn what_makes_no_sense_is_no_place() {
        let mut places = Places::default();
        for line in [".loc", ".loc 1 2", ".loc 1 2 x", ".loc 1 -2 3", ".loc 1 2 3, inlined_at 1"] {
            assert_eq!(places.add_location(line, ""), None, "{line}");
        }
        let id = places.add_location(".loc 7 1 1", "");
        assert_eq!(told(&places, id), "<file 7>:1:1");
    }

    #[test]
    fn calls_without_end_are_cut() {
        let mut places = Places::default();
        let mut id = places.add_location(".loc 1 1 1", "");
        for at in 1..10_000 {
            id = places.add_location(&format!(".loc 1 {} 1, inlined_at 1 {at} 1", at + 1), "");
        }
        assert!(places.resolve(id.unwrap()).len() <= MAX_CALLS as usize + 1);
        let own = places.add_location(".loc 1 10000 1, inlined_at 1 10000 1", "");
        assert!(places.resolve(own.unwrap()).len() <= MAX_CALLS as usize + 1);
    }
}
