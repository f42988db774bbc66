//! Executes the opcodes of a pickle, in groups. A function returns `false` for an opcode of another
//! group.

use super::{Pickle, Value, opcode};
use crate::shared::import::ReaderError;

/// The newest protocol that is read.
const MAX_PROTOCOL: u8 = 5;

impl Pickle<'_> {
    /// Executes the next opcode.
    pub(super) fn execute_next(&mut self) -> Result<(), ReaderError> {
        let opcode_offset = self.offset();
        let [opcode] = self.bytes.read_array()?;
        if let Some(value) = self.read_scalar(opcode)? {
            self.stack.push(value);
            return Ok(());
        }
        if self.execute_container(opcode)? || self.execute_memo(opcode)? {
            return Ok(());
        }
        match opcode {
            opcode::STOP => {
                // The outermost value stays on the stack for `outer_fields`.
                self.is_complete = self.stack.len() == 1 && self.marks.is_empty();
                if !self.is_complete {
                    return self.fail("the pickle stops in the middle of a value");
                }
            }
            opcode::MARK => self.marks.push(self.stack.len()),
            opcode::POP if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
            }
            opcode::POP => {
                self.pop_many(1)?;
            }
            opcode::POP_MARK => {
                self.pop_to_mark()?;
            }
            opcode::DUP => self.stack.push(self.top()?),
            opcode::PROTO => {
                let [protocol] = self.bytes.read_array()?;
                if protocol > MAX_PROTOCOL {
                    let cause = format!("pickle protocol {protocol} is unknown");
                    return Err(ReaderError::content(opcode_offset, cause));
                }
            }
            // The length of a frame is skipped, because it does not affect the content.
            opcode::FRAME => {
                self.bytes.read_array::<8>()?;
            }
            _ => return Err(ReaderError::content(opcode_offset, self.refusal_cause(opcode)?)),
        }
        Ok(())
    }

    /// Reads a value without elements.
    fn read_scalar(&mut self, opcode: u8) -> Result<Option<Value>, ReaderError> {
        Ok(Some(match opcode {
            opcode::NONE => Value::None,
            opcode::NEWTRUE => Value::Bool(true),
            opcode::NEWFALSE => Value::Bool(false),
            opcode::BININT1 => Value::Int(self.bytes.read_array().map(u8::from_le_bytes)?.into()),
            opcode::BININT2 => Value::Int(self.bytes.read_array().map(u16::from_le_bytes)?.into()),
            opcode::BININT => Value::Int(self.bytes.read_array().map(i32::from_le_bytes)?.into()),
            opcode::BINFLOAT => Value::real(self.bytes.read_array().map(f64::from_be_bytes)?),
            opcode::LONG1 => self.read_long::<1>()?,
            opcode::LONG4 => self.read_long::<4>()?,
            // Byte strings are treated as texts.
            opcode::SHORT_BINUNICODE | opcode::SHORT_BINSTRING | opcode::SHORT_BINBYTES => {
                self.read_text::<1>()?
            }
            opcode::BINUNICODE | opcode::BINSTRING | opcode::BINBYTES => self.read_text::<4>()?,
            opcode::BINUNICODE8 | opcode::BINBYTES8 | opcode::BYTEARRAY8 => {
                self.read_text::<8>()?
            }
            _ => return Ok(None),
        }))
    }

    /// Reads a number of `N` bytes.
    fn read_unsigned<const N: usize>(&mut self) -> Result<u64, ReaderError> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&self.bytes.read_array::<N>()?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads an integer in two's complement after its length of `N` bytes. An integer that exceeds
    /// 64 bits becomes a text.
    fn read_long<const N: usize>(&mut self) -> Result<Value, ReaderError> {
        let length = self.read_unsigned::<N>()?;
        if length > 16 {
            return self.fail(format!("a whole number has {length} bytes"));
        }
        let bytes = self.bytes.read_vec(length)?;
        let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 16];
        wide[..bytes.len()].copy_from_slice(&bytes);
        let number = i128::from_le_bytes(wide);
        Ok(match i64::try_from(number) {
            Ok(number) => Value::Int(number),
            Err(_too_large) => self.values.add_text(number.to_string()),
        })
    }

    /// Reads a text after its length of `N` bytes.
    fn read_text<const N: usize>(&mut self) -> Result<Value, ReaderError> {
        let length = self.read_unsigned::<N>()?;
        let bytes = self.bytes.read_vec(length)?;
        // Python writes lone surrogates, which are not valid UTF-8. They are replaced.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok(self.values.add_text(text))
    }

    /// Creates or extends a list, tuple, set or dict.
    fn execute_container(&mut self, opcode: u8) -> Result<bool, ReaderError> {
        let items = match opcode {
            opcode::LIST
            | opcode::FROZENSET
            | opcode::DICT
            | opcode::TUPLE
            | opcode::APPENDS
            | opcode::ADDITEMS
            | opcode::SETITEMS => self.pop_to_mark()?,
            opcode::TUPLE1..=opcode::TUPLE3 => {
                self.pop_many((opcode - opcode::TUPLE1 + 1).into())?
            }
            opcode::APPEND => self.pop_many(1)?,
            opcode::SETITEM => self.pop_many(2)?,
            opcode::EMPTY_LIST | opcode::EMPTY_SET | opcode::EMPTY_DICT | opcode::EMPTY_TUPLE => {
                Vec::new()
            }
            _ => return Ok(false),
        };
        let value = match opcode {
            opcode::APPEND | opcode::APPENDS | opcode::ADDITEMS => {
                self.append(&items)?;
                return Ok(true);
            }
            opcode::SETITEM | opcode::SETITEMS => {
                self.set_items(&items)?;
                return Ok(true);
            }
            opcode::EMPTY_DICT | opcode::DICT => self.values.add_dict(items),
            opcode::EMPTY_TUPLE | opcode::TUPLE | opcode::TUPLE1..=opcode::TUPLE3 => {
                self.values.add_tuple(items)
            }
            _ => self.values.add_list(items),
        };
        if matches!(opcode, opcode::EMPTY_LIST | opcode::EMPTY_SET) {
            self.open_list(value);
        }
        self.stack.push(value);
        Ok(true)
    }

    /// Stores a value in the memo or fetches one.
    fn execute_memo(&mut self, opcode: u8) -> Result<bool, ReaderError> {
        let index = match opcode {
            opcode::BINPUT | opcode::BINGET => self.read_unsigned::<1>()?,
            opcode::LONG_BINPUT | opcode::LONG_BINGET => self.read_unsigned::<4>()?,
            opcode::MEMOIZE => self.memo.len() as u64,
            _ => return Ok(false),
        };
        match opcode {
            opcode::BINGET | opcode::LONG_BINGET => self.memo_get(index)?,
            _ => self.memo_put(index)?,
        }
        Ok(true)
    }

    /// Returns the reason why an opcode is refused.
    fn refusal_cause(&mut self, opcode: u8) -> Result<String, ReaderError> {
        let import_cause = |module: &str, name: &str| {
            format!("the pickle would import `{module}.{name}`, which is never done")
        };
        Ok(match opcode {
            opcode::GLOBAL | opcode::INST => {
                let (module, name) = (self.bytes.read_line()?, self.bytes.read_line()?);
                import_cause(&module, &name)
            }
            opcode::STACK_GLOBAL => {
                let names = self.pop_many(2)?;
                let text_or_unknown = |value| self.values.name(value).unwrap_or("?");
                import_cause(text_or_unknown(names[0]), text_or_unknown(names[1]))
            }
            opcode::EXT1..=opcode::EXT4 => import_cause("copyreg", "_extension_registry"),
            opcode::REDUCE | opcode::BUILD | opcode::OBJ | opcode::NEWOBJ | opcode::NEWOBJ_EX => {
                "the pickle would call or build an object, which is never done".to_owned()
            }
            opcode::PERSID | opcode::BINPERSID => {
                "the pickle refers to an object outside of it".to_owned()
            }
            _ => format!("the pickle has the opcode {opcode:#04x}, which is unknown"),
        })
    }
}
