//! Recognises the format of a file by its first bytes, so that names of files do not matter.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::pprof;
use crate::shared::format::Format;
use crate::shared::input::Input;
use crate::shared::json::end_of_string;

/// The number of first bytes in which a control character marks the content as binary.
const TEXT_BYTES: usize = 256;

/// Returns the format of a file, compressed or not, by its content. `None` if no reader is known
/// for it.
///
/// # Errors
/// The file cannot be read.
pub fn recognise_file(path: &Path) -> io::Result<Option<Format>> {
    let mut input = Input::open(path, &Arc::default())?;
    Ok(recognise(input.head()?))
}

/// Returns the format of uncompressed content by its first bytes. `None` if no reader is known for
/// it.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    if is_binary(head) {
        return match head {
            [0x80, 2..=5, ..] => Some(pickle_format(head)),
            // A list of two elements, the tree and the devices.
            [0x92, ..] => Some(Format::HatchetMsgpack),
            // The first field of the message is length-delimited.
            [0x0a, rest @ ..] => Some(protobuf_format(rest)),
            // The writer of Go's runtime begins with the time, or with the type of the period.
            _ => pprof::is_profile(head).then_some(Format::Pprof),
        };
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    match text.first()? {
        b'{' => Some(json_object_format(text)),
        // `[unknown];main 12`
        b'[' if is_collapsed(text) => Some(Format::Collapsed),
        b'[' => Some(json_list_format(text)),
        _ => is_collapsed(text).then_some(Format::Collapsed),
    }
}

fn is_binary(head: &[u8]) -> bool {
    let first_bytes = &head[..head.len().min(TEXT_BYTES)];
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 0x0e..=0x1f);
    first_bytes.iter().any(is_control) || matches!(first_bytes, [0x80 | 0x92, ..])
}

fn json_object_format(text: &[u8]) -> Format {
    let has_any = |keys: &[&str]| {
        outermost_keys(text).any(|key| keys.iter().any(|wanted| wanted.as_bytes() == key))
    };
    if has_any(&["schemaVersion", "deviceProperties"]) {
        Format::Kineto
    } else if has_any(&["traceEvents"]) {
        Format::ChromeTrace
    } else if has_any(&["$schema", "shared", "profiles"]) {
        Format::Speedscope
    } else if has_any(&["segments", "device_traces"]) {
        Format::MemorySnapshot
    } else if has_any(&["entries", "pg_config", "pg_status"]) {
        Format::FlightRecorder
    } else {
        Format::ChromeTrace
    }
}

fn json_list_format(text: &[u8]) -> Format {
    let first = text[1..].trim_ascii_start();
    let is_node =
        outermost_keys(first).any(|key| matches!(key, b"frame" | b"children" | b"metrics"));
    if is_node { Format::Hatchet } else { Format::ChromeTrace }
}

fn pickle_format(head: &[u8]) -> Format {
    let contains = |word: &[u8]| memchr::memmem::find(head, word).is_some();
    let is_snapshot = contains(b"segments") || contains(b"device_traces");
    if !is_snapshot && (contains(b"entries") || contains(b"pg_config") || contains(b"pg_status")) {
        Format::FlightRecorder
    } else {
        Format::MemorySnapshot
    }
}

/// Returns whether a message is a pprof profile or a Perfetto trace, from the bytes after its first
/// key. A pprof profile begins with a `ValueType` of two small numbers. No packet of Perfetto has
/// such a first field.
fn protobuf_format(after_key: &[u8]) -> Format {
    match after_key {
        [len, 0x08 | 0x10, ..] if *len <= 24 => Format::Pprof,
        // An empty `ValueType`.
        [0, ..] => Format::Pprof,
        _ => Format::Perfetto,
    }
}

/// Whether the first line with a stack has the form `a;b;c 12`. Comments are skipped, and lines
/// with only a number, which are empty stacks.
fn is_collapsed(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let is_number = |count: &[u8]| {
        let count = count.strip_prefix(b"-").unwrap_or(count);
        !count.is_empty() && count.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
    };
    let line = lines.find(|line| !line.is_empty() && !line.starts_with(b"#") && !is_number(line));
    let count = line.and_then(|line| line.rsplit(|&byte| byte == b' ').next());
    line.is_some_and(|line| line.contains(&b' ')) && count.is_some_and(is_number)
}

