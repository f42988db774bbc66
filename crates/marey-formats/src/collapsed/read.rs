//! Reads collapsed stacks, line by line, as samples without times.

use std::io::{BufRead, BufReader, Read};

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row::Sample;
use marey_store::{Assembler, NewProcess, Sampled};

use crate::shared::MAX_DEPTH;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;

/// The name of the values, which the lines do not contain.
const VALUE_NAME: &str = "samples";

/// The maximum length of a line with its end. A line is buffered as a whole.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// Reads a file. `;` separates frames, and the last blank precedes the number. A line that begins
/// with `#` is a comment.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let name = Some(import.stem.clone());
    let process_id = import.add_process(NewProcess { pid: -1, name, ..NewProcess::default() });
    let name_id = import.run.text_id(VALUE_NAME);
    import.run.show_samples(Sampled { count_name_id: Some(name_id), ..Sampled::default() });

    let mut lines = BufReader::new(input);
    let mut line = Vec::new();
    let mut offset = 0;
    loop {
        line.clear();
        let line_bytes = (&mut lines).take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line)? as u64;
        if line_bytes == 0 {
            return Ok(());
        }
        if line_bytes > MAX_LINE_BYTES {
            let cause = format!("the line has more than {MAX_LINE_BYTES} bytes");
            return Err(ReaderError::content(offset, cause));
        }
        let content = if offset == 0 { line.strip_prefix(b"\xef\xbb\xbf") } else { None };
        let content = content.unwrap_or(&line).trim_ascii_end();
        if !content.is_empty() && !content.starts_with(b"#") {
            match parse_line(content) {
                Ok((stack, value)) => {
                    add_stack(import, stack, value, &SampleOrigin { process_id, name_id, offset })?;
                }
                Err(cause) => import.lose(LossCause::Unreadable, 1, offset, cause),
            }
        }
        offset += line_bytes;
    }
}

/// The process and name of a sample, and the byte offset of its line.
struct SampleOrigin {
    process_id: u32,
    name_id: u32,
    offset: u64,
}

fn parse_line(line: &[u8]) -> Result<(&str, MetricValue), &'static str> {
    let line = str::from_utf8(line).map_err(|_not_utf8| "the line is not UTF-8")?;
    let stack_and_value = line.rsplit_once([' ', '\t']);
    let value = stack_and_value.and_then(|(stack, value)| Some((stack, parse_number(value)?)));
    value.ok_or("the line does not end with a number")
}

/// Parses a decimal number. An integer that fits into 64 bits stays one.
fn parse_number(text: &str) -> Option<MetricValue> {
    // Rust also parses words such as `inf`.
    if !text.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
        return None;
    }
    let integer = text.parse().map(MetricValue::Int);
    integer.ok().or_else(|| {
        let real: f64 = text.parse().ok()?;
        real.is_finite().then_some(MetricValue::Float(real))
    })
}

fn add_stack(
    import: &mut Import,
    stack: &str,
    value: MetricValue,
    origin: &SampleOrigin,
) -> Result<(), ReaderError> {
    let &SampleOrigin { process_id, name_id, offset } = origin;
    if stack.bytes().filter(|&byte| byte == b';').count() >= MAX_DEPTH {
        let cause = format!("the stack has more than {MAX_DEPTH} frames");
        import.lose(LossCause::Unsupported, 1, offset, cause);
        return Ok(());
    }
    let mut context_id = Assembler::ROOT;
    for frame in stack.split(';') {
        let frame_id = import.run.text_id(frame);
        context_id = import.run.context_id(context_id, NodeKind::Frame, frame_id);
    }
    Ok(import.run.add_sample(&Sample::new(process_id, context_id, name_id, value))?)
}
