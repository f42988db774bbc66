//! The output formats of `marey query`.

use std::path::Path;

use clap::ValueEnum;

/// Output format of rows. Arrow is a stream on stdout and a file with `-o`.
// Variants have no doc comments, which keeps `--help` short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RowFormat {
    Table,
    Csv,
    Json,
    Jsonl,
    Arrow,
    Parquet,
}

impl RowFormat {
    /// Returns the format of a file's suffix.
    pub(super) fn from_suffix(file: &Path) -> Option<Self> {
        let suffix = file.extension()?.to_str()?.to_ascii_lowercase();
        Some(match suffix.as_str() {
            "txt" => Self::Table,
            "csv" => Self::Csv,
            "json" => Self::Json,
            "jsonl" | "ndjson" => Self::Jsonl,
            "arrow" | "feather" => Self::Arrow,
            "parquet" => Self::Parquet,
            _ => return None,
        })
    }

    /// Whether the format is binary.
    pub(super) const fn is_binary(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }

    /// Returns the default of `--max-rows`.
    pub(super) const fn default_max_rows(self) -> Option<u64> {
        match self {
            Self::Table => Some(1_000),
            _ => None,
        }
    }
}