/// Returns the keys of the outermost object, as far as the text has them.
fn outermost_keys(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut position, mut depth) = (0, 0_usize);
    std::iter::from_fn(move || {
        while position < text.len() {
            match text[position] {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let start = position + 1;
                    let end = start + end_of_string(&text[start..])?;
                    position = end + 1;
                    let is_key =
                        depth == 1 && text[position..].trim_ascii_start().starts_with(b":");
                    if is_key {
                        return Some(&text[start..end]);
                    }
                    continue;
                }
                _ => {}
            }
            position += 1;
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_decides_the_format() {
        let cases: [(&[u8], Option<Format>); 31] = [
            (b"{\"schemaVersion\": 1, \"traceEvents\": []}", Some(Format::Kineto)),
            (b"{\"x\": {\"schemaVersion\": 1}, \"traceEvents\": []}", Some(Format::ChromeTrace)),
            (
                b"\xef\xbb\xbf {\"displayTimeUnit\":\"us\",\"traceEvents\":[",
                Some(Format::ChromeTrace),
            ),
            (b"[{\"ph\":\"X\",\"args\":{\"frame\":1}},", Some(Format::ChromeTrace)),
            (b"[]", Some(Format::ChromeTrace)),
            (
                b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\"",
                Some(Format::Speedscope),
            ),
            (
                b"{\"version\":\"0.0.1\",\"shared\":{\"frames\":[]},\"profiles\":[]",
                Some(Format::Speedscope),
            ),
            (b"{\"shared\":{\"frames\":[{\"name\":\"run\"},", Some(Format::Speedscope)),
            (b"\n[\n    {\n        \"children\": [", Some(Format::Hatchet)),
            (b"[{\"frame\": {\"name\": \"ROOT\"", Some(Format::Hatchet)),
            (b"\x92\x83\xa5frame", Some(Format::HatchetMsgpack)),
            (b"{\"version\": \"2.4\", \"pg_config\": {", Some(Format::FlightRecorder)),
            (b"\x80\x04\x95\x00}\x94(\x8c\x08segments", Some(Format::MemorySnapshot)),
            (b"{\"segments\": [{\"device\": 0", Some(Format::MemorySnapshot)),
            (
                b"\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01X\x09\x00\x00\x00pg_config",
                Some(Format::FlightRecorder),
            ),
            (b"\x0a\x04\x08\x01\x10\x02\x12", Some(Format::Pprof)),
            (b"\x0a\x7b\x40\x81\x02", Some(Format::Perfetto)),
            (b"\x0a\x22\x12\x05", Some(Format::Perfetto)),
            (b"\x48\xf8\x42\x0a\x04\x08\x01\x10\x02\x0a\x02\x08\x03", Some(Format::Pprof)),
            (b"\x5a\x04\x08\x01\x10\x02\x60\x80\x01\x0a\x00", Some(Format::Pprof)),
            (b"[unknown];main 12\n", Some(Format::Collapsed)),
            (b"main -12\n", Some(Format::Collapsed)),
            (b"# comment\nmain;run 12\n", Some(Format::Collapsed)),
            (b"main;run \xc3\xa9 7", Some(Format::Collapsed)),
            (b" 5\nmain;run 12\n", Some(Format::Collapsed)),
            (b" 5\nhello world\n", None),
            (b"5\n", None),
            (b"hello world", None),
            (b"PK\x03\x04", None),
            (b"", None),
            (b" \n ", None),
        ];
        for (head, format) in cases {
            assert_eq!(recognise(head), format, "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn a_truncated_head_is_recognised() {
        let text = br#"{"a\"b": [1, {"c": "}"}], "traceEvents": []}"#;
        for end in 1..text.len() {
            assert_eq!(recognise(&text[..end]), Some(Format::ChromeTrace));
        }
    }
}
