//! The JSON in the rows of `metadata` that keep the metadata of a profile.
//!
//! One row `pprof.file` is for the file. Each location, function and mapping has a row whose key
//! ends with its id. Empty and zero fields are omitted.

use serde::{Deserialize, Serialize};

/// Metadata of the file.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct File {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) time_nanos: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) duration_nanos: i64,
    /// The event that is counted between two samples, and its unit.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) period_type: Option<(String, String)>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) period: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) comments: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) drop_frames: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) keep_frames: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) default_sample_type: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) doc_url: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "these are the fields of the message")]
pub(super) struct Mapping {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) memory_start: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) memory_limit: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) file_offset: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) filename: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) build_id: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) has_functions: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) has_filenames: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) has_line_numbers: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) has_inline_frames: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Location {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) mapping: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) address: u64,
    /// Outermost last.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) lines: Vec<Line>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) is_folded: bool,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) function: u64,
    #[serde(rename = "line", skip_serializing_if = "is_default")]
    pub(super) number: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) column: i64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Function {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) system_name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) filename: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) start_line: i64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
