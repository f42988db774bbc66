//! JSON in Proton's layout, with limited indentation.

use std::io::{self, Write};

use super::document::Encoder;

pub(super) struct Json<W> {
    out: W,
    level: usize,
    /// Whether the open list or map is empty so far.
    is_first: bool,
    /// Whether a key was written last, so that its value follows.
    is_value: bool,
    is_on_one_line: bool,
}

impl<W: Write> Json<W> {
    pub(super) const fn new(out: W) -> Self {
        Self { out, level: 0, is_first: true, is_value: false, is_on_one_line: false }
    }

    /// Writes the separator before the next item.
    fn item(&mut self) -> io::Result<()> {
        let is_value = std::mem::take(&mut self.is_value);
        let is_first = std::mem::take(&mut self.is_first);
        if is_value {
            return Ok(());
        }
        if !is_first {
            self.out.write_all(b",")?;
        }
        if !self.is_on_one_line {
            return self.new_line();
        }
        self.out.write_all(if is_first { b"" } else { b" " })
    }

    fn open(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.item()?;
        self.is_first = true;
        self.level += 1;
        self.out.write_all(bracket)
    }

    fn close(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        if !std::mem::take(&mut self.is_first) && !self.is_on_one_line {
            self.new_line()?;
        }
        self.out.write_all(bracket)
    }

    fn new_line(&mut self) -> io::Result<()> {
        // Deeper lines are not indented: otherwise the size of a file grows with the square of its
        // depth.
        const MAX_INDENTED_LEVEL: usize = 100;
        const SPACES: [u8; 4 * MAX_INDENTED_LEVEL] = [b' '; 4 * MAX_INDENTED_LEVEL];
        let width = if self.level > MAX_INDENTED_LEVEL { 0 } else { 4 * self.level };
        self.out.write_all(b"\n")?;
        self.out.write_all(&SPACES[..width])
    }

    fn quoted(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(b"\"")?;
        let mut rest = text.as_bytes();
        while let Some(position) = rest.iter().position(|&byte| needs_escape(byte)) {
            self.out.write_all(&rest[..position])?;
            match rest[position] {
                b'\n' => self.out.write_all(b"\\n")?,
                b'\t' => self.out.write_all(b"\\t")?,
                special @ (b'"' | b'\\') => self.out.write_all(&[b'\\', special])?,
                control => write!(self.out, "\\u{control:04x}")?,
            }
            rest = &rest[position + 1..];
        }
        self.out.write_all(rest)?;
        self.out.write_all(b"\"")
    }
}

const fn needs_escape(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

impl<W: Write> Encoder for Json<W> {
    const SORTED: bool = true;

    fn map(&mut self, _length: usize) -> io::Result<()> {
        self.open(b"{")
    }

    fn end_map(&mut self) -> io::Result<()> {
        self.close(b"}")
    }

    fn list(&mut self, _length: usize) -> io::Result<()> {
        self.open(b"[")
    }

    fn end_list(&mut self) -> io::Result<()> {
        self.close(b"]")
    }

    fn key(&mut self, key: &str) -> io::Result<()> {
        self.text(key)?;
        self.is_value = true;
        self.out.write_all(b": ")
    }

    fn null(&mut self) -> io::Result<()> {
        self.item()?;
        self.out.write_all(b"null")
    }

    fn boolean(&mut self, value: bool) -> io::Result<()> {
        self.item()?;
        write!(self.out, "{value}")
    }

    fn int(&mut self, value: i64) -> io::Result<()> {
        self.item()?;
        write!(self.out, "{value}")
    }

    fn count(&mut self, value: u64) -> io::Result<()> {
        self.item()?;
        write!(self.out, "{value}")
    }

    fn float(&mut self, value: f64) -> io::Result<()> {
        self.item()?;
        match value {
            f64::INFINITY => self.out.write_all(b"Infinity"),
            f64::NEG_INFINITY => self.out.write_all(b"-Infinity"),
            _ if value.is_nan() => self.out.write_all(b"null"),
            // `Debug` keeps the decimal point, so the number is read back as a float.
            _ => write!(self.out, "{value:?}"),
        }
    }

    fn text(&mut self, value: &str) -> io::Result<()> {
        self.item()?;
        self.quoted(value)
    }

    fn on_one_line(&mut self, is_on_one_line: bool) {
        self.is_on_one_line = is_on_one_line;
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")
    }
}
