//! What `torch.profiler` writes: trace-event JSON in Kineto's words, which HTA and `TensorBoard` read.
//!
//! Processes and threads have their numbers in the system. Devices are processes too, by their own
//! numbers, so a process with the number of a device stands a million higher, and the event with its
//! name says which one it is.
//! What was recorded by marey itself gets the category that Kineto has for its kind.
//!
//! Times are in microseconds since a base that traces of one quarter share, so that tools which put
//! the traces of several ranks side by side need not know about bases. Nothing goes through real
//! numbers.

mod activities;
mod head;
mod spans;

use std::io::Write;

use marey_store::Reader;

use crate::Format;
use crate::export::{ExportError, LeftOut};
use crate::trace_json::activity::Survey;
use crate::trace_json::{self, About, Document, Places, Trace, rows};

/// Seconds of a quarter of a year, to whose multiples Kineto rounds its base down.
const BASE_SECONDS: i64 = 7_889_238;

/// Name of the arrows from launches.
const LAUNCH: &str = "ac2g";

/// Writes a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    trace_json::check_events(reader, Format::Kineto)?;
    let mut survey = Survey::of(reader)?;
    let about = About::of(reader, left_out)?;
    let user = about.host(reader).and_then(|host| survey.user(host, reader));
    let users = survey.streams.iter().filter(|stream| Some(stream.0) == user);
    let devices = users.map(|&(_, device, _)| device.into()).collect();
    let places = Places::new(reader, &survey, &devices, |thread| thread.os_id);
    let mut trace = Trace {
        reader,
        places: &places,
        document: Document::new(out),
        base_nanos: base_nanos(trace_json::extent_nanos(reader)),
    };
    head::write(&about, user, &mut trace, left_out)?;
    survey.keep(user);
    trace.document.begin_events();
    head::describe_processes(&about, &mut trace)?;
    activities::describe_streams(&survey, &mut trace)?;
    spans::write(&mut survey.arrows, &mut trace)?;
    activities::write(user, &survey.arrows, &mut trace, left_out)?;
    rows::write_flows(&mut trace)?;
    rows::write_instants(&mut trace)?;
    rows::write_memory_events(&mut trace, left_out)?;
    rows::write_counters(&mut trace, left_out, |row, left_out| {
        *left_out.entry("scopes of metrics").or_default() += u64::from(!rows::is_counter(row));
        true
    })?;
    rows::write_async_spans(&mut trace)?;
    trace.document.end_events();
    if let Some(name) = about.get("traceName") {
        trace.document.member("traceName", name);
    }
    trace_json::leave_out_tables(reader, left_out)?;
    trace.document.finish()?;
    Ok(())
}

/// The start of the quarter in which the run began. One that is longer than times can be counted from
/// there, for who must tell them from times since 1970, is counted from 1970.
fn base_nanos((first_nanos, last_nanos): (i64, i64)) -> i64 {
    const QUARTER_NANOS: i64 = BASE_SECONDS * 1_000_000_000;
    let base_nanos = first_nanos.div_euclid(QUARTER_NANOS).saturating_mul(QUARTER_NANOS);
    let is_short = last_nanos.saturating_sub(base_nanos) < trace_json::MOST_NANOS;
    if is_short { base_nanos } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_kinetos() {
        for base_seconds in [1_711_964_646, 1_719_853_884, 1_727_743_122, 1_735_632_360] {
            let base = base_seconds * 1_000_000_000;
            let later = base + 5_000_000_000_000_000;
            assert_eq!(base_nanos((base, later)), base);
            assert_eq!(base_nanos((later, later)), base);
            assert_eq!(base_nanos((base - 1, later)), base - BASE_SECONDS * 1_000_000_000);
        }
        assert_eq!(base_nanos((0, 5)), 0);
        assert_eq!(base_nanos((-1, 5)), -BASE_SECONDS * 1_000_000_000);
        assert_eq!(base_nanos((-1, i64::MAX)), 0);
        assert_eq!(base_nanos((i64::MIN, i64::MAX)), 0);
    }
}
