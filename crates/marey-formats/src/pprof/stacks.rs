//! From the locations of a sample to its context.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_store::Assembler;

use super::message::{Function, Location, Mapping};
use super::tables::{Tables, find};
use crate::shared::MAX_DEPTH;
use crate::shared::import::{Import, ReaderError};

/// What references may count_expansion to: so many bytes for each of the file, and some more.
const UNFOLDED_BYTES: u64 = 64;
const MORE_UNFOLDED_BYTES: u64 = 16 << 20;

/// What a frame of a stack is worth of these.
const FRAME_BYTES: u64 = 64;

/// Names and stacks of a profile.
pub(super) struct Stacks<'a> {
    pub(super) tables: Tables<'a>,
    /// The names of the frames of each location, outermost first.
    frames: HashMap<u64, Rc<[u32]>>,
    /// The context of a location below another context, and how many frames further down it is.
    below: HashMap<(u32, u64), (u32, usize)>,
    /// Bytes that references may still count_expansion to.
    left_bytes: u64,
}

impl<'a> Stacks<'a> {
    pub(super) fn new(tables: Tables<'a>, content_bytes: usize) -> Self {
        let left_bytes = (content_bytes as u64).saturating_mul(UNFOLDED_BYTES);
        let left_bytes = left_bytes.saturating_add(MORE_UNFOLDED_BYTES);
        Self { tables, frames: HashMap::new(), below: HashMap::new(), left_bytes }
    }

    /// The context of locations, innermost first; `None` if it is lost.
    pub(super) fn context(
        &mut self,
        locations: &[u64],
        offset: u64,
        import: &mut Import,
    ) -> Result<Option<u32>, ReaderError> {
        let (mut context, mut depth) = (Assembler::ROOT, 0);
        for &location in locations.iter().rev() {
            let Some((below, frames)) = self.step(context, location, offset, import)? else {
                let cause = format!("location {location} is not there");
                import.lose(LossCause::Unreadable, 1, offset, cause);
                return Ok(None);
            };
            context = below;
            depth += frames;
            if depth > MAX_DEPTH {
                let cause = format!("the stack has more than {MAX_DEPTH} frames");
                import.lose(LossCause::Unsupported, 1, offset, cause);
                return Ok(None);
            }
        }
        Ok(Some(context))
    }

    /// A text by its position; empty if it is not there.
    pub(super) fn text(
        &mut self,
        position: i64,
        offset: u64,
        import: &mut Import,
    ) -> Result<Cow<'a, str>, ReaderError> {
        let at = usize::try_from(position).ok();
        let Some(bytes) = at.and_then(|at| self.tables.texts.get(at).copied()) else {
            if position != 0 {
                let cause = format!("text {position} is not there");
                import.lose(LossCause::Unreadable, 1, offset, cause);
            }
            return Ok(Cow::Borrowed(""));
        };
        self.count_expansion(bytes.len() as u64, offset)?;
        let text = String::from_utf8_lossy(bytes);
        if let Cow::Owned(_) = text {
            import.lose(LossCause::Unreadable, 1, offset, "a text is not UTF-8");
        }
        Ok(text)
    }

    /// From a context to that of a location below it, and how many frames that is.
    fn step(
        &mut self,
        context: u32,
        location: u64,
        offset: u64,
        import: &mut Import,
    ) -> Result<Option<(u32, usize)>, ReaderError> {
        if let Some(&step) = self.below.get(&(context, location)) {
            return Ok(Some(step));
        }
        let Some(frames) = self.frames(location, import)? else { return Ok(None) };
        self.count_expansion(FRAME_BYTES.saturating_mul(frames.len() as u64), offset)?;
        let below = frames.iter().fold(context, |context, &name_id| {
            import.run.context(context, NodeKind::Frame, name_id)
        });
        self.below.insert((context, location), (below, frames.len()));
        Ok(Some((below, frames.len())))
    }

    /// The names of a location's frames, outermost first; at least one, unless it is not there.
    fn frames(&mut self, id: u64, import: &mut Import) -> Result<Option<Rc<[u32]>>, ReaderError> {
        if let Some(frames) = self.frames.get(&id) {
            return Ok(Some(Rc::clone(frames)));
        }
        let Some(&(offset, _)) = self.tables.locations.get(&id) else { return Ok(None) };
        let location: Location = find(&self.tables.locations, id).unwrap_or_default();
        let mut names = Vec::new();
        for line in location.line.iter().rev().filter(|line| line.function_id != 0) {
            if let Some(name) = self.function_name(line.function_id, offset, import)? {
                names.push(import.run.text(&name));
            }
        }
        if names.is_empty() {
            let name = self.address(&location, offset, import)?;
            names.push(import.run.text(&name));
        }
        let names: Rc<[u32]> = names.into();
        self.frames.insert(id, Rc::clone(&names));
        Ok(Some(names))
    }

    /// The name of a function, if it has one.
    fn function_name(
        &mut self,
        id: u64,
        offset: u64,
        import: &mut Import,
    ) -> Result<Option<Cow<'a, str>>, ReaderError> {
        let Some(function) = find::<Function>(&self.tables.functions, id) else {
            let cause = format!("function {id} is not there");
            import.lose(LossCause::Unreadable, 1, offset, cause);
            return Ok(None);
        };
        for name in [function.name, function.system_name] {
            let name = self.text(name, offset, import)?;
            if !name.is_empty() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// What a place in code is called that has no name: `0x4010 (libc.so.6)`.
    fn address(
        &mut self,
        location: &Location,
        offset: u64,
        import: &mut Import,
    ) -> Result<String, ReaderError> {
        let mapping = find::<Mapping>(&self.tables.mappings, location.mapping_id);
        let file = self.text(mapping.unwrap_or_default().filename, offset, import)?;
        let file = file.rsplit('/').next().unwrap_or_default();
        let address = location.address;
        Ok(if file.is_empty() { format!("{address:#x}") } else { format!("{address:#x} ({file})") })
    }

    /// Counts what a reference unfolds to: a small file can mean endless stacks and texts.
    fn count_expansion(&mut self, bytes: u64, offset: u64) -> Result<(), ReaderError> {
        let left = self.left_bytes.checked_sub(bytes);
        let cause = "what the profile refers to is far longer than the profile";
        self.left_bytes = left.ok_or_else(|| ReaderError::at(offset, cause))?;
        Ok(())
    }
}
