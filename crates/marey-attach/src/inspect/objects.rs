//! Objects and their classes in the memory of a process.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::InspectError;
use super::layout::Layout;
use crate::memory::Memory;

/// Bytes that cost as much as a call of the system.
const BYTES_PER_READ: usize = 256;
/// Longest read at once.
const MAX_BLOCK_BYTES: usize = 1 << 24;

pub(super) type Result<T> = std::result::Result<T, InspectError>;

// Offsets of fields that are the same in all versions.
/// In an object: the address of its class.
const CLASS: u64 = 8;
/// In an object with a length: the length.
pub(super) const LENGTH: u64 = 16;
// In a class:
const NAME: usize = 24;
const BASIC_BYTES: usize = 32;
const ITEM_BYTES: usize = 40;
const FLAGS: usize = 168;
const DICTIONARY: usize = 264;
const DESCRIPTOR_SET: usize = 280;
const DICTIONARY_OFFSET: usize = 288;
const BASES: usize = 344;
const CLASS_BYTES: usize = 352;

/// Longest order of base classes, and longest name of a class.
const MAX_BASES: u64 = 256;
const MAX_NAME_BYTES: usize = 256;
const MAX_NAME_CHARACTERS: u64 = 256;

/// Memory of a process that can be read.
pub(super) trait ReadMemory {
    /// Fills a buffer from an address; `None` if not all of it can be read.
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()>;
}

impl ReadMemory for Memory {
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.fill(address, buffer)
    }
}

/// Objects of a process, as they are in its memory. Everything that is read may be torn or hostile:
/// no length is trusted, and the number of readings is bounded.
pub(super) struct Objects<'a> {
    memory: &'a dyn ReadMemory,
    pub(super) layout: &'static Layout,
    reads_left: Cell<usize>,
    classes: RefCell<HashMap<u64, Class>>,
}

/// A class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) address: u64,
    name: u64,
    pub(super) basic_bytes: u64,
    pub(super) item_bytes: u64,
    flags: u64,
    /// Address of the dictionary of its attributes; 0 in classes of C from 3.12 on.
    pub(super) dictionary: u64,
    /// Whether an attribute of this class comes before one of the instance.
    pub(super) has_set: bool,
    pub(super) dictionary_offset: i64,
    bases: u64,
}

/// A flag of a class.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(super) enum Flag {
    InlineValues = 1 << 2,
    ManagedDictionary = 1 << 4,
    /// Made by Python code.
    Heap = 1 << 9,
    Ready = 1 << 12,
    Integer = 1 << 24,
    List = 1 << 25,
    Tuple = 1 << 26,
    Bytes = 1 << 27,
    Text = 1 << 28,
    Dictionary = 1 << 29,
    Class = 1 << 31,
}

impl Class {
    pub(super) const fn is(&self, flag: Flag) -> bool {
        self.flags & flag as u64 != 0
    }
}

impl<'a> Objects<'a> {
    /// Returns the objects of a memory. After `max_reads` readings each further one fails.
    pub(super) fn new(
        memory: &'a dyn ReadMemory,
        layout: &'static Layout,
        max_reads: usize,
    ) -> Self {
        Self { memory, layout, reads_left: Cell::new(max_reads), classes: RefCell::default() }
    }

    /// Forgets classes that were read before, because the process has run since.
    pub(super) fn forget_classes(&self) {
        self.classes.borrow_mut().clear();
    }

    /// Fills a buffer from an address and an offset.
    fn read_into(&self, address: u64, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let cost = 1 + buffer.len() / BYTES_PER_READ;
        let left = self.reads_left.get().checked_sub(cost).ok_or(InspectError::TooLarge)?;
        self.reads_left.set(left);
        let address = address.checked_add(offset).ok_or(InspectError::Changed)?;
        self.memory.read_into(address, buffer).ok_or(InspectError::Changed)
    }

