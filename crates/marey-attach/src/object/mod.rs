//! Objects of CPython, read from the memory of a process that may run meanwhile.
//!
//! **Constraints.** Any word may be torn or stale: a reading that makes no sense returns `None`, each
//! length has a limit, and nothing is computed that can overflow.

mod code;
mod coroutine;
mod dict;
mod layout;
mod thread;

use std::cell::Cell;

pub(crate) use self::coroutine::Progress;
pub(crate) use self::layout::{Layout, OffsetTable};
pub(crate) use self::thread::PythonThread;

/// Reads of memory in all, some seconds' worth: torn lists may go round in circles.
const MAX_READS: u32 = 10_000_000;
/// Bytes of the longest text that is read.
const MAX_TEXT_BYTES: u64 = 4096;
/// Bytes of the longest name of a type.
const MAX_TYPE_NAME_BYTES: usize = 128;
/// Elements of the largest set that is read.
const MAX_SET_ENTRIES: u64 = 1 << 20;
/// Base classes between a class and the oldest one.
const MAX_BASES: usize = 32;

/// Position of the type in an object.
const TYPE: u64 = 8;
/// Position of the first field of an object behind its head.
const FIRST_FIELD: u64 = 16;
/// Position of the name, the size of an instance, the flags, the base class and the position of the
/// dict in a type.
const TYPE_NAME: u64 = 24;
const TYPE_BASIC_SIZE: u64 = 32;
const TYPE_FLAGS: u64 = 168;
const TYPE_BASE: u64 = 256;
const TYPE_DICT_OFFSET: u64 = 288;

/// The memory of a process, or an image of it.
pub(crate) trait ReadMemory {
    /// Reads bytes from an address; `None` if not all can be read.
    fn read_into(&self, address: u64, bytes: &mut [u8]) -> Option<()>;
}

/// Address of an object.
pub(crate) type Address = u64;

