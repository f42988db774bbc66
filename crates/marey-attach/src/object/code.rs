//! Reads code objects, and finds the function, file and line of an instruction.

use std::rc::Rc;

use super::{Address, Objects, ReadError, Result};
use crate::target::Frame;

/// The maximum size of a line table that is read.
const MAX_LINE_TABLE_BYTES: u64 = 1 << 20;

/// A code object.
pub(super) struct Code {
    function: String,
    file: String,
    first_line: i32,
    /// The line table of the instructions, empty if it cannot be read.
    line_table: Vec<u8>,
}

impl Objects<'_> {
    /// Returns the frame of a code object at the instruction with this offset in bytes. `None` for
    /// code without a name, which CPython makes for itself.
    pub(crate) fn frame_at(&self, code: Address, instruction_offset: i64) -> Result<Option<Frame>> {
        let Some(code) = self.code(code)? else { return Ok(None) };
        let line = if self.layout.minor == 10 {
            line_of_pairs(&code.line_table, code.first_line, instruction_offset)
        } else {
            line_of_locations(&code.line_table, code.first_line, instruction_offset)
        };
        Ok(Some(Frame {
            function: code.function.clone(),
            file: code.file.clone(),
            line: line.unwrap_or(code.first_line),
            ..Frame::default()
        }))
    }

    /// Returns the code object at an address, which is read once and cached. Fails if the object
    /// there has another type.
    fn code(&self, address: Address) -> Result<Option<Rc<Code>>> {
        if let Some(code) = self.codes.borrow().get(&address) {
            return Ok(code.clone());
        }
        let code = self.read_code(address)?.map(Rc::new);
        self.codes.borrow_mut().insert(address, code.clone());
        Ok(code)
    }

    fn read_code(&self, address: Address) -> Result<Option<Code>> {
        let layout = self.layout;
        if self.type_name(address).as_deref() != Some("code") {
            return Err(ReadError::Changed);
        }
        let (name, file) =
            (self.word(address, layout.code_name)?, self.word(address, layout.code_file)?);
        if name == 0 || file == 0 {
            return Ok(None);
        }
        let first_line = i32::from_ne_bytes(self.bytes(address, layout.code_first_line)?);
        let line_table = self.reference(address, layout.code_line_table);
        let line_table = line_table
            .and_then(|line_table| self.byte_string(line_table, MAX_LINE_TABLE_BYTES).ok());
        let line_table = line_table.filter(|line_table| line_table.length <= MAX_LINE_TABLE_BYTES);
        Ok(Some(Code {
            function: self.text_of(name).ok_or(ReadError::Changed)?,
            file: self.text_of(file).ok_or(ReadError::Changed)?,
            first_line,
            line_table: line_table.map(|line_table| line_table.content).unwrap_or_default(),
        }))
    }
}

/// Returns the line of an instruction by the table of CPython 3.10 (PEP 626). Each pair of the
/// table has the size of some instructions in bytes, and the difference of their line from the
/// previous line. The difference -128 means that they have no line.
fn line_of_pairs(table: &[u8], first_line: i32, instruction_offset: i64) -> Option<i32> {
    let (mut end, mut line) = (0, first_line);
    for &[instruction_bytes, line_difference] in table.as_chunks::<2>().0 {
        let has_line = line_difference.cast_signed() != i8::MIN;
        if has_line {
            line = line.wrapping_add(line_difference.cast_signed().into());
        }
        end += i64::from(instruction_bytes);
        if instruction_offset < end {
            return has_line.then_some(line);
        }
    }
    None
}

/// Returns the line of an instruction by the table of CPython 3.11 (`Objects/locations.md`). Each
/// entry begins with a byte whose highest bit is set.
fn line_of_locations(table: &[u8], first_line: i32, instruction_offset: i64) -> Option<i32> {
    const INSTRUCTION_BYTES: i64 = 2;
    let (mut end, mut line) = (0, first_line);
    let mut bytes = table.iter().copied().peekable();
    while let Some(head) = bytes.next() {
        let kind = head >> 3 & 15;
        match kind {
            // A difference of lines, without columns (13) or with them (14).
            13 | 14 => line = line.wrapping_add(read_signed_varint(&mut bytes)),
            // Zero, one or two lines later.
            10..=12 => line = line.wrapping_add((kind - 10).into()),
            _ => {}
        }
        while bytes.next_if(|byte| byte & 0x80 == 0).is_some() {}
        end += INSTRUCTION_BYTES * i64::from((head & 7) + 1);
        if instruction_offset < end {
            return (kind != 15).then_some(line);
        }
    }
    None
}

/// Reads a signed number of groups of six bits, lowest first. Its lowest bit is the sign.
fn read_signed_varint(bytes: &mut impl Iterator<Item = u8>) -> i32 {
    let (mut number, mut shift) = (0_u32, 0);
    for byte in bytes {
        number |= u32::from(byte & 63).checked_shl(shift).unwrap_or(0);
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    let magnitude = (number >> 1).cast_signed();
    if number & 1 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_pairs() {
        // Four bytes at line 10, two at 12, two without a line, two at 11.
        let table = [4, 0, 2, 2, 2, 0x80, 2, 0xff];
        let lines = [0, 3, 4, 6, 8, 10].map(|at| line_of_pairs(&table, 10, at));
        assert_eq!(lines, [Some(10), Some(10), Some(12), None, Some(11), None]);
    }

    #[test]
    fn a_line_is_found_by_locations() {
        // One instruction in the next line, two in the same line with columns, one 40 lines back
        // without columns, and one without a line.
        let table = [0x80 | 11 << 3, 5, 9, 0x80 | 3 << 3 | 1, 0x21, 0x80 | 13 << 3, 0x51, 1, 0xf8];
        let lines = [0, 2, 4, 6, 8, 10].map(|at| line_of_locations(&table, 50, at));
        assert_eq!(lines, [Some(51), Some(51), Some(51), Some(11), None, None]);
    }

    #[test]
    fn a_table_of_noise_has_no_line_and_does_not_panic() {
        for seed in 0..=255_u8 {
            let noise: Vec<u8> =
                (0..64).map(|index: u8| seed.wrapping_mul(index) ^ index).collect();
            line_of_pairs(&noise, i32::MAX, i64::MAX);
            line_of_locations(&noise, i32::MAX, i64::MAX);
        }
    }
}
