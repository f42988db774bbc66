//! The forms that rows are written in.

use std::path::Path;

use clap::ValueEnum;

/// How the rows of an answer are written. Arrow is a stream in a pipe and a file with `-o`.
// Help is shorter without a line for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Table,
    Csv,
    Json,
    Jsonl,
    Arrow,
    Parquet,
}

impl Format {
    /// The format that a file's suffix means.
    pub(super) fn of_suffix(file: &Path) -> Option<Self> {
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

    /// Whether it would harm a terminal.
    pub(super) const fn is_binary(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }

    /// Rows that are shown unless the user says how many.
    pub(super) const fn default_max_rows(self) -> Option<u64> {
        match self {
            Self::Table => Some(1_000),
            _ => None,
        }
    }
}
