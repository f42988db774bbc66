//! Builds the tables of an exported profile: texts, mappings, functions and locations. Each entry
//! is written once and gets a new id.

use std::collections::HashMap;

use marey_model::context::NodeKind;
use marey_store::row::Metadata;
use marey_store::{Context, Reader};
use serde::Deserialize;

use super::message::{Function, Line, Location, Mapping, Profile, ValueType};
use super::metadata;

/// The ids of the entries so far. The entries that are not written yet are in [`Symbols::profile`].
#[derive(Default)]
pub(super) struct Symbols {
    /// The next part of the profile.
    pub(super) profile: Profile,
    pub(super) file: Option<metadata::File>,
    text_indexes: HashMap<Box<str>, i64>,
    text_count: i64,
    /// New ids by process and imported id, because profiles of several processes may use the same
    /// ids.
    mapping_ids: HashMap<(u32, u64), u64>,
    location_ids: HashMap<(u32, u64), u64>,
    function_ids: HashMap<(u32, u64), u64>,
    /// Number of functions.
    function_count: u64,
    location_count: u64,
    /// Locations of named frames, by name and whether the frame is one of Python.
    frame_locations: HashMap<(u32, bool), u64>,
    /// Functions of frames, by name and file.
    functions_by_name: HashMap<(i64, i64), u64>,
}

impl Symbols {
    pub(super) fn new() -> Self {
        let mut symbols = Self::default();
        symbols.text_index("");
        symbols
    }

    /// Returns the index of a text.
    pub(super) fn text_index(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.text_indexes.get(text) {
            return index;
        }
        let index = self.text_count;
        self.text_count += 1;
        self.text_indexes.insert(text.into(), index);
        self.profile.string_table.push(text.to_owned());
        index
    }

    pub(super) fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.text_index(kind), unit: self.text_index(unit) }
    }

    /// Adds an entry of an imported profile. Returns `false` if the row is no such entry.
    pub(super) fn add_imported(&mut self, row: &Metadata) -> bool {
        let Some(key) = row.key.strip_prefix("pprof.") else { return false };
        let (table, id) = key.split_once('.').unwrap_or((key, ""));
        let parsed = match (table, id.parse().map(|id| (row.process_id, id))) {
            ("mapping", Ok(id)) => parse_value(row).map(|mapping| self.add_mapping(id, &mapping)),
            ("function", Ok(id)) => {
                parse_value(row).map(|function| self.add_imported_function(id, &function))
            }
            ("location", Ok(id)) => {
                parse_value(row).map(|location| self.add_imported_location(id, &location))
            }
            ("file", _) if self.file.is_none() => {
                parse_value(row).map(|file| self.file = Some(file))
            }
            _ => None,
        };
        parsed.is_some()
    }

    /// Returns the new id of an imported location.
    pub(super) fn imported_location(&self, process_id: u32, location_id: u64) -> Option<u64> {
        self.location_ids.get(&(process_id, location_id)).copied()
    }

    /// Returns the location of a frame.
    pub(super) fn frame_location(&mut self, context: Context, reader: &Reader) -> u64 {
        let is_python = context.kind == NodeKind::Frame;
        self.named_frame_location(context.name_id, is_python, reader)
    }

    /// Returns the location of a kernel.
    pub(super) fn kernel_location(&mut self, name_id: u32, reader: &Reader) -> u64 {
        self.named_frame_location(name_id, false, reader)
    }

    fn named_frame_location(&mut self, name_id: u32, is_python: bool, reader: &Reader) -> u64 {
        if let Some(&location) = self.frame_locations.get(&(name_id, is_python)) {
            return location;
        }
        let name = reader.text(name_id);
        let python_parts = if is_python { split_python_frame(name) } else { None };
        let (file, number, function) = python_parts.unwrap_or(("", 0, name));
        let key = (self.text_index(function), self.text_index(file));
        let function_id = self.functions_by_name.get(&key).copied();
        let function_id = function_id.unwrap_or_else(|| {
            let (name, filename) = key;
            let id = self.add_function(Function { name, filename, ..Function::default() });
            self.functions_by_name.insert(key, id);
            id
        });
        let line = vec![Line { function_id, number, column: 0 }];
        let id = self.add_location(Location { line, ..Location::default() });
        self.frame_locations.insert((name_id, is_python), id);
        id
    }

    fn add_mapping(&mut self, id: (u32, u64), mapping: &metadata::Mapping) {
        let new_id = self.mapping_ids.len() as u64 + 1;
        self.mapping_ids.insert(id, new_id);
        let mapping = Mapping {
            id: new_id,
            memory_start: mapping.memory_start,
            memory_limit: mapping.memory_limit,
            file_offset: mapping.file_offset,
            filename: self.text_index(&mapping.filename),
            build_id: self.text_index(&mapping.build_id),
            has_functions: mapping.has_functions,
            has_filenames: mapping.has_filenames,
            has_line_numbers: mapping.has_line_numbers,
            has_inline_frames: mapping.has_inline_frames,
        };
        self.profile.mapping.push(mapping);
    }

    fn add_imported_function(&mut self, id: (u32, u64), function: &metadata::Function) {
        let function = Function {
            id: 0,
            name: self.text_index(&function.name),
            system_name: self.text_index(&function.system_name),
            filename: self.text_index(&function.filename),
            start_line: function.start_line,
        };
        let new_id = self.add_function(function);
        self.function_ids.insert(id, new_id);
    }

    fn add_imported_location(&mut self, (process, id): (u32, u64), location: &metadata::Location) {
        let new_id = |ids: &HashMap<_, u64>, id| ids.get(&(process, id)).copied().unwrap_or(0);
        let lines = location.lines.iter().map(|line| Line {
            function_id: new_id(&self.function_ids, line.function),
            number: line.number,
            column: line.column,
        });
        let location = Location {
            id: 0,
            mapping_id: new_id(&self.mapping_ids, location.mapping),
            address: location.address,
            line: lines.collect(),
            is_folded: location.is_folded,
        };
        let new_id = self.add_location(location);
        self.location_ids.insert((process, id), new_id);
    }

    fn add_function(&mut self, function: Function) -> u64 {
        self.function_count += 1;
        self.profile.function.push(Function { id: self.function_count, ..function });
        self.function_count
    }

    fn add_location(&mut self, location: Location) -> u64 {
        self.location_count += 1;
        self.profile.location.push(Location { id: self.location_count, ..location });
        self.location_count
    }
}

fn parse_value<'a, T: Deserialize<'a>>(row: &'a Metadata) -> Option<T> {
    serde_json::from_str(&row.value).ok()
}

/// Splits the name `file:line@function` of a Python frame.
fn split_python_frame(name: &str) -> Option<(&str, i64, &str)> {
    let (location, function) = name.rsplit_once('@')?;
    let (file, line) = location.rsplit_once(':')?;
    Some((file, line.parse().ok()?, function))
}
