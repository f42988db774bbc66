//! Stores runs: collects spools into tables, and reads tables.
//!
//! [`Run::open`] opens a collected run, which is a folder or a pack, as a list of Parquet [`Part`]s
//! for each table. [`collect`] writes a run from spools, [`Assembler`] from the events of foreign
//! files, and [`merge`] from other runs. [`pack`] turns a run into one file. The tables are
//! declared in [`marey_model::table`].
//!
//! **Constraints.** Every input file is untrusted: bad input is an error that names the file and
//! the cause, never a panic, and nothing outside the run's folder is read. No incomplete file ever
//! has a final name, and files that the manifest does not list are not part of the run. This crate
//! runs no SQL, prints nothing, and forbids unsafe code. Start reading at [`Manifest`], then
//! [`Run`].
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
mod file_id;
mod lock;
mod manifest;
mod merge;
mod migrate;
mod names;
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
mod small_parts;
mod sort;
mod sums;
mod write;

pub use assemble::{
    Assembled, Assembler, NewProcess, ProcessGroup, Sampled, Slice, TemporaryFiles,
};
pub use collect::{
    BrokenSpool, CodePlace, Collected, Progress, Sources, collect, needs_collecting, open,
};
pub use environment::{note_environment, temp_dir, temp_file};
pub use error::{Found, StoreError};
pub use lock::{Lock, is_recording};
pub use manifest::{CollectedSpool, Manifest, NextIds, OverheadEntry, PartEntry, ProcessEntry};
pub use merge::{Merger, merge};
pub use pack::pack;
pub use part::Part;
pub use reader::{Context, ProcessRow, Reader, Rows, Selection, SpansByThread, ThreadRow};
pub use run::Run;
pub use schema::arrow_schema;
pub use write::{PartWriter, WrittenPart, is_device_or_pipe};
