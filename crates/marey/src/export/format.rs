//! The format, by its name or by that of a file.

use std::path::Path;

use marey_formats::Format;

use crate::output::Failure;
use crate::text::quoted;

/// What names of files end with, longer ones before those that they end with.
const ENDINGS: [(&str, Format); 16] = [
    (".pt.trace.json", Format::Kineto),
    (".speedscope.json", Format::Speedscope),
    (".json", Format::Kineto),
    (".pftrace", Format::Perfetto),
    (".perfetto-trace", Format::Perfetto),
    (".speedscope", Format::Speedscope),
    (".pb", Format::Pprof),
    (".pprof", Format::Pprof),
    (".collapsed", Format::Collapsed),
    (".folded", Format::Collapsed),
    (".svg", Format::Svg),
    (".csv", Format::Csv),
    (".jsonl", Format::Json),
    (".ndjson", Format::Json),
    (".hatchet", Format::Hatchet),
    (".hatchet_msgpack", Format::HatchetMsgpack),
];

/// What the usual names of `TensorBoard`'s files begin with.
pub(super) const TFEVENTS: &str = "events.out.tfevents.";

/// Other names of a format, on the command line and in Python.
pub(super) const fn aliases(format: Format) -> &'static [&'static str] {
    match format {
        Format::Kineto => &["torch"],
        Format::ChromeTrace => &["chrome_trace", "chrome"],
        Format::Json => &["jsonl"],
        Format::HatchetMsgpack => &["hatchet_msgpack"],
        _ => &[],
    }
}

/// The format of a name such as `chrome-trace`.
pub fn parse(name: &str) -> Option<Format> {
    let is_called = |format: &Format| format.as_str() == name || aliases(*format).contains(&name);
    Format::ALL.into_iter().find(is_called)
}

/// The format that the name of a file says.
pub(super) fn of_name(file: &Path) -> Option<Format> {
    let name = file.file_name()?.to_string_lossy().to_lowercase();
    if name.starts_with(TFEVENTS) {
        return Some(Format::TensorBoard);
    }
    let unpacked = name.strip_suffix(".gz").unwrap_or(&name);
    let ending = ENDINGS.iter().find(|(ending, _)| unpacked.ends_with(ending))?;
    Some(ending.1)
}

/// What names of files of a format end with.
pub(super) const fn ending(format: Format) -> &'static str {
    match format {
        Format::Kineto => ".pt.trace.json.gz",
        Format::ChromeTrace => ".json.gz",
        Format::Perfetto => ".pftrace",
        Format::Speedscope => ".speedscope.json",
        Format::Pprof => ".pb.gz",
        Format::Collapsed => ".collapsed",
        Format::Svg => ".svg",
        Format::Csv => ".csv",
        Format::Json => ".jsonl",
        Format::Hatchet => ".hatchet",
        Format::HatchetMsgpack => ".hatchet_msgpack",
        Format::TensorBoard => ".marey",
        Format::MemorySnapshot | Format::FlightRecorder => ".pickle",
    }
}

/// Whether it is no text.
pub(super) const fn is_binary(format: Format) -> bool {
    use Format::{HatchetMsgpack, Perfetto, Pprof, TensorBoard};
    matches!(format, HatchetMsgpack | Perfetto | Pprof | TensorBoard)
}

/// Nothing says which format is wanted.
pub(super) fn unclear(out: &Path) -> Failure {
    let message = match out.to_str() {
        Some("-") => "stdout says no format".to_owned(),
        _ => format!("the name {} says no format", quoted(out)),
    };
    Failure { message, hint: Some(format!("choose one with --format: {}", listed())) }
}

/// What can be written.
pub(super) fn writable() -> String {
    format!("marey writes {}", listed())
}

fn listed() -> String {
    let names = Format::ALL.iter().filter(|format| format.is_writable());
    names.map(|format| format.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_the_format() {
        for (name, format) in [
            ("a/trace.json", Some(Format::Kineto)),
            ("h_1.2.pt.trace.json.gz", Some(Format::Kineto)),
            ("T.SPEEDSCOPE.JSON", Some(Format::Speedscope)),
            ("x.pb.gz", Some(Format::Pprof)),
            ("x.hatchet_msgpack", Some(Format::HatchetMsgpack)),
            ("events.out.tfevents.1.h.marey", Some(Format::TensorBoard)),
            ("x.jsonl.gz", Some(Format::Json)),
            ("x", None),
            ("x.txt", None),
            ("-", None),
        ] {
            assert_eq!(of_name(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_chosen_says_its_format() {
        for format in Format::ALL.into_iter().filter(|format| format.is_writable()) {
            let same = of_name(Path::new(&format!("x{}", ending(format))));
            let is_json = matches!(format, Format::ChromeTrace | Format::TensorBoard);
            assert!(is_json || same == Some(format), "{format:?}");
            assert_eq!(parse(format.as_str()), Some(format));
            for alias in aliases(format) {
                assert_eq!(parse(alias), Some(format));
            }
        }
        assert_eq!(parse("nope"), None);
    }
}
