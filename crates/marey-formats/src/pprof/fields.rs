//! The fields of a message one after the other, without making the message.

use crate::import::Fault;

/// A field.
pub(super) struct Field<'a> {
    /// Bytes before it.
    pub(super) offset: u64,
    /// Its number.
    pub(super) tag: u64,
    /// All of it.
    pub(super) whole: &'a [u8],
    /// What follows its number and its length; empty if it is a number itself.
    pub(super) body: &'a [u8],
}

/// The fields of a message; after a fault none.
pub(super) struct Fields<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) const fn of(content: &'a [u8]) -> Self {
        Self { content, at: 0 }
    }

    fn take(&mut self) -> Result<Field<'a>, &'static str> {
        let start = self.at;
        let key = self.varint()?;
        let body = match key & 7 {
            0 => {
                self.varint()?;
                &[]
            }
            1 => self.bytes(8)?,
            2 => {
                let len = self.varint()?;
                self.bytes(len)?
            }
            5 => self.bytes(4)?,
            _ => return Err("a field has a type that protobuf does not have"),
        };
        let whole = &self.content[start..self.at];
        Ok(Field { offset: start as u64, tag: key >> 3, whole, body })
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.bytes(1)? else { unreachable!("it is one") };
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    fn bytes(&mut self, len: u64) -> Result<&'a [u8], &'static str> {
        let rest = &self.content[self.at..];
        let len = usize::try_from(len).ok().filter(|&len| len <= rest.len());
        let len = len.ok_or("the profile ends in the middle of a field")?;
        self.at += len;
        Ok(&rest[..len])
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.content.len() {
            return None;
        }
        let offset = self.at as u64;
        let field = self.take();
        Some(field.map_err(|cause| {
            self.at = self.content.len();
            Fault { offset, cause: cause.to_owned() }
        }))
    }
}
