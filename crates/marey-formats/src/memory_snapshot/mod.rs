//! PyTorch's memory snapshots, as `torch.cuda.memory._dump_snapshot` writes them.
//!
//! A snapshot is a pickled dict: `segments`, the memory that the allocator owns, each with its
//! blocks, and `device_traces`, its earlier actions, one list for each device. The oldest snapshots
//! are the list of segments alone. Blocks get the time at which the snapshot was taken. Only the
//! traces have it, so blocks wait for it in memory, a few hundred bytes each. Actions, which can be
//! millions, do not wait.
//!
//! Times are microseconds since 1970. Old snapshots have none: their events get consecutive
//! nanoseconds from 0, which keeps the order.

mod segment;
mod trace;

use std::collections::HashSet;
use std::sync::Arc;

use marey_model::args::NewArgs;
use marey_model::loss::LossCause;
use marey_store::NewProcess;
use marey_store::row::MemoryBlock;

use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;
use crate::shared::pickle::{Pickle, RowList};
use crate::shared::rank_in_name::rank_after_word;

const SEGMENTS: &str = "segments";
const DEVICE_TRACES: &str = "device_traces";
const HOST_TRACES: &str = "host_traces";
const HOST_SEGMENTS: &str = "host_segments";
const ANNOTATIONS: &str = "external_annotations";

/// The lists that are read element by element.
const LISTS: &[RowList] = &[
    RowList { key: "", depth: 1 },
    RowList { key: SEGMENTS, depth: 1 },
    RowList { key: DEVICE_TRACES, depth: 2 },
    RowList { key: HOST_SEGMENTS, depth: 1 },
    RowList { key: HOST_TRACES, depth: 1 },
    RowList { key: ANNOTATIONS, depth: 1 },
];

/// Reads a snapshot.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let process = import.add_process(NewProcess {
        pid: -1,
        rank: rank_after_word(&import.stem),
        ..NewProcess::default()
    });
    let mut snapshot = Snapshot {
        pickle: Pickle::new(input, LISTS),
        import,
        process,
        args: NewArgs::default(),
        blocks: Vec::new(),
        interned: HashSet::new(),
        last_nanos: 0,
        captured_nanos: None,
        events_without_time: 0,
    };
    let result = snapshot.read_rows();
    // A snapshot that ends early has blocks too.
    snapshot.finish()?;
    result
}

/// A snapshot that is being read.
struct Snapshot<'a> {
    pickle: Pickle<'a>,
    import: &'a mut Import,
    process: u32,
    args: NewArgs,
    /// The blocks so far, without their time.
    blocks: Vec<MemoryBlock>,
    /// Interned states of blocks and types of segments.
    interned: HashSet<Arc<str>>,
    /// The time of the latest event in the traces.
    last_nanos: i64,
    /// The time of the latest event that is a snapshot.
    captured_nanos: Option<i64>,
    /// Number of events without a time.
    events_without_time: i64,
}

impl Snapshot<'_> {
    fn read_rows(&mut self) -> Result<(), ReaderError> {
        while let Some(row) = self.pickle.next_row()? {
            let result = match row.key {
                DEVICE_TRACES => self.add_trace_entry(row, Some(row.list_index)),
                HOST_TRACES => self.add_trace_entry(row, None),
                ANNOTATIONS => self.add_annotation(row),
                HOST_SEGMENTS => {
                    let cause = "a segment of pinned host memory, which runs have no table for";
                    self.import.lose(LossCause::Unsupported, 1, row.offset, cause);
                    Ok(())
                }
                _ => self.add_segment(row),
            };
            let key = if row.key.is_empty() { SEGMENTS } else { row.key };
            self.import.count_unreadable(result, key, row.offset)?;
        }
        Ok(())
    }

    /// Adds the blocks and the remaining members of the dict.
    fn finish(self) -> Result<(), ReaderError> {
        let Self { pickle, import, process, blocks, captured_nanos, last_nanos, .. } = self;
        let time_nanos = captured_nanos.unwrap_or(last_nanos);
        for block in blocks {
            import.run.add_memory_block(&MemoryBlock { time_nanos, ..block })?;
        }
        for (key, value) in pickle.outer_fields() {
            let Some(key) = pickle.values.name(key) else { continue };
            if LISTS.iter().any(|list| list.key == key) {
                continue;
            }
            import.add_metadata(process, key, pickle.values.json(value), pickle.offset())?;
        }
        Ok(())
    }
}
