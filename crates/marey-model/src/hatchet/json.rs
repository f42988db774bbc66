//! Encodes documents as JSON in Proton's layout, with limited indentation.

use std::io::{self, Write};

use super::Producer;
use super::document::Encoder;
use crate::json::write_quoted;

pub(super) struct Json<W> {
    out: W,
    producer: Producer,
    depth: usize,
    /// Whether the open list or map is empty so far.
    is_container_empty: bool,
    /// Whether a key was written last, so that its value follows.
    follows_key: bool,
    is_on_one_line: bool,
}

impl<W: Write> Json<W> {
    pub(super) const fn new(out: W, producer: Producer) -> Self {
        Self {
            out,
            producer,
            depth: 0,
            is_container_empty: true,
            follows_key: false,
            is_on_one_line: false,
        }
    }

    /// Writes the separator before the next item.
    fn begin_item(&mut self) -> io::Result<()> {
        let follows_key = std::mem::take(&mut self.follows_key);
        let is_container_empty = std::mem::take(&mut self.is_container_empty);
        if follows_key {
            return Ok(());
        }
        if !is_container_empty {
            self.out.write_all(b",")?;
        }
        if !self.is_on_one_line {
            return self.new_line();
        }
        self.out.write_all(if is_container_empty { b"" } else { b" " })
    }

    fn open(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.begin_item()?;
        self.is_container_empty = true;
        self.depth += 1;
        self.out.write_all(bracket)
    }

    fn close(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !std::mem::take(&mut self.is_container_empty) && !self.is_on_one_line {
            self.new_line()?;
        }
        self.out.write_all(bracket)
    }

    fn new_line(&mut self) -> io::Result<()> {
        // Deeper lines are not indented further. Otherwise the size of a file would grow with the
        // square of its depth.
        const MAX_INDENTED_DEPTH: usize = 100;
        const SPACES: [u8; 4 * MAX_INDENTED_DEPTH] = [b' '; 4 * MAX_INDENTED_DEPTH];
        let indent_bytes = if self.depth > MAX_INDENTED_DEPTH { 0 } else { 4 * self.depth };
        self.out.write_all(b"\n")?;
        self.out.write_all(&SPACES[..indent_bytes])
    }
}

impl<W: Write> Encoder for Json<W> {
    const SORTS_KEYS: bool = true;

    fn begin_map(&mut self, _length: usize) -> io::Result<()> {
        self.open(b"{")
    }

    fn end_map(&mut self) -> io::Result<()> {
        self.close(b"}")
    }

    fn begin_list(&mut self, _length: usize) -> io::Result<()> {
        self.open(b"[")
    }

    fn end_list(&mut self) -> io::Result<()> {
        self.close(b"]")
    }

    fn key(&mut self, key: &str) -> io::Result<()> {
        self.text(key)?;
        self.follows_key = true;
        self.out.write_all(b": ")
    }

    fn null(&mut self) -> io::Result<()> {
        self.begin_item()?;
        self.out.write_all(b"null")
    }

    fn boolean(&mut self, value: bool) -> io::Result<()> {
        self.begin_item()?;
        write!(self.out, "{value}")
    }

    fn int(&mut self, value: i64) -> io::Result<()> {
        self.begin_item()?;
        write!(self.out, "{value}")
    }

    fn count(&mut self, value: u64) -> io::Result<()> {
        self.begin_item()?;
        write!(self.out, "{value}")
    }

    fn float(&mut self, value: f64) -> io::Result<()> {
        self.begin_item()?;
        match value {
            _ if value.is_nan() => self.out.write_all(b"null"),
            _ if value.is_infinite() && self.producer == Producer::Recorder => {
                self.out.write_all(b"null")
            }
            f64::INFINITY => self.out.write_all(b"Infinity"),
            f64::NEG_INFINITY => self.out.write_all(b"-Infinity"),
            // `Debug` keeps the decimal point, so the number is read back as a float.
            _ => write!(self.out, "{value:?}"),
        }
    }

    fn text(&mut self, value: &str) -> io::Result<()> {
        self.begin_item()?;
        write_quoted(value, &mut self.out)
    }

    fn set_one_line(&mut self, is_on_one_line: bool) {
        self.is_on_one_line = is_on_one_line;
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64, producer: Producer) -> String {
        let mut out = Vec::new();
        let mut json = Json::new(&mut out, producer);
        json.set_one_line(true);
        json.float(value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whole_floats_keep_a_decimal_point() {
        assert_eq!(float(1_000_000.0, Producer::Recorder), "1000000.0");
        assert_eq!(float(0.1, Producer::Recorder), "0.1");
        assert_eq!(float(f64::NAN, Producer::Recorder), "null");
    }

    #[test]
    fn only_exports_have_infinities() {
        assert_eq!(float(f64::NEG_INFINITY, Producer::Recorder), "null");
        assert_eq!(float(f64::NEG_INFINITY, Producer::Export), "-Infinity");
    }
}
