//! Converts the locations of a sample to its context. Each location is converted once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_store::Assembler;

use super::message::{Function, Location, Mapping};
use super::tables::{Tables, decode_entry};
use crate::shared::MAX_DEPTH;
use crate::shared::import::{Import, ReaderError};

/// The number of bytes to which references may expand, for each byte of the file.
const EXPANDED_PER_BYTE: u64 = 64;
/// The number of bytes to which references may expand in any file.
const BASE_EXPANDED_BYTES: u64 = 16 << 20;

/// The number of bytes that a frame of a stack counts.
const FRAME_BYTES: u64 = 64;

/// The names and stacks of a profile.
pub(super) struct Stacks<'a> {
    pub(super) tables: Tables<'a>,
    /// Name ids of the frames of each location, outermost first.
    frame_names: HashMap<u64, Rc<[u32]>>,
    /// The context of a location below another context, and the number of its frames.
    children: HashMap<(u32, u64), (u32, usize)>,
    /// The number of bytes to which references may still expand.
    remaining_bytes: u64,
}

impl<'a> Stacks<'a> {
    pub(super) fn new(tables: Tables<'a>, content_bytes: usize) -> Self {
        let remaining_bytes = (content_bytes as u64).saturating_mul(EXPANDED_PER_BYTE);
        let remaining_bytes = remaining_bytes.saturating_add(BASE_EXPANDED_BYTES);
        Self { tables, frame_names: HashMap::new(), children: HashMap::new(), remaining_bytes }
    }

    /// Returns the context of some locations, which are given innermost first. `None` if a location
    /// is missing or the stack is too deep.
    pub(super) fn stack_context(
        &mut self,
        location_ids: &[u64],
        offset: u64,
        import: &mut Import,
    ) -> Result<Option<u32>, ReaderError> {
        let (mut context_id, mut depth) = (Assembler::ROOT, 0);
        for &location_id in location_ids.iter().rev() {
            let Some((child, frame_count)) =
                self.child_context(context_id, location_id, offset, import)?
            else {
                let cause = format!("location {location_id} is missing");
                import.lose(LossCause::Unreadable, 1, offset, cause);
                return Ok(None);
            };
            context_id = child;
            depth += frame_count;
            if depth > MAX_DEPTH {
                let cause = format!("the stack has more than {MAX_DEPTH} frames");
                import.lose(LossCause::Unsupported, 1, offset, cause);
                return Ok(None);
            }
        }
        Ok(Some(context_id))
    }

    /// Returns the text at an index, empty if there is none.
    pub(super) fn text(
        &mut self,
        text_index: i64,
        offset: u64,
        import: &mut Import,
    ) -> Result<Cow<'a, str>, ReaderError> {
        let index = usize::try_from(text_index).ok();
        let Some(bytes) = index.and_then(|index| self.tables.texts.get(index).copied()) else {
            if text_index != 0 {
                let cause = format!("text {text_index} is missing");
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

    /// Returns the context of a location below another context, and the number of its frames.
    fn child_context(
        &mut self,
        context_id: u32,
        location_id: u64,
        offset: u64,
        import: &mut Import,
    ) -> Result<Option<(u32, usize)>, ReaderError> {
        if let Some(&child) = self.children.get(&(context_id, location_id)) {
            return Ok(Some(child));
        }
        let Some(frames) = self.frame_names(location_id, import)? else { return Ok(None) };
        self.count_expansion(FRAME_BYTES.saturating_mul(frames.len() as u64), offset)?;
        let child = frames.iter().fold(context_id, |context_id, &name_id| {
            import.run.context_id(context_id, NodeKind::Frame, name_id)
        });
        self.children.insert((context_id, location_id), (child, frames.len()));
        Ok(Some((child, frames.len())))
    }

    /// Returns the name ids of the frames of a location, outermost first and at least one. `None`
    /// if the location is missing.
    fn frame_names(
        &mut self,
        id: u64,
        import: &mut Import,
    ) -> Result<Option<Rc<[u32]>>, ReaderError> {
        if let Some(frames) = self.frame_names.get(&id) {
            return Ok(Some(Rc::clone(frames)));
        }
        let Some(&(offset, _)) = self.tables.locations.get(&id) else { return Ok(None) };
        let location: Location = decode_entry(&self.tables.locations, id).unwrap_or_default();
        let mut names = Vec::new();
        for line in location.line.iter().rev().filter(|line| line.function_id != 0) {
            if let Some(name) = self.function_name(line.function_id, offset, import)? {
                names.push(import.run.text_id(&name));
            }
        }
        if names.is_empty() {
            let name = self.address_name(&location, offset, import)?;
            names.push(import.run.text_id(&name));
        }
        let names: Rc<[u32]> = names.into();
        self.frame_names.insert(id, Rc::clone(&names));
        Ok(Some(names))
    }

    /// Returns the name of a function, if it has one.
    fn function_name(
        &mut self,
        id: u64,
        offset: u64,
        import: &mut Import,
    ) -> Result<Option<Cow<'a, str>>, ReaderError> {
        let Some(function) = decode_entry::<Function>(&self.tables.functions, id) else {
            let cause = format!("function {id} is missing");
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

    /// Returns the name of an address without a function, such as `0x4010 (libc.so.6)`.
    fn address_name(
        &mut self,
        location: &Location,
        offset: u64,
        import: &mut Import,
    ) -> Result<String, ReaderError> {
        let mapping = decode_entry::<Mapping>(&self.tables.mappings, location.mapping_id);
        let file = self.text(mapping.unwrap_or_default().filename, offset, import)?;
        let file = file.rsplit('/').next().unwrap_or_default();
        let address = location.address;
        Ok(if file.is_empty() { format!("{address:#x}") } else { format!("{address:#x} ({file})") })
    }

    /// Counts the bytes to which a reference expands. Fails beyond a limit, because a small file
    /// can expand to endless stacks and texts.
    fn count_expansion(&mut self, bytes: u64, offset: u64) -> Result<(), ReaderError> {
        let remaining = self.remaining_bytes.checked_sub(bytes);
        let cause = "the references of the profile expand to far more than the profile";
        self.remaining_bytes = remaining.ok_or_else(|| ReaderError::content(offset, cause))?;
        Ok(())
    }
}
