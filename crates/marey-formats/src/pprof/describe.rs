//! Adds the metadata of an imported profile as rows of `metadata`, so that an export can restore
//! it.

use marey_store::row::Metadata;
use serde::Serialize;

use super::message::{Function, Location, Mapping};
use super::metadata;
use super::stacks::Stacks;
use super::tables::decode_entry;
use crate::shared::import::{Import, ReaderError};

/// Adds the metadata of the file, its mappings, functions and locations. Each entry comes after the
/// entries that it refers to.
pub(super) fn add_metadata(
    stacks: &mut Stacks,
    process_id: u32,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let mut writer = MetadataWriter { stacks, process_id, import };
    let file = writer.file_metadata()?;
    if file != metadata::File::default() {
        writer.add("pprof.file", &file)?;
    }
    let mappings = writer.stacks.tables.mappings.clone();
    for (id, &(offset, _)) in &mappings {
        let mapping = decode_entry(&mappings, *id).unwrap_or_default();
        let mapping = writer.mapping_metadata(mapping, offset)?;
        writer.add(&format!("pprof.mapping.{id}"), &mapping)?;
    }
    let functions = writer.stacks.tables.functions.clone();
    for (id, &(offset, _)) in &functions {
        let function = decode_entry(&functions, *id).unwrap_or_default();
        let function = writer.function_metadata(function, offset)?;
        writer.add(&format!("pprof.function.{id}"), &function)?;
    }
    let locations = writer.stacks.tables.locations.clone();
    for id in locations.keys() {
        let location = location_metadata(&decode_entry(&locations, *id).unwrap_or_default());
        writer.add(&format!("pprof.location.{id}"), &location)?;
    }
    Ok(())
}

struct MetadataWriter<'s, 'a, 'i> {
    stacks: &'s mut Stacks<'a>,
    process_id: u32,
    import: &'i mut Import,
}

impl MetadataWriter<'_, '_, '_> {
    fn file_metadata(&mut self) -> Result<metadata::File, ReaderError> {
        let file = self.stacks.tables.file.clone();
        let period_type = match file.period_type {
            Some(value_type) => {
                Some((self.text(value_type.kind, 0)?, self.text(value_type.unit, 0)?))
            }
            None => None,
        };
        let comments = file.comment.iter().map(|&comment| self.text(comment, 0));
        Ok(metadata::File {
            time_nanos: file.time_nanos,
            duration_nanos: file.duration_nanos,
            period_type,
            period: file.period,
            comments: comments.collect::<Result<_, _>>()?,
            drop_frames: self.text(file.drop_frames, 0)?,
            keep_frames: self.text(file.keep_frames, 0)?,
            default_sample_type: self.text(file.default_sample_type, 0)?,
            doc_url: self.text(file.doc_url, 0)?,
        })
    }

    fn mapping_metadata(
        &mut self,
        mapping: Mapping,
        offset: u64,
    ) -> Result<metadata::Mapping, ReaderError> {
        Ok(metadata::Mapping {
            memory_start: mapping.memory_start,
            memory_limit: mapping.memory_limit,
            file_offset: mapping.file_offset,
            filename: self.text(mapping.filename, offset)?,
            build_id: self.text(mapping.build_id, offset)?,
            has_functions: mapping.has_functions,
            has_filenames: mapping.has_filenames,
            has_line_numbers: mapping.has_line_numbers,
            has_inline_frames: mapping.has_inline_frames,
        })
    }

    fn function_metadata(
        &mut self,
        function: Function,
        offset: u64,
    ) -> Result<metadata::Function, ReaderError> {
        Ok(metadata::Function {
            name: self.text(function.name, offset)?,
            system_name: self.text(function.system_name, offset)?,
            filename: self.text(function.filename, offset)?,
            start_line: function.start_line,
        })
    }

    fn text(&mut self, text_index: i64, offset: u64) -> Result<String, ReaderError> {
        Ok(self.stacks.text(text_index, offset, self.import)?.into_owned())
    }

    fn add(&mut self, key: &str, metadata: &impl Serialize) -> Result<(), ReaderError> {
        let value = serde_json::to_string(metadata).expect("texts and numbers can be serialized");
        Ok(self.import.run.add_metadata(&Metadata::new(self.process_id, key, &value))?)
    }
}

fn location_metadata(location: &Location) -> metadata::Location {
    let lines = location.line.iter().map(|line| metadata::Line {
        function: line.function_id,
        number: line.number,
        column: line.column,
    });
    metadata::Location {
        mapping: location.mapping_id,
        address: location.address,
        lines: lines.collect(),
        is_folded: location.is_folded,
    }
}
