//! Reads PyTorch's memory snapshots, as `torch.cuda.memory._dump_snapshot` writes them.
//!
//! A snapshot is a pickled dict. `segments` is the memory that the allocator owns, each with its
//! blocks. `device_traces` has its earlier actions, in one list for each device. The oldest
//! snapshots are only the list of segments. marey writes the same dict as JSON, in which a block
//! may have the `path` of the scopes that allocated it. Blocks get the time at which the snapshot
//! was taken. Only the traces state it, so blocks wait for it in memory, with a few hundred bytes
//! each. Actions, which can be millions, do not wait.
//!
//! Times are microseconds since 1970. Old snapshots have none. Their events get consecutive
//! nanoseconds from 0, which keeps the order.

mod segment;
mod trace;

use marey_model::args::NewArgs;
use marey_model::loss::LossCause;
use marey_store::NewProcess;
use marey_store::row::MemoryBlock;

use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;
use crate::shared::interned::InternedTexts;
use crate::shared::pickle::{Document, Row, RowList, Value, Values, read_document};
use crate::shared::rank_in_name::rank_after_word;

const SEGMENTS: &str = "segments";
const DEVICE_TRACES: &str = "device_traces";
const HOST_TRACES: &str = "host_traces";
const HOST_SEGMENTS: &str = "host_segments";
const ANNOTATIONS: &str = "external_annotations";

/// Reads a snapshot.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let process_id = import.add_process(NewProcess {
        pid: -1,
        rank: rank_after_word(&import.stem),
        ..NewProcess::default()
    });
    let mut snapshot = Snapshot {
        import,
        process_id,
        args: NewArgs::default(),
        blocks: Vec::new(),
        interned: InternedTexts::default(),
        last_nanos: 0,
        captured_nanos: None,
        events_without_time: 0,
    };
    let result = read_document(input, &mut snapshot);
    // Added even after an error, because a snapshot that ends early has blocks too.
    snapshot.add_blocks()?;
    result
}

/// A snapshot that is being read.
struct Snapshot<'a> {
    import: &'a mut Import,
    process_id: u32,
    args: NewArgs,
    /// The blocks so far, whose time is not known yet.
    blocks: Vec<MemoryBlock>,
    /// Interned states of blocks and types of segments.
    interned: InternedTexts,
    /// The time of the latest event in the traces.
    last_nanos: i64,
    /// The time of the latest event that is a snapshot.
    captured_nanos: Option<i64>,
    /// Number of events without a time.
    events_without_time: i64,
}

impl Document for Snapshot<'_> {
    const NAME: &'static str = "a memory snapshot";
    const ROW_LISTS: &'static [RowList] = &[
        RowList { key: "", depth: 1 },
        RowList { key: SEGMENTS, depth: 1 },
        RowList { key: DEVICE_TRACES, depth: 2 },
        RowList { key: HOST_SEGMENTS, depth: 1 },
        RowList { key: HOST_TRACES, depth: 1 },
        RowList { key: ANNOTATIONS, depth: 1 },
    ];
    const LONG_LISTS: &'static [&'static str] = &[];

    fn add_row(&mut self, values: &mut Values, row: Row) -> Result<(), ReaderError> {
        let result = match row.key {
            DEVICE_TRACES => self.add_trace_entry(values, row, Some(row.list_index)),
            HOST_TRACES => self.add_trace_entry(values, row, None),
            ANNOTATIONS => self.add_annotation(values, row),
            HOST_SEGMENTS => {
                let cause = "a segment of pinned host memory, which runs have no table for";
                self.import.lose(LossCause::Unsupported, 1, row.offset, cause);
                Ok(())
            }
            _ => self.add_segment(values, row),
        };
        let key = if row.key.is_empty() { SEGMENTS } else { row.key };
        Ok(self.import.count_unreadable(result, key, row.offset)?)
    }

    fn add_member(
        &mut self,
        key: &str,
        value: Value,
        values: &Values,
        offset: u64,
    ) -> Result<(), ReaderError> {
        Ok(self.import.add_metadata(self.process_id, key, values.json(value), offset)?)
    }
}

impl Snapshot<'_> {
    /// Adds the blocks to the run.
    fn add_blocks(self) -> Result<(), ReaderError> {
        let time_nanos = self.captured_nanos.unwrap_or(self.last_nanos);
        for block in self.blocks {
            self.import.run.add_memory_block(&MemoryBlock { time_nanos, ..block })?;
        }
        Ok(())
    }
}
