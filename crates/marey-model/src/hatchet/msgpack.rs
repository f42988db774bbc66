//! Encodes documents as `MessagePack`, with numbers and lengths in their shortest or their longest
//! form.

use std::io::{self, Write};

use super::Producer;
use super::document::Encoder;

pub(super) struct Msgpack<W> {
    out: W,
    /// Whether numbers and lengths that do not fit into the first byte have their longest form.
    uses_longest_form: bool,
}

impl<W: Write> Msgpack<W> {
    pub(super) fn new(out: W, producer: Producer) -> Self {
        Self { out, uses_longest_form: producer == Producer::Recorder }
    }

    fn write_tagged<const N: usize>(&mut self, tag: u8, bytes: [u8; N]) -> io::Result<()> {
        self.out.write_all(&[tag])?;
        self.out.write_all(&bytes)
    }

    /// Writes a length: in the tag if it is small, otherwise in two or four bytes after it.
    fn write_length(
        &mut self,
        length: usize,
        small_tag: u8,
        small_limit: u8,
        tags: [u8; 2],
    ) -> io::Result<()> {
        match (u8::try_from(length), u16::try_from(length), u32::try_from(length)) {
            (Ok(length), ..) if length < small_limit => self.out.write_all(&[small_tag | length]),
            (_, Ok(length), _) if !self.uses_longest_form => {
                self.write_tagged(tags[0], length.to_be_bytes())
            }
            (.., Ok(length)) => self.write_tagged(tags[1], length.to_be_bytes()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "MessagePack ends at 2^32 items")),
        }
    }
}

impl<W: Write> Encoder for Msgpack<W> {
    const SORTS_KEYS: bool = false;

    fn begin_map(&mut self, length: usize) -> io::Result<()> {
        self.write_length(length, 0x80, 16, [0xde, 0xdf])
    }

    fn end_map(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn begin_list(&mut self, length: usize) -> io::Result<()> {
        self.write_length(length, 0x90, 16, [0xdc, 0xdd])
    }

    fn end_list(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn key(&mut self, key: &str) -> io::Result<()> {
        self.text(key)
    }

    fn null(&mut self) -> io::Result<()> {
        self.out.write_all(&[0xc0])
    }

    fn boolean(&mut self, value: bool) -> io::Result<()> {
        self.out.write_all(&[if value { 0xc3 } else { 0xc2 }])
    }

    fn int(&mut self, value: i64) -> io::Result<()> {
        match value {
            0.. => self.count(value.cast_unsigned()),
            _ if self.uses_longest_form => self.write_tagged(0xd3, value.to_be_bytes()),
            -32..0 => self.out.write_all(&(value as i8).to_be_bytes()),
            _ => match (i16::try_from(value), i32::try_from(value)) {
                (Ok(value), _) => self.write_tagged(0xd1, value.to_be_bytes()),
                (_, Ok(value)) => self.write_tagged(0xd2, value.to_be_bytes()),
                _ => self.write_tagged(0xd3, value.to_be_bytes()),
            },
        }
    }

    fn count(&mut self, value: u64) -> io::Result<()> {
        match (u8::try_from(value), u16::try_from(value), u32::try_from(value)) {
            (Ok(value @ ..0x80), ..) => self.out.write_all(&[value]),
            _ if self.uses_longest_form => self.write_tagged(0xcf, value.to_be_bytes()),
            (Ok(value), ..) => self.write_tagged(0xcc, [value]),
            (_, Ok(value), _) => self.write_tagged(0xcd, value.to_be_bytes()),
            (.., Ok(value)) => self.write_tagged(0xce, value.to_be_bytes()),
            _ => self.write_tagged(0xcf, value.to_be_bytes()),
        }
    }

    fn float(&mut self, value: f64) -> io::Result<()> {
        self.write_tagged(0xcb, value.to_be_bytes())
    }

    fn text(&mut self, value: &str) -> io::Result<()> {
        self.write_length(value.len(), 0xa0, 32, [0xda, 0xdb])?;
        self.out.write_all(value.as_bytes())
    }

    fn set_one_line(&mut self, _is_on_one_line: bool) {}

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is written, in the shortest and in the longest form.
    fn forms(write: impl Fn(&mut Msgpack<Vec<u8>>) -> io::Result<()>) -> [Vec<u8>; 2] {
        [Producer::Export, Producer::Recorder].map(|producer| {
            let mut encoder = Msgpack::new(Vec::new(), producer);
            write(&mut encoder).unwrap();
            encoder.out
        })
    }

    fn long(tag: u8, value: i64) -> Vec<u8> {
        [&[tag][..], &value.to_be_bytes()].concat()
    }

    #[test]
    fn numbers_have_the_shortest_or_the_longest_form() {
        for (value, shortest) in [
            (0, vec![0]),
            (0x7f, vec![0x7f]),
            (0x80, vec![0xcc, 0x80]),
            (0xff, vec![0xcc, 0xff]),
            (0x100, vec![0xcd, 1, 0]),
            (0xffff, vec![0xcd, 0xff, 0xff]),
            (0x1_0000, vec![0xce, 0, 1, 0, 0]),
            (0xffff_ffff, vec![0xce, 0xff, 0xff, 0xff, 0xff]),
            (0x1_0000_0000, long(0xcf, 0x1_0000_0000)),
            (-1, vec![0xff]),
            (-32, vec![0xe0]),
            (-33, vec![0xd1, 0xff, 0xdf]),
            (-0x8000, vec![0xd1, 0x80, 0]),
            (-0x8001, vec![0xd2, 0xff, 0xff, 0x7f, 0xff]),
            (-0x8000_0001, long(0xd3, -0x8000_0001)),
        ] {
            let longest = match value {
                0..0x80 => vec![value as u8],
                0x80.. => long(0xcf, value),
                _ => long(0xd3, value),
            };
            assert_eq!(forms(|encoder| encoder.int(value)), [shortest, longest], "{value}");
        }
    }

    #[test]
    fn lengths_have_the_shortest_or_the_longest_form() {
        let map = |length| forms(move |encoder| encoder.begin_map(length));
        let list = |length| forms(move |encoder| encoder.begin_list(length));
        let text = |length: usize| {
            forms(move |encoder| encoder.text(&"a".repeat(length)))
                .map(|text| text[..text.len() - length].to_vec())
        };
        assert_eq!((map(15), list(15)), ([vec![0x8f], vec![0x8f]], [vec![0x9f], vec![0x9f]]));
        assert_eq!(text(31), [vec![0xbf], vec![0xbf]]);
        assert_eq!(map(16), [vec![0xde, 0, 16], vec![0xdf, 0, 0, 0, 16]]);
        assert_eq!(list(0xffff), [vec![0xdc, 0xff, 0xff], vec![0xdd, 0, 0, 0xff, 0xff]]);
        assert_eq!(text(32), [vec![0xda, 0, 32], vec![0xdb, 0, 0, 0, 32]]);
        assert_eq!(text(0x1_0000), [vec![0xdb, 0, 1, 0, 0], vec![0xdb, 0, 1, 0, 0]]);
        let mut encoder = Msgpack::new(Vec::new(), Producer::Export);
        assert!(encoder.begin_list(1 << 32).is_err());
    }
}
