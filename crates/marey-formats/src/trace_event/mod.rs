//! Reads trace-event JSON, as torch.profiler, Proton and Chrome's own tracing write it.
//!
//! A single reader handles all dialects, by the phase and category of each event. One thread finds
//! the events ([`scan`]): a [`buffer`] moves over the file, and the [`lexer`] finds the ranges of
//! one event at a time without copying. The main thread converts them to rows ([`events`]).
//! Metadata next to the list of events is applied at the end ([`meta`]), because files have it
//! before or after the events.
//!
//! Kineto's flows from launches to activities and its names of device rows are dropped, because
//! they follow from the activities.

mod batch;
mod begin_end;
mod buffer;
mod bytes;
mod category;
mod collectives;
mod complete;
mod counter;
mod device;
mod event;
mod events;
mod lexer;
mod memory;
mod meta;
mod number;
mod open;
mod scan;
mod shape;
mod slice_args;
mod text;
mod threads;
mod time;

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use marey_model::loss::LossCause;

use self::batch::{Batch, BatchItem, FoundEvent};
use self::event::{EventRanges, Members};
use self::events::EventConverter;
use self::scan::Scanner;
use self::shape::Shapes;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::{Input, MAX_RECYCLED_CHUNKS};

/// The maximum number of batches that wait for conversion.
const MAX_QUEUED_BATCHES: usize = 2;

