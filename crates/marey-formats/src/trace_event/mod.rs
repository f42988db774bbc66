//! Trace-event JSON: what torch.profiler, Proton and Chrome's own tracing write.
//!
//! One reader for all: each event says by its phase and category what it is. A [`window`] over the
//! file shows one event at a time, whose [`lexer`] finds its pieces without copying any; [`events`]
//! makes rows of them. What stands beside the events waits for the end ([`meta`]), since files have
//! it before or after them.
//!
//! Not kept: Kineto's arrows from launches to devices and its names of devices' rows, which follow
//! from the numbers of activities.

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
mod text;
mod time;
mod window;

use marey_model::loss::LossCause;

use self::event::Pieces;
use self::events::Events;
use self::lexer::{Lexer, Stop};
use self::text::{repaired, unescaped};
use self::window::Window;
use crate::import::{Broken, Import};
use crate::input::Input;

/// Reads a trace.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), Broken> {
    let mut trace = Trace {
        window: Window::new(input),
        pieces: Pieces::default(),
        events: Events::default(),
        has_events: false,
        import,
    };
    let end = trace.read();
    trace.events.finish(end.is_ok(), import)?;
    end
}

/// A trace that is being read.
struct Trace<'a> {
    window: Window<'a>,
    pieces: Pieces,
    events: Events,
    /// Whether the list of events was there.
    has_events: bool,
    import: &'a mut Import,
}

impl Trace<'_> {
    fn read(&mut self) -> Result<(), Broken> {
        if self.window.peek()? == Some(0xef) {
            self.window.take("\u{feff}".len());
        }
        match self.window.peek()? {
            Some(b'[') => {
                self.window.take(1);
                // Who writes a bare list may stop at any event.
                self.list(true)?;
            }
            Some(b'{') => {
                self.window.take(1);
                self.object()?;
            }
            _ => return Err(Broken::at(self.window.offset(), "no JSON object or list")),
        }
        match self.window.peek()? {
            None => Ok(()),
            Some(_) => Err(Broken::at(self.window.offset(), "more after the end of the trace")),
        }
    }

    /// The members of the outermost object.
    fn object(&mut self) -> Result<(), Broken> {
        loop {
            match self.window.peek()? {
                Some(b'}') if !self.has_events => {
                    return Err(Broken::at(self.window.offset(), "it has no `traceEvents`"));
                }
                Some(b'}') => {
                    self.window.take(1);
                    return Ok(());
                }
                Some(b',') => self.window.take(1),
                Some(_) => self.member()?,
                None => return Err(Broken::at(self.window.offset(), "the file ends early")),
            }
        }
    }

    fn member(&mut self) -> Result<(), Broken> {
        let (key, len) = self.window.look(|bytes| {
            let mut lexer = Lexer::new(bytes);
            let key = lexer.text()?;
            let key = String::from_utf8_lossy(lexer.bytes_of(key)).into_owned();
            lexer.expect(b':', "`:` was expected after a key")?;
            Ok((key, lexer.at()))
        })?;
        self.window.take(len);
        if key == "traceEvents" && self.window.peek()? == Some(b'[') {
            self.window.take(1);
            self.has_events = true;
            return self.list(false);
        }
        let (value, len) = self.window.look(|bytes| {
            let mut lexer = Lexer::new(bytes);
            let value = lexer.value()?;
            let value = String::from_utf8_lossy(lexer.bytes_of(value)).into_owned();
            Ok((if lexer.is_irregular { repaired(&value) } else { value }, lexer.at()))
        })?;
        self.window.take(len);
        self.events.meta.add_key(&unescaped(&key), &value);
        Ok(())
    }

    /// The events up to the end of their list, which may be the end of the file.
    fn list(&mut self, may_end_early: bool) -> Result<(), Broken> {
        loop {
            match self.window.peek()? {
                Some(b']') => {
                    self.window.take(1);
                    return Ok(());
                }
                Some(b',') => self.window.take(1),
                Some(_) => self.event()?,
                None if may_end_early => return Ok(()),
                None => return Err(Broken::at(self.window.offset(), "the file ends early")),
            }
        }
    }

    fn event(&mut self) -> Result<(), Broken> {
        let Self { window, pieces, events, import, .. } = self;
        let found = window.look(|bytes| match pieces.find(bytes) {
            Err(Stop::Bad { at, cause }) => Ok(Err((at, cause))),
            end => end.map(Ok),
        })?;
        let len = match found {
            Ok(len) => len,
            Err((at, cause)) => return self.skip(at, cause),
        };
        let (bytes, offset) = (&window.rest()[..len], window.offset());
        if let Ok(text) = std::str::from_utf8(bytes) {
            events.add(&pieces.event(text, offset), import)?;
        } else {
            let text = String::from_utf8_lossy(bytes);
            match pieces.find(text.as_bytes()) {
                Ok(_) => events.add(&pieces.event(&text, offset), import)?,
                Err(_) => import.lose(LossCause::Unreadable, 1, offset, "no UTF-8"),
            }
        }
        window.take(len);
        Ok(())
    }

    /// Leaves out an event that cannot be read, and goes to the next one. Where none can be made out,
    /// that is the end.
    fn skip(&mut self, at: usize, cause: &'static str) -> Result<(), Broken> {
        let offset = self.window.offset() + at as u64;
        let is_value = self.window.peek()? != Some(b'{');
        let next = if is_value {
            self.window.look(|bytes| {
                let mut lexer = Lexer::new(bytes);
                lexer.value().map(|_| lexer.at())
            })
        } else {
            self.window.look(|bytes| next_event(bytes, at))
        };
        match next {
            Ok(len) => self.window.take(len),
            Err(Broken::Content(_)) => return Err(Broken::at(offset, cause)),
            Err(broken) => return Err(broken),
        }
        self.import.lose(LossCause::Unreadable, 1, offset, cause);
        Ok(())
    }
}

/// Where the next event begins after a place that cannot be read. Quotes may be out of step there, so
/// it is told by what stands between two events.
fn next_event(bytes: &[u8], from: usize) -> Result<usize, Stop> {
    for brace in memchr::memchr_iter(b'}', &bytes[from..]) {
        let mut lexer = Lexer::new(&bytes[from + brace + 1..]);
        if lexer.peek()? != b',' {
            continue;
        }
        lexer.expect(b',', "")?;
        let start = from + brace + 1 + lexer.at();
        if lexer.peek()? == b'{' && is_event(&bytes[start..])? {
            return Ok(start);
        }
    }
    Err(Stop::More)
}

/// Whether an object begins with a key that events have.
fn is_event(bytes: &[u8]) -> Result<bool, Stop> {
    let mut lexer = Lexer::new(bytes);
    lexer.expect(b'{', "")?;
    if lexer.peek()? != b'"' {
        return Ok(false);
    }
    let key = lexer.text()?;
    let keys: [&[u8]; 8] = [b"ph", b"name", b"cat", b"ts", b"dur", b"pid", b"tid", b"args"];
    Ok(keys.contains(&lexer.bytes_of(key)))
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn read_bytes(content: &[u8]) -> (Result<(), Broken>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let mut import = Import::new(folder.path(), "file");
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
            assert!(matches!(end, Err(Broken::Content(_))) && events >= most);
            most = events;
        }
        assert_eq!(most, 11);
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
            prop_assert!(matches!(end, Ok(()) | Err(Broken::Content(_))));
        }
    }
}
