//! The run directory: from spools to tables, and from tables to readers.
//!
//! [`Run::open`] gives a collected run, a folder or a pack, as a list of Parquet [`Part`]s for each
//! table; [`PartWriter`] and [`Manifest`] are how a collector makes one; [`pack`] makes one file of
//! it. What the tables hold is declared in [`marey_model::table`].
//!
//! **Constraints.** Every file that comes in is hostile until checked: bad input is an error that
//! names the file and the cause, never a panic, and nothing outside the run's folder is read. No
//! half-written file ever bears a final name, and what the manifest does not list does not exist.
//! This crate knows no SQL, prints nothing, and forbids unsafe code.
//!
//! Start reading at [`Manifest`], then [`Run`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow::array::{RecordBatch, StringArray, UInt32Array};
//! use marey_model::table::stored::STRINGS;
//! use marey_store::{Manifest, PartWriter, Run, arrow_schema};
//!
//! let folder = tempfile::tempdir()?;
//! let batch = RecordBatch::try_new(
//!     arrow_schema(&STRINGS),
//!     vec![Arc::new(UInt32Array::from(vec![0])), Arc::new(StringArray::from(vec!["step"]))],
//! )?;
//! let mut writer = PartWriter::create(folder.path(), &STRINGS, 0)?;
//! writer.write(&batch)?;
//! let part = writer.finish()?;
//!
//! let mut manifest = Manifest::new();
//! manifest.next.part = 1;
//! manifest.list(&part, None);
//! manifest.publish(folder.path(), vec![part])?;
//!
//! let run = Run::open(folder.path())?;
//! assert_eq!(run.read(&STRINGS)?, batch);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod arg_texts;
mod assemble;
mod collect;
mod columns;
mod environment;
mod error;
mod gather;
mod lock;
mod manifest;
mod merge;
mod migrate;
mod names;
mod own;
mod pack;
mod part;
mod parts;
mod publish;
mod read;
mod reader;
mod rollup;
pub mod row;
mod run;
mod schema;
mod sort;
mod sums;
mod write;

pub use assemble::{Assembled, Assembler, BriefFiles, NewProcess, ProcessGroup, Sampled, Slice};
pub use collect::{BrokenSpool, Collected, Progress, collect, needs_collecting, open};
pub use environment::{note_environment, temp_dir, temp_file};
pub use error::{Found, StoreError};
pub use lock::{Lock, is_recording};
pub use manifest::{CollectedSpool, Manifest, NextIds, OverheadEntry, PartEntry, ProcessEntry};
pub use merge::{Merger, merge};
pub use pack::pack;
pub use part::Part;
pub use reader::{ByThread, Context, ProcessRow, Reader, Rows, ThreadRow, Window};
pub use run::Run;
pub use schema::arrow_schema;
pub use write::{PartWriter, WrittenPart};