/// Reads a trace.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let mut converter = EventConverter::default();
    let result = thread::scope(|scope| {
        let (sender, batches) = sync_channel(MAX_QUEUED_BATCHES);
        let (recycled, reusable) = sync_channel(MAX_RECYCLED_CHUNKS);
        let scanner = Scanner::new(input, sender, reusable);
        let scanning = thread::Builder::new()
            .name("marey-scan".to_owned())
            .spawn_scoped(scope, || scanner.run())?;
        convert_batches(batches, &recycled, &mut converter, import)?;
        scanning.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    match result {
        Ok(()) | Err(ReaderError::Content(_)) => converter.finish(result.is_ok(), import)?,
        Err(_) => {}
    }
    result
}

/// Converts batches to rows and recycles their memory.
fn convert_batches(
    batches: Receiver<Batch>,
    recycled: &SyncSender<Batch>,
    converter: &mut EventConverter,
    import: &mut Import,
) -> Result<(), ReaderError> {
    for batch in batches {
        let (text, start) = batch.event_text();
        for item in &batch.items {
            match item {
                BatchItem::Event(found) => {
                    let position = found.start - start;
                    match text.get(position..position + found.len) {
                        Some(text) => converter.add(&batch.event(found, text), import)?,
                        None => add_invalid_utf8(&batch, found, converter, import)?,
                    }
                }
                BatchItem::Member(key, value) => converter.metadata.add_entry(key, value),
                BatchItem::Malformed { offset, cause } => {
                    import.lose(LossCause::Unreadable, 1, *offset, cause);
                }
            }
        }
        drop(recycled.try_send(batch)); // surplus batches are freed
    }
    Ok(())
}

/// Adds an event of a batch that contains bytes which are not UTF-8.
fn add_invalid_utf8(
    batch: &Batch,
    found: &FoundEvent,
    converter: &mut EventConverter,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let bytes = batch.bytes_of(found);
    if let Ok(text) = std::str::from_utf8(bytes) {
        return converter.add(&batch.event(found, text), import);
    }
    let (text, offset) = (String::from_utf8_lossy(bytes), batch.offset_of(found));
    let mut members = Members::default();
    let mut ranges = EventRanges::default();
    match ranges.parse(text.as_bytes(), &mut members, &mut Shapes::default()) {
        Ok(_) => converter.add(&ranges.event(&text, &members, offset), import)?,
        Err(_) => import.lose(LossCause::Unreadable, 1, offset, "no UTF-8"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use marey_store::Assembler;
    use proptest::prelude::*;

    /// A trace with an event of each kind.
    const TRACE: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"x"}],"traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"python"}},
{"ph":"X","cat":"cpu_op","name":"\u00e9\\","pid":1,"tid":1,"ts":1.25,"dur":9,"args":{"External id":3,"Input Dims":[[1,2],[]]}},
{"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":2,"dur":1,"args":{"correlation":4}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":3,"dur":1,"args":{"device":0,"stream":7,"correlation":4,"grid":[1,1,1],"Collective name":"send"}},
{"ph":"B","name":"b","pid":"Spans","tid":"x","ts":1,"args":{"a":"\ud800","b":[2]}},{"ph":"E","pid":"Spans","tid":"x","ts":2,"args":{"a":1}},
{"ph":"b","cat":"c","name":"r","id2":{"local":"0x1"},"pid":1,"tid":1,"ts":1},{"ph":"e","cat":"c","name":"r","id2":{"local":"0x1"},"pid":1,"tid":1,"ts":2},
{"ph":"C","name":"m","pid":1,"tid":1,"ts":5,"args":{"value":1.5}},
{"ph":"s","cat":"fwdbwd","name":"f","id":1,"pid":1,"tid":1,"ts":5},
{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":5,"args":{"Device Type":1,"Device Id":0,"Addr":1,"Bytes":-5}},
{"ph":"X","cat":"metric","name":"s: <m, 1>","pid":1,"tid":1,"ts":6,"dur":1,"args":{"call_stack":["ROOT","s"],"metrics":{"m":"1"}}}
],"distributedInfo":{"rank":1},"baseTimeNanoseconds":1000,"traceName":"t"}"#;

    /// Returns the result of reading, and the number of events.
    fn read_bytes(content: &[u8]) -> (Result<(), ReaderError>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let mut import = Import::new(Assembler::temporary(folder.path()), "file");
        let end =
            read(&mut Input::new(std::io::Cursor::new(content.to_vec())).unwrap(), &mut import);
        (end, import.run.event_count())
    }

    #[test]
    fn a_trace_may_be_truncated_anywhere() {
        assert!(matches!(read_bytes(TRACE.as_bytes()), (Ok(()), 11)));
        let mut most = 0;
        for end in 0..TRACE.len() {
            let (end, events) = read_bytes(&TRACE.as_bytes()[..end]);
            assert!(matches!(end, Err(ReaderError::Content(_))) && events >= most);
            most = events;
        }
        assert_eq!(most, 11);
    }

    #[test]
    fn a_byte_order_mark_may_be_truncated() {
        let marked = format!("\u{feff}{TRACE}");
        assert!(matches!(read_bytes(marked.as_bytes()), (Ok(()), 11)));
        for torn in [&b"\xef"[..], b"\xef&", b"\xef\xbb", b"\xef\xbb&", b"\xef\xbb\xbf", b" \xef["]
        {
            let (end, events) = read_bytes(torn);
            let Err(ReaderError::Content(fault)) = end else { panic!("{torn:?} is no trace") };
            assert_eq!(
                (fault.cause.as_str(), events),
                ("it is neither a JSON object nor a list", 0)
            );
        }
    }

    #[test]
    fn events_may_span_chunks() {
        // Events lie across the boundaries of chunks.
        let event = |n: u32| format!(r#"{{"ph":"i","name":"{n}","pid":1,"tid":1,"ts":{n}}}"#);
        let events: Vec<_> = (0..30_000).map(event).collect();
        let (end, count) = read_bytes(format!("[{}]", events.join(",\n")).as_bytes());
        assert!(end.is_ok() && count == 30_000);
    }

    #[test]
    fn long_strings_are_read_in_linear_time() {
        let long = "x".repeat(4 << 20);
        let trace =
            format!(r#"{{"a":"{long}","traceEvents":[{{"ph":"i","name":"{long}","ts":1}}]}}"#);
        assert!(matches!(read_bytes(trace.as_bytes()), (Ok(()), 1)));
    }

    proptest! {
        #[test]
        fn damaged_bytes_never_panic(
            flips in prop::collection::vec((0..TRACE.len(), any::<u8>()), 1..4),
        ) {
            let mut content = TRACE.as_bytes().to_vec();
            for (at, byte) in flips {
                content[at] = byte;
            }
            let (end, _) = read_bytes(&content);
            prop_assert!(matches!(end, Ok(()) | Err(ReaderError::Content(_))));
        }
    }
}
