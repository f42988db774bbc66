//! Iterates over the fields of a protobuf message without decoding them, so that readers can
//! stream.

use super::import::Fault;

/// A field of a message.
pub(crate) struct Field<'a> {
    /// Byte offset in the message.
    pub(crate) offset: u64,
    /// Field number.
    pub(crate) number: u64,
    /// The field as encoded: its key, length and value.
    pub(crate) encoded: &'a [u8],
    /// The value without its length. Empty for a varint.
    pub(crate) value: &'a [u8],
}

impl Field<'_> {
    /// Returns how the value is encoded.
    pub(crate) const fn wire_type(&self) -> u64 {
        wire_type(self.encoded[0] as u64)
    }
}

/// Wire type of an integer of variable length.
pub(crate) const VARINT: u64 = 0;
/// Wire type of eight bytes.
pub(crate) const FIXED64: u64 = 1;
/// Wire type of bytes that follow their length.
pub(crate) const LENGTH_DELIMITED: u64 = 2;
/// Wire type of four bytes.
pub(crate) const FIXED32: u64 = 5;

/// Returns the wire type in a field's key.
pub(crate) const fn wire_type(key: u64) -> u64 {
    key & 7
}

/// Iterates over the fields of a message. The first error ends the iteration.
pub(crate) struct Fields<'a> {
    message: &'a [u8],
    position: usize,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(message: &'a [u8]) -> Self {
        Self { message, position: 0 }
    }

    fn read_field(&mut self) -> Result<Field<'a>, &'static str> {
        let start = self.position;
        let key = self.read_varint()?;
        let value = match wire_type(key) {
            VARINT => {
                self.read_varint()?;
                &[]
            }
            FIXED64 => self.read_bytes(8)?,
            LENGTH_DELIMITED => {
                let length = self.read_varint()?;
                self.read_bytes(length)?
            }
            FIXED32 => self.read_bytes(4)?,
            _ => return Err("a field has a wire type that protobuf does not define"),
        };
        let encoded = &self.message[start..self.position];
        Ok(Field { offset: start as u64, number: key >> 3, encoded, value })
    }

    fn read_varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.read_bytes(1)? else { unreachable!("one byte was requested") };
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    fn read_bytes(&mut self, length: u64) -> Result<&'a [u8], &'static str> {
        let remaining = &self.message[self.position..];
        let length = usize::try_from(length).ok().filter(|&length| length <= remaining.len());
        let length = length.ok_or("the content ends in the middle of a field")?;
        self.position += length;
        Ok(&remaining[..length])
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position == self.message.len() {
            return None;
        }
        let offset = self.position as u64;
        let field = self.read_field();
        Some(field.map_err(|cause| {
            self.position = self.message.len();
            Fault { offset, cause: cause.to_owned() }
        }))
    }
}
