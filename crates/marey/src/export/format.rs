//! Finds the format of an export by its name or by the name of the file to write.

use std::path::Path;

use marey_formats::Format;

use crate::output::Failure;
use crate::text::quote_path;

/// Suffixes of file names with their formats. A longer suffix precedes one that it ends with.
const SUFFIXES: [(&str, Format); 16] = [
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

/// The prefix of the names of `TensorBoard`'s files.
pub(super) const TFEVENTS: &str = "events.out.tfevents.";

/// Returns other names of a format, on the command line and in Python.
pub(super) const fn aliases(format: Format) -> &'static [&'static str] {
    match format {
        Format::Kineto => &["torch"],
        Format::ChromeTrace => &["chrome_trace", "chrome"],
        Format::Json => &["jsonl"],
        Format::HatchetMsgpack => &["hatchet_msgpack"],
        _ => &[],
    }
}

/// Parses the name of a format, such as `chrome-trace`.
pub fn parse(name: &str) -> Option<Format> {
    let is_called = |format: &Format| format.as_str() == name || aliases(*format).contains(&name);
    Format::ALL.into_iter().find(is_called)
}

/// Returns the format of a file by its name.
pub(super) fn from_file_name(file: &Path) -> Option<Format> {
    let name = file.file_name()?.to_string_lossy().to_lowercase();
    if name.starts_with(TFEVENTS) {
        return Some(Format::TensorBoard);
    }
    let unpacked = name.strip_suffix(".gz").unwrap_or(&name);
    let suffix = SUFFIXES.iter().find(|(suffix, _)| unpacked.ends_with(suffix))?;
    Some(suffix.1)
}

/// Returns the default suffix of a format.
pub(super) const fn default_suffix(format: Format) -> &'static str {
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

/// Whether the format is binary.
pub(super) const fn is_binary(format: Format) -> bool {
    match format {
        Format::Perfetto
        | Format::Pprof
        | Format::HatchetMsgpack
        | Format::TensorBoard
        | Format::MemorySnapshot
        | Format::FlightRecorder => true,
        Format::Kineto
        | Format::ChromeTrace
        | Format::Speedscope
        | Format::Collapsed
        | Format::Svg
        | Format::Csv
        | Format::Json
        | Format::Hatchet => false,
    }
}

/// Returns the failure for an export whose format is neither given nor implied by a name.
pub(super) fn missing_format(out: &Path) -> Failure {
    let message = match out.to_str() {
        Some("-") => "stdout needs a format".to_owned(),
        _ => format!("the name {} does not imply a format", quote_path(out)),
    };
    Failure { message, hint: Some(format!("choose one with --format: {}", writable_names())) }
}

/// Returns a sentence with the formats that can be written.
pub(super) fn describe_writable() -> String {
    format!("marey writes {}", writable_names())
}

fn writable_names() -> String {
    let names = Format::ALL.iter().filter(|format| format.is_writable());
    names.map(|format| format.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_imply_their_format() {
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
            assert_eq!(from_file_name(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn default_names_imply_their_format() {
        for format in Format::ALL.into_iter().filter(|format| format.is_writable()) {
            let implied = from_file_name(Path::new(&format!("x{}", default_suffix(format))));
            let is_json = matches!(format, Format::ChromeTrace | Format::TensorBoard);
            assert!(is_json || implied == Some(format), "{format:?}");
            assert_eq!(parse(format.as_str()), Some(format));
            for alias in aliases(format) {
                assert_eq!(parse(alias), Some(format));
            }
        }
        assert_eq!(parse("nope"), None);
    }
}
