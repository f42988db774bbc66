//! Trace-event JSON.

mod chrome;
mod hostile;
mod kineto;
mod proton;
mod real;

use marey_formats::TemporaryRun;

use crate::dump::{dump, import_bytes};

/// The run of a trace with these events, in the usual object.
fn import_events(events: &str) -> TemporaryRun {
    import_bytes(format!("{{\"traceEvents\":[{events}]}}").as_bytes()).unwrap()
}

/// What a run says in lines that begin with one of these words.
fn lines(run: &TemporaryRun, starts: &[&str]) -> Vec<String> {
    let dump = dump(&run.run);
    let wanted = dump.lines().filter(|line| starts.iter().any(|start| line.starts_with(start)));
    wanted.map(str::to_owned).collect()
}
