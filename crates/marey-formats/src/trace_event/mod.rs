//! Trace-event JSON: what torch.profiler, Proton and Chrome's own tracing write.
//!
//! One reader for all: each event says by its phase and category what it is. One thread finds the
//! events ([`scan`]): a [`window`] over the file shows one at a time, whose [`lexer`] finds its pieces
//! without copying any. Another makes rows of them ([`events`]). What stands beside the events waits
//! for the end ([`meta`]), since files have it before or after them.
//!
//! Not kept: Kineto's arrows from launches to devices and its names of devices' rows, which follow
//! from the numbers of activities.

mod batch;
mod category;
mod counter;
mod device;
mod event;
mod events;
mod lanes;
mod lexer;
mod memory;
mod meta;
mod number;
mod open;
mod scan;
mod shape;
mod slice_args;
mod text;
mod time;
mod window;

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use marey_model::loss::LossCause;

use self::batch::{Batch, Found, Item};
use self::event::{Members, Pieces};
use self::events::Events;
use self::scan::Scan;
use self::shape::Shapes;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::{Input, MAX_RECYCLED};

/// Batches that wait for who makes rows of them.
const MAX_WAITING: usize = 2;

/// Reads a trace.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let mut events = Events::default();
    let end = thread::scope(|scope| {
        let (found, batches) = sync_channel(MAX_WAITING);
        let (used, empty) = sync_channel(MAX_RECYCLED);
        let scan = Scan::new(input, found, empty);
        let scanning = thread::Builder::new()
            .name("marey-scan".to_owned())
            .spawn_scoped(scope, || scan.run())?;
        add_all(batches, &used, &mut events, import)?;
        scanning.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    match end {
        Ok(()) | Err(ReaderError::Content(_)) => events.finish(end.is_ok(), import)?,
        Err(_) => {}
    }
    end
}

/// Makes rows of what is found, and gives the memory back.
fn add_all(
    batches: Receiver<Batch>,
    used: &SyncSender<Batch>,
    events: &mut Events,
    import: &mut Import,
) -> Result<(), ReaderError> {
    for batch in batches {
        let (text, start) = batch.text();
        for item in &batch.items {
            match item {
                Item::Event(found) => {
                    let at = found.start - start;
                    match text.get(at..at + found.len) {
                        Some(text) => events.add(&batch.event(found, text), import)?,
                        None => add_odd(&batch, found, events, import)?,
                    }
                }
                Item::Key(key, value) => events.meta.add_key(key, value),
                Item::Bad { offset, cause } => {
                    import.lose(LossCause::Unreadable, 1, *offset, cause);
                }
            }
        }
        drop(used.try_send(batch)); // one too many is not needed, nor any at the end
    }
    Ok(())
}

/// Adds an event that has something behind or within it that is no text.
fn add_odd(
    batch: &Batch,
    found: &Found,
    events: &mut Events,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let bytes = batch.bytes_of(found);
    if let Ok(text) = std::str::from_utf8(bytes) {
        return events.add(&batch.event(found, text), import);
    }
    let (text, offset) = (String::from_utf8_lossy(bytes), batch.offset_of(found));
    let mut members = Members::default();
    let mut pieces = Pieces::default();
    match pieces.find(text.as_bytes(), &mut members, &mut Shapes::default()) {
        Ok(_) => events.add(&pieces.event(&text, &members, offset), import)?,
        Err(_) => import.lose(LossCause::Unreadable, 1, offset, "no UTF-8"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use marey_store::Assembler;
    use proptest::prelude::*;

    /// A file with one of everything.
    const ALL: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"x"}],"traceEvents":[
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

    /// How reading ends, and how many events there were.
    fn read_bytes(content: &[u8]) -> (Result<(), ReaderError>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let mut import = Import::new(Assembler::brief(folder.path()), "file");
        let end =
            read(&mut Input::new(std::io::Cursor::new(content.to_vec())).unwrap(), &mut import);
        (end, import.run.events())
    }

    #[test]
    fn a_file_may_be_cut_anywhere() {
        assert!(matches!(read_bytes(ALL.as_bytes()), (Ok(()), 11)));
        let mut most = 0;
        for end in 0..ALL.len() {
            let (end, events) = read_bytes(&ALL.as_bytes()[..end]);
            assert!(matches!(end, Err(ReaderError::Content(_))) && events >= most);
            most = events;
        }
        assert_eq!(most, 11);
    }

    #[test]
    fn a_byte_order_mark_may_be_cut() {
        let marked = format!("\u{feff}{ALL}");
        assert!(matches!(read_bytes(marked.as_bytes()), (Ok(()), 11)));
        for torn in [&b"\xef"[..], b"\xef&", b"\xef\xbb", b"\xef\xbb&", b"\xef\xbb\xbf", b" \xef["]
        {
            let (end, events) = read_bytes(torn);
            let Err(ReaderError::Content(fault)) = end else { panic!("{torn:?} is no trace") };
            assert_eq!((fault.cause.as_str(), events), ("no JSON object or list", 0));
        }
    }

    #[test]
    fn chunks_may_end_anywhere() {
        // The events lie across the end of what is read at a time.
        let event = |n: u32| format!(r#"{{"ph":"i","name":"{n}","pid":1,"tid":1,"ts":{n}}}"#);
        let events: Vec<_> = (0..30_000).map(event).collect();
        let (end, count) = read_bytes(format!("[{}]", events.join(",\n")).as_bytes());
        assert!(end.is_ok() && count == 30_000);
    }

    #[test]
    fn a_long_piece_is_read_in_time_that_grows_with_it() {
        let long = "x".repeat(4 << 20);
        let trace =
            format!(r#"{{"a":"{long}","traceEvents":[{{"ph":"i","name":"{long}","ts":1}}]}}"#);
        assert!(matches!(read_bytes(trace.as_bytes()), (Ok(()), 1)));
    }

    proptest! {
        #[test]
        fn flipped_bytes_do_no_harm(
            flips in prop::collection::vec((0..ALL.len(), any::<u8>()), 1..4),
        ) {
            let mut content = ALL.as_bytes().to_vec();
            for (at, byte) in flips {
                content[at] = byte;
            }
            let (end, _) = read_bytes(&content);
            prop_assert!(matches!(end, Ok(()) | Err(ReaderError::Content(_))));
        }
    }
}