    pub(super) fn bytes<const N: usize>(&self, address: u64, offset: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_into(address, offset, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn block(&self, address: u64, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let length = usize::try_from(bytes).ok().filter(|length| *length <= MAX_BLOCK_BYTES);
        let mut block = vec![0; length.ok_or(InspectError::Changed)?];
        self.read_into(address, offset, &mut block)?;
        Ok(block)
    }

    pub(super) fn word(&self, address: u64, offset: u64) -> Result<u64> {
        self.bytes(address, offset).map(u64::from_ne_bytes)
    }

    /// Returns a length, which is never negative.
    pub(super) fn length(&self, object: u64) -> Result<u64> {
        let length = self.word(object, LENGTH)?;
        if length > i64::MAX.cast_unsigned() { Err(InspectError::Changed) } else { Ok(length) }
    }

    /// Returns the class of an object.
    pub(super) fn class_of(&self, object: u64) -> Result<Class> {
        self.class(self.word(object, CLASS)?)
    }

    /// Reads a class, which must be one: its own class is a class of classes.
    pub(super) fn class(&self, address: u64) -> Result<Class> {
        if let Some(class) = self.classes.borrow().get(&address) {
            return Ok(*class);
        }
        let block: [u8; CLASS_BYTES] = self.bytes(address, 0)?;
        let at = |offset| word_in(&block, offset);
        let class = Class {
            address,
            name: at(NAME),
            basic_bytes: at(BASIC_BYTES),
            item_bytes: at(ITEM_BYTES),
            flags: at(FLAGS),
            dictionary: at(DICTIONARY),
            has_set: at(DESCRIPTOR_SET) != 0,
            dictionary_offset: at(DICTIONARY_OFFSET).cast_signed(),
            bases: at(BASES),
        };
        let metaclass_flags = self.word(at(CLASS as usize), FLAGS as u64)?;
        if !class.is(Flag::Ready) || metaclass_flags & Flag::Class as u64 == 0 {
            return Err(InspectError::Changed);
        }
        self.classes.borrow_mut().insert(address, class);
        Ok(class)
    }

    /// Returns a class and its bases in the order in which attributes are looked up.
    pub(super) fn bases(&self, class: &Class) -> Result<Vec<Class>> {
        let count = self.length(class.bases)?;
        if count > MAX_BASES {
            return Err(InspectError::Changed);
        }
        let addresses = self.block(class.bases, self.layout.tuple_items, 8 * count)?;
        words_of(&addresses).map(|address| self.class(address)).collect()
    }

    /// Whether a class is a certain one of C, by its name in C.
    pub(super) fn is_class_of_c(&self, class: &Class, name: &str) -> Result<bool> {
        Ok(!class.is(Flag::Heap) && self.name_in_c(class)? == name)
    }

    /// Returns the name of a class with that of its module, as in `train.Model`.
    pub(super) fn class_name(&self, class: &Class) -> Result<String> {
        if !class.is(Flag::Heap) {
            return self.name_in_c(class);
        }
        let qualified = self.word(class.address, self.layout.qualified_name)?;
        let qualified = self.text(qualified, MAX_NAME_CHARACTERS)?.content;
        let module = match self.find_text(&self.dictionary(class.dictionary)?, "__module__")? {
            Some(module) if self.class_of(module)?.is(Flag::Text) => {
                self.text(module, MAX_NAME_CHARACTERS)?.content
            }
            _ => return Ok(qualified),
        };
        Ok(if module == "builtins" { qualified } else { format!("{module}.{qualified}") })
    }

    /// Returns the name of a class as its C string has it.
    pub(super) fn name_in_c(&self, class: &Class) -> Result<String> {
        let mut name = Vec::new();
        let mut address = class.name;
        while name.len() < MAX_NAME_BYTES {
            // An aligned piece does not reach into a page that cannot be read.
            let piece = self.block(address, 0, 16 - address % 16)?;
            let characters = piece.iter().take_while(|byte| **byte != 0);
            name.extend(characters);
            if piece.contains(&0) {
                break;
            }
            address = address.checked_add(piece.len() as u64).ok_or(InspectError::Changed)?;
        }
        Ok(String::from_utf8_lossy(&name).into_owned())
    }
}

/// Returns the word at an offset of a block; 0 behind its end.
pub(super) fn word_in(block: &[u8], offset: usize) -> u64 {
    let bytes = block.get(offset..).and_then(|tail| tail.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Returns the words of a block.
pub(super) fn words_of(block: &[u8]) -> impl Iterator<Item = u64> {
    block.chunks_exact(8).map(|bytes| word_in(bytes, 0))
}
