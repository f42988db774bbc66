//! The frames of a file to be written.

use std::collections::HashMap;
use std::io::{self, Write};

use marey_model::args::quote;
use marey_store::row::Metadata;
use marey_store::{Reader, StoreError};

use super::FRAMES;
use super::frames::{self, Frame};

/// Frames by the names of a run, with the files and lines that imported ones had.
pub(super) struct FrameList<'r> {
    reader: &'r Reader<'r>,
    /// Each as JSON.
    frames: Vec<String>,
    /// Those of imported files, by process and what contexts are called after them.
    imported: HashMap<(u32, String), u32>,
    /// By process and name.
    numbers: HashMap<(u32, u32), u32>,
    /// Those that are but a name.
    plain: HashMap<u32, u32>,
}

impl<'r> FrameList<'r> {
    /// The frames that the metadata of a run knows.
    pub(super) fn new(reader: &'r Reader<'r>) -> Result<Self, StoreError> {
        let (numbers, plain) = (HashMap::new(), HashMap::new());
        let mut list =
            Self { reader, frames: Vec::new(), imported: HashMap::new(), numbers, plain };
        for row in reader.rows::<Metadata>()? {
            let row = row?;
            if &*row.key == FRAMES {
                let frames: Vec<Frame> = serde_json::from_str(&row.value).unwrap_or_default();
                list.import(row.process_id, frames);
            }
        }
        Ok(list)
    }

    fn import(&mut self, process: u32, frames: Vec<Frame>) {
        let frames: Vec<Frame> = frames.into_iter().map(frames::valid).collect();
        for (label, frame) in frames::labels(&frames).into_iter().zip(&frames) {
            let next = self.frames.len() as u32;
            if *self.imported.entry((process, label)).or_insert(next) == next {
                self.frames.push(serde_json::to_string(frame).expect("it was JSON before"));
            }
        }
    }

    /// The number of the frame that a name of a process stands for.
    pub(super) fn number(&mut self, process: u32, name_id: u32) -> u32 {
        let Self { reader, frames, imported, numbers, plain } = self;
        *numbers.entry((process, name_id)).or_insert_with(|| {
            let name = reader.text(name_id);
            if let Some(&number) = imported.get(&(process, name.to_owned())) {
                return number;
            }
            *plain.entry(name_id).or_insert_with(|| {
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
