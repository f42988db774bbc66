//! What can be wrong with a run, and what helps.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use marey_model::table::stored::SCHEMA_VERSION;
use parquet::errors::ParquetError;
use thiserror::Error;

/// Why a run could not be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something else lies there.
    #[error("`{}` is no run: it is {found}", path.display())]
    NotARun {
        /// What was to be opened.
        path: PathBuf,
        /// What it is.
        found: Found,
    },
    /// Only spools are there as yet.
    #[error("`{}` has not been collected yet", path.display())]
    Uncollected {
        /// The run.
        path: PathBuf,
    },
    /// What has to be a file or a folder of the run may lie anywhere.
    #[error("`{}` is a link, and no part of the run", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// It cannot be collected where it lies.
    #[error("cannot collect `{}`: {source}", path.display())]
    ReadOnly {
        /// The run.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The run was written by another version.
    #[error(
        "`{}` is of schema version {found}; this program reads version {SCHEMA_VERSION}",
        path.display()
    )]
    Version {
        /// The run.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The manifest cannot be read, or contradicts itself.
    #[error("the manifest of `{}` is broken: {reason}", path.display())]
    Manifest {
        /// The run.
        path: PathBuf,
        /// What is wrong, in a sentence without its full stop.
        reason: String,
    },
    /// The one file of a run is not as [`crate::pack`] makes it.
    #[error("the pack `{}` is broken: {reason}", path.display())]
    Pack {
        /// The file.
        path: PathBuf,
        /// What is wrong, in a sentence without its full stop.
        reason: String,
    },
    /// A part is not what the manifest says.
    #[error("`{part}` of `{}` is broken: {reason}", run.display())]
    Part {
        /// The run.
        run: PathBuf,
        /// The part's name.
        part: String,
        /// What is wrong, in a sentence without its full stop.
        reason: String,
    },
    /// A part is no Parquet, or not of its table.
    #[error("cannot read `{part}` of `{}`: {source}", run.display())]
    Parquet {
        /// The run.
        run: PathBuf,
        /// The part's name.
        part: String,
        /// What the reader said.
        source: ParquetError,
    },
    /// Rows cannot be put together.
    #[error("cannot put together the rows of `{table}` of `{}`: {source}", run.display())]
    Arrow {
        /// The run.
        run: PathBuf,
        /// The table.
        table: &'static str,
        /// What Arrow said.
        source: ArrowError,
    },
}

impl StoreError {
    /// An error of the system, while doing something (`create`, `read`) with a path; for `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// What may help, as a sentence without its full stop.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } if is_full(source) => {
                Some("the tables, and sorting them, need room where the run lies".to_owned())
            }
            Self::ReadOnly { .. } => {
                Some("copy the run to a folder that you can write to".to_owned())
            }
            Self::NotARun { path, found } => found.hint(path),
            Self::Uncollected { path } => {
                Some(format!("collect it with `marey info {}`", path.display()))
            }
            Self::Version { found, .. } if *found > SCHEMA_VERSION => {
                Some("upgrade marey: `pip install --upgrade marey`".to_owned())
            }
            Self::Part { .. } | Self::Parquet { .. } => {
                Some("copy the run again, whole, if this is a copy of it".to_owned())
            }
            _ => None,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What lies where a run was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A folder with neither a manifest nor spools.
    Folder,
    /// A profile: the sums of a tree.
    Profile,
    /// A Chrome trace.
    ChromeTrace,
    /// One process's spool.
    Spool,
    /// One Parquet file.
    Parquet,
    /// The manifest of a run.
    Manifest,
    /// None of these.
    File,
}

impl Found {
    fn hint(self, path: &Path) -> Option<String> {
        let path = path.display();
        match self {
            Self::Profile => Some(format!("show it with `marey view {path}`")),
            Self::ChromeTrace => Some("show it in https://ui.perfetto.dev".to_owned()),
            Self::Spool | Self::Parquet | Self::Manifest => {
                Some("name the folder of the run, `NAME.marey`".to_owned())
            }
            Self::Folder | Self::File => None,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder without a manifest",
            Self::Profile => "a profile",
            Self::ChromeTrace => "a Chrome trace",
            Self::Spool => "the spool of one process",
            Self::Parquet => "a Parquet file",
            Self::Manifest => "the manifest of a run",
            Self::File => "some other file",
        })
    }
}
