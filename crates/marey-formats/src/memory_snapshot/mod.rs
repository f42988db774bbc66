//! PyTorch's memory snapshots: what `torch.cuda.memory._dump_snapshot` writes.
//!
//! A snapshot is a pickled dict: the `segments` that the allocator holds, each with its blocks, and
//! `device_traces`, what it did before, one list a device. The oldest ones are the list of segments
//! alone. Blocks get the time at which the snapshot was taken, which only the traces say: they wait
//! for it in memory, a few hundred bytes each. There are as many as the allocator holds at a moment;
//! what it did, which can be millions of events, does not wait.
//!
//! Times are microseconds since 1970. Old snapshots have none: the events of such a trace stand one nanosecond after the other, from 0, which keeps their order.

mod segment;
mod trace;

use std::collections::HashSet;
use std::sync::Arc;

use marey_model::args::NewArgs;
use marey_model::loss::LossCause;
use marey_store::NewProcess;
use marey_store::row::{MemoryBlock, Metadata};

use crate::flight_recorder::rank;
use crate::import::{Broken, Import};
use crate::input::Input;
use crate::pickle::{Pickle, Row, RowList, Unfit};

const SEGMENTS: &str = "segments";
const DEVICE_TRACES: &str = "device_traces";
const HOST_TRACES: &str = "host_traces";
const HOST_SEGMENTS: &str = "host_segments";
const ANNOTATIONS: &str = "external_annotations";

/// What is read element by element.
const LISTS: &[RowList] = &[
    RowList { key: "", depth: 1 },
    RowList { key: SEGMENTS, depth: 1 },
    RowList { key: DEVICE_TRACES, depth: 2 },
    RowList { key: HOST_SEGMENTS, depth: 1 },
    RowList { key: HOST_TRACES, depth: 1 },
    RowList { key: ANNOTATIONS, depth: 1 },
];

/// Reads a snapshot.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), Broken> {
    let process = import.process(NewProcess {
        pid: -1,
        rank: rank::named(&import.stem),
        ..NewProcess::default()
    });
    let mut snapshot = Snapshot {
        pickle: Pickle::new(input, LISTS),
        import,
        process,
        args: NewArgs::default(),
        blocks: Vec::new(),
        words: HashSet::new(),
        last_nanos: 0,
        taken_nanos: None,
        timeless_events: 0,
    };
    let rows = snapshot.rows();
    // A snapshot that ends early has blocks, too.
    snapshot.finish()?;
    rows
}

/// A snapshot that is being read.
struct Snapshot<'a> {
    pickle: Pickle<'a>,
    import: &'a mut Import,
    process: u32,
    args: NewArgs,
    /// The blocks so far, without their time.
    blocks: Vec<MemoryBlock>,
    /// States of blocks and types of segments.
    words: HashSet<Arc<str>>,
    /// The latest event of the traces.
    last_nanos: i64,
    /// The latest event that is a snapshot.
    taken_nanos: Option<i64>,
    /// Events that have no time.
    timeless_events: i64,
}

impl Snapshot<'_> {
    fn rows(&mut self) -> Result<(), Broken> {
        while let Some(row) = self.pickle.next_row()? {
            let read = match row.key {
                DEVICE_TRACES => self.trace_entry(row, Some(row.list))?,
                HOST_TRACES => self.trace_entry(row, None)?,
                ANNOTATIONS => self.annotation(row)?,
                HOST_SEGMENTS => {
                    let cause = "a segment of pinned host memory, which runs have no table for";
                    self.import.lose(LossCause::Unsupported, 1, row.offset, cause);
                    Ok(())
                }
                _ => self.segment(row)?,
            };
            if let Err(reason) = read {
                self.unreadable(row, reason);
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, row: Row, reason: impl std::fmt::Display) {
        let key = if row.key.is_empty() { SEGMENTS } else { row.key };
        let cause = format!("an element of `{key}`: {reason}");
        self.import.lose(LossCause::Unreadable, 1, row.offset, cause);
    }

    /// Adds the blocks, and what the snapshot says of itself.
    fn finish(self) -> Result<(), Broken> {
        let Self { pickle, import, process, blocks, taken_nanos, last_nanos, .. } = self;
        let time_nanos = taken_nanos.unwrap_or(last_nanos);
        for block in blocks {
            import.run.add_memory_block(&MemoryBlock { time_nanos, ..block })?;
        }
        for (key, value) in pickle.outer_fields() {
            let Some(key) = pickle.values.name(key) else { continue };
            if LISTS.iter().any(|list| list.key == key) {
                continue;
            }
            match pickle.values.json(value) {
                Ok(json) => import.run.add_metadata(&Metadata {
                    process_id: process,
                    thread_id: None,
                    key: key.into(),
                    value: json.into(),
                })?,
                Err(reason) => {
                    let cause = format!("`{key}`: {reason}");
                    import.lose(LossCause::Unreadable, 1, pickle.offset(), cause);
                }
            }
        }
        Ok(())
    }
}

/// What reading an element of a list comes to: a reason why not all of it can be used is a loss.
type Read = Result<Result<(), Unfit>, Broken>;
