//! [`StoreError`], the error of this crate: each names the file and the cause, and some have a
//! hint.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use marey_model::table::Table;
use marey_model::table::stored::SCHEMA_VERSION;
use parquet::errors::ParquetError;
use thiserror::Error;

/// An error while a run is read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The verb of the message, such as `open`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is not a run.
    #[error("`{}` is not a run: it is {found}", path.display())]
    NotARun {
        /// The path.
        path: PathBuf,
        /// The kind of file or folder.
        found: Found,
    },
    /// The run has spools and no tables yet.
    #[error("`{}` has not been collected yet", path.display())]
    Uncollected {
        /// The run.
        path: PathBuf,
    },
    /// A symbolic link is in place of a file or folder of the run. It could lead out of the run.
    #[error("`{}` is a symbolic link, which a run cannot contain", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// The run cannot be collected because its folder is not writable.
    #[error("cannot collect `{}`: {source}", path.display())]
    ReadOnly {
        /// The run.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The run has a schema version that this version cannot read.
    #[error(
        "`{}` has schema version {found}; this version of marey reads version {SCHEMA_VERSION}",
        path.display()
    )]
    Version {
        /// The run.
        path: PathBuf,
        /// Version.
        found: u32,
    },
    /// The manifest cannot be parsed or violates an invariant.
    #[error("the manifest of `{}` is broken: {reason}", path.display())]
    Manifest {
        /// The run.
        path: PathBuf,
        /// The cause, without a full stop.
        reason: String,
    },
    /// A pack does not have the layout that [`crate::pack`] writes.
    #[error("the pack `{}` is broken: {reason}", path.display())]
    Pack {
        /// The file.
        path: PathBuf,
        /// The cause, without a full stop.
        reason: String,
    },
    /// A part contradicts the manifest or its table.
    #[error("`{part}` of `{}` is broken: {reason}", run.display())]
    Part {
        /// The run.
        run: PathBuf,
        /// The part's name.
        part: String,
        /// The cause, without a full stop.
        reason: String,
    },
    /// A part is not a Parquet file of its table.
    #[error("cannot read `{part}` of `{}`: {source}", run.display())]
    Parquet {
        /// The run.
        run: PathBuf,
        /// The part's name.
        part: String,
        /// The Parquet reader's error.
        source: ParquetError,
    },
    /// Record batches cannot be built or concatenated.
    #[error("cannot build rows of the table `{table}` of `{}`: {source}", run.display())]
    Arrow {
        /// The run.
        run: PathBuf,
        /// The table.
        table: &'static str,
        /// Arrow's error.
        source: ArrowError,
    },
}

impl StoreError {
    /// Returns a function for `map_err` that adds a verb (`create`, `read`) and a path to an I/O
    /// error.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Returns the error of a part that contradicts the manifest or its table.
    pub(crate) fn part(run: &Path, part: &str, reason: impl Into<String>) -> Self {
        Self::Part { run: run.to_owned(), part: part.to_owned(), reason: reason.into() }
    }

    /// Returns a function for `map_err` that adds a run and a table to an error of Arrow.
    pub(crate) fn arrow(run: &Path, table: &'static Table) -> impl FnOnce(ArrowError) -> Self {
        let run = run.to_owned();
        move |source| Self::Arrow { run, table: table.name, source }
    }

    /// Returns a hint without a full stop, if one may help.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } if is_full(source) => Some(
                "free some disk space there: tables and the sort of their rows need it".to_owned(),
            ),
            Self::ReadOnly { .. } => Some("copy the run to a folder that is writable".to_owned()),
            Self::NotARun { path, found } => found.hint(path),
            Self::Uncollected { path } => Some(format!("run `marey collect {}`", path.display())),
            Self::Version { found, .. } if *found > SCHEMA_VERSION => {
                Some("upgrade marey: `pip install --upgrade marey`".to_owned())
            }
            Self::Part { .. } | Self::Parquet { .. } => {
                Some("if this is a copy of the run, copy it again completely".to_owned())
            }
            _ => None,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A file or folder that was found in place of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A folder with neither a manifest nor spools.
    Folder,
    /// A profile, which has sums and no events.
    Profile,
    /// A Chrome trace.
    ChromeTrace,
    /// The spool of one process.
    Spool,
    /// A Parquet file.
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
            Self::Profile => Some(format!("use `marey view {path}`")),
            Self::ChromeTrace => Some("open it in https://ui.perfetto.dev".to_owned()),
            Self::Spool | Self::Parquet | Self::Manifest => {
                Some("give the folder of the run, `NAME.marey`".to_owned())
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
            Self::File => "another kind of file",
        })
    }
}
