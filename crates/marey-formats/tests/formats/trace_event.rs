//! Trace-event JSON.

mod chrome;
mod hostile;
mod kineto;
mod proton;
mod real;

use marey_formats::TemporaryRun;
use marey_store::Reader;
use marey_store::row::Args;

use crate::dump::{dump, import_bytes};

/// Imports a trace with these events.
fn import_events(events: &str) -> TemporaryRun {
    import_bytes(format!("{{\"traceEvents\":[{events}]}}").as_bytes()).unwrap()
}

/// Returns the lines of a dump that begin with one of these words.
fn lines(run: &TemporaryRun, starts: &[&str]) -> Vec<String> {
    let dump = dump(&run.run);
    let wanted = dump.lines().filter(|line| starts.iter().any(|start| line.starts_with(start)));
    wanted.map(str::to_owned).collect()
}

/// Returns arguments as they are stored.
fn args_of(reader: &Reader, args: &Args) -> String {
    let mut json = String::new();
    reader.args(args, &mut json);
    json
}
