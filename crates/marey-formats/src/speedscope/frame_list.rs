//! Collects the list of frames of an exported file, to which its profiles refer by index.

use std::collections::HashMap;
use std::io::{self, Write};

use marey_model::json::quote;
use marey_store::row::Metadata;
use marey_store::{Reader, StoreError};

use super::FRAMES_KEY;
use super::frames::{self, FrameObject};

/// The frames by their names in a run, with the files and lines of imported frames.
pub(super) struct FrameList<'r> {
    reader: &'r Reader<'r>,
    /// The frames as JSON.
    frames: Vec<String>,
    /// Imported frames, by process and label.
    imported_index_by_label: HashMap<(u32, String), u32>,
    /// Indices by process and name.
    index_by_name: HashMap<(u32, u32), u32>,
    /// Frames that have only a name.
    name_only_index: HashMap<u32, u32>,
}

impl<'r> FrameList<'r> {
    /// Collects the frames in the metadata of a run.
    pub(super) fn new(reader: &'r Reader<'r>) -> Result<Self, StoreError> {
        let (index_by_name, name_only_index) = (HashMap::new(), HashMap::new());
        let mut list = Self {
            reader,
            frames: Vec::new(),
            imported_index_by_label: HashMap::new(),
            index_by_name,
            name_only_index,
        };
        for row in reader.rows::<Metadata>()? {
            let row = row?;
            if &*row.key == FRAMES_KEY {
                let frames: Vec<FrameObject> = serde_json::from_str(&row.value).unwrap_or_default();
                list.add_imported(row.process_id, frames);
            }
        }
        Ok(list)
    }

    fn add_imported(&mut self, process_id: u32, frames: Vec<FrameObject>) {
        let frames: Vec<FrameObject> = frames.into_iter().map(frames::normalise).collect();
        for (label, frame) in frames::labels(&frames).into_iter().zip(&frames) {
            let next_index = self.frames.len() as u32;
            if *self.imported_index_by_label.entry((process_id, label)).or_insert(next_index)
                == next_index
            {
                self.frames.push(serde_json::to_string(frame).expect("it was JSON before"));
            }
        }
    }

    /// Returns the index of the frame with a name in a process. Adds the frame if it is new.
    pub(super) fn frame_index(&mut self, process_id: u32, name_id: u32) -> u32 {
        let Self { reader, frames, imported_index_by_label, index_by_name, name_only_index } = self;
        *index_by_name.entry((process_id, name_id)).or_insert_with(|| {
            let name = reader.text(name_id);
            if let Some(&index) = imported_index_by_label.get(&(process_id, name.to_owned())) {
                return index;
            }
            *name_only_index.entry(name_id).or_insert_with(|| {
                let mut json = String::from(r#"{"name":"#);
                quote(name, &mut json);
                json.push('}');
                frames.push(json);
                frames.len() as u32 - 1
            })
        })
    }

    /// Writes the list.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"[")?;
        for (number, frame) in self.frames.iter().enumerate() {
            out.write_all(if number == 0 { b"\n" } else { b",\n" })?;
            out.write_all(frame.as_bytes())?;
        }
        out.write_all(b"]")
    }
}