/// Reads the objects of one process.
pub(crate) struct Objects<'a> {
    memory: &'a dyn ReadMemory,
    pub(crate) layout: Layout,
    reads_left: Cell<u32>,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(memory: &'a dyn ReadMemory, layout: Layout) -> Self {
        Self { memory, layout, reads_left: Cell::new(MAX_READS) }
    }

    /// Reads bytes from a position in an object.
    pub(crate) fn bytes<const N: usize>(&self, object: Address, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read_into(object.checked_add(offset)?, &mut bytes)?;
        Some(bytes)
    }

    fn many_bytes(&self, address: Address, length: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.read_into(address, &mut bytes)?;
        Some(bytes)
    }

    fn read_into(&self, address: Address, bytes: &mut [u8]) -> Option<()> {
        self.reads_left.set(self.reads_left.get().checked_sub(1)?);
        self.memory.read_into(address, bytes)
    }

    /// Reads a field that is a number or a reference.
    pub(crate) fn word(&self, object: Address, offset: u64) -> Option<u64> {
        self.bytes(object, offset).map(u64::from_ne_bytes)
    }

    /// Reads a field that refers to another object; `None` for NULL.
    pub(crate) fn reference(&self, object: Address, offset: u64) -> Option<Address> {
        self.word(object, offset).filter(|&address| address != 0)
    }

    pub(crate) fn int(&self, object: Address, offset: u64) -> Option<i32> {
        self.bytes(object, offset).map(i32::from_ne_bytes)
    }

    /// Returns the name of an object's type, with the module for types of C.
    pub(crate) fn type_name(&self, object: Address) -> Option<String> {
        self.name_of_type(self.reference(object, TYPE)?)
    }

    fn name_of_type(&self, class: Address) -> Option<String> {
        let start = self.reference(class, TYPE_NAME)?;
        let mut name = Vec::new();
        while name.len() < MAX_TYPE_NAME_BYTES {
            // Short pieces, since the memory may end behind the name.
            let piece: [u8; 8] = self.bytes(start, name.len() as u64)?;
            if let Some(end) = piece.iter().position(|&byte| byte == 0) {
                name.extend(&piece[..end]);
                return String::from_utf8(name).ok();
            }
            name.extend(piece);
        }
        None
    }

    /// Whether an object is an instance of the type of that name, or of a class derived from it.
    pub(crate) fn is_instance(&self, object: Address, name: &str) -> bool {
        let mut class = self.reference(object, TYPE);
        for _ in 0..MAX_BASES {
            let Some(address) = class else { return false };
            if self.name_of_type(address).as_deref() == Some(name) {
                return true;
            }
            class = self.reference(address, TYPE_BASE);
        }
        false
    }

    /// Returns a text, cut at a limit.
    pub(crate) fn text(&self, object: Address) -> Option<String> {
        /// Position of the length and of the state behind the head.
        const LENGTH: u64 = 16;
        const STATE: u64 = 32;
        let state = u32::from_ne_bytes(self.bytes(object, STATE)?);
        let (unit, is_compact, is_ascii) =
            (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        is_compact.then_some(())?;
        let ascii_size = self.layout.ascii_size;
        // Other texts have the length and address of their UTF-8, and before 3.12 another word.
        let additional = if self.layout.minor < 12 { 24 } else { 16 };
        let start = object.checked_add(ascii_size + if is_ascii { 0 } else { additional })?;
        let length = self.word(object, LENGTH)?.min(MAX_TEXT_BYTES / u64::from(unit.max(1)));
        let bytes = self.many_bytes(start, length * u64::from(unit))?;
        let units = bytes.chunks_exact(unit.max(1) as usize);
        match unit {
            1 => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
            2 => units
                .map(|unit| char::from_u32(u16::from_ne_bytes([unit[0], unit[1]]).into()))
                .collect(),
            4 => units
                .map(|unit| {
                    char::from_u32(u32::from_ne_bytes([unit[0], unit[1], unit[2], unit[3]]))
                })
                .collect(),
            _ => None,
        }
    }

    /// Returns a number of at most 60 bits that is not negative.
    pub(crate) fn number(&self, object: Address) -> Option<u64> {
        /// Positions of the size and the digits of 30 bits.
        const SIZE: u64 = 16;
        const DIGITS: u64 = 24;
        (self.type_name(object)? == "int").then_some(())?;
        let size = self.word(object, SIZE)?;
        let (digits, is_negative) = if self.layout.minor < 12 {
            (size.cast_signed().unsigned_abs(), size.cast_signed() < 0)
        } else {
            // The lowest three bits are the sign and a flag.
            (size >> 3, size & 3 == 2)
        };
        (digits <= 2 && !is_negative).then_some(())?;
        (0..digits).rev().try_fold(0, |number, index| {
            let digit = u32::from_ne_bytes(self.bytes(object, DIGITS + 4 * index)?);
            Some(number << 30 | u64::from(digit))
        })
    }

    /// Returns the elements of a set, at most `limit`.
    pub(crate) fn set(&self, object: Address, limit: usize) -> Option<Vec<Address>> {
        const MASK: u64 = 32;
        const TABLE: u64 = 40;
        const ENTRY_BYTES: u64 = 16;
        let entries = self.word(object, MASK)?.checked_add(1)?;
        (entries <= MAX_SET_ENTRIES).then_some(())?;
        let table = self.many_bytes(self.reference(object, TABLE)?, entries * ENTRY_BYTES)?;
        let entries = table.as_chunks::<8>().0.as_chunks::<2>().0.iter();
        let keys = entries.filter_map(|&[key, hash]| {
            let (key, hash) = (u64::from_ne_bytes(key), u64::from_ne_bytes(hash));
            // A removed element has the hash -1, which no element has.
            (key != 0 && hash != u64::MAX).then_some(key)
        });
        Some(keys.take(limit).collect())
    }

    /// Returns the object that a weak reference refers to, if it still exists.
    pub(crate) fn referent(&self, weak_reference: Address) -> Option<Address> {
        self.reference(weak_reference, FIRST_FIELD)
    }

    /// Returns the dict of a module of an interpreter.
    pub(crate) fn namespace(&self, interpreter: Address, module: &str) -> Option<Address> {
        let modules = self.reference(interpreter, self.layout.modules)?;
        self.reference(self.get(modules, module)?, FIRST_FIELD)
    }

    /// Returns the number of elements of a list.
    pub(crate) fn list_length(&self, list: Address) -> Option<u64> {
        (self.type_name(list)? == "list").then_some(())?;
        self.word(list, FIRST_FIELD)
    }

    /// Returns the elements of a list, at most `limit`.
    pub(crate) fn list(&self, list: Address, limit: u64) -> Option<Vec<Address>> {
        const ITEMS: u64 = 24;
        let length = self.list_length(list)?.min(limit);
        let items = self.word(list, ITEMS)?;
        (0..length).map(|index| self.reference(items, 8 * index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory in which any address can be read, and each word is noise: NULL, a small number, or a
    /// large one.
    struct Noise(u64);

    impl ReadMemory for Noise {
        fn read_into(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
            for (index, chunk) in (0..).zip(bytes.chunks_mut(8)) {
                let seed = address.wrapping_add(8 * index) ^ self.0;
                let noise = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
                let noise = (noise ^ seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let word = match noise >> 60 {
                    0..4 => 0,
                    4..8 => noise & 0x3f,
                    8 => u64::MAX,
                    9 => u64::from_ne_bytes(*b"int\0\0\0\0\0"),
                    10 => u64::from_ne_bytes(*b"code\0\0\0\0"),
                    _ => noise,
                };
                chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
            }
            Some(())
        }
    }

    #[test]
    fn noise_is_read_without_a_panic_and_comes_to_an_end() {
        const OBJECT: Address = 1 << 20;
        for minor in 10..=14 {
            let layout = Layout::new(minor).unwrap();
            for seed in 0..200 {
                let noise = Noise(seed);
                let objects = Objects::new(&noise, layout);
                objects.reads_left.set(2_000);
                objects.text(OBJECT);
                objects.number(OBJECT);
                objects.set(OBJECT, 10);
                objects.items(OBJECT);
                objects.attribute(OBJECT, "data");
                objects.frame_at(OBJECT, 10);
                objects.await_chain(OBJECT);
                objects.thread_names(OBJECT);
                objects.threads(OBJECT, OBJECT);
                objects.interpreters(OBJECT);
            }
        }
    }
}
