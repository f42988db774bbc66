//! A made-up memory of words, in which tests place classes and objects.

use std::collections::BTreeMap;

use super::class::ClassFlag;
use super::{Address, ReadMemory};

/// The class of all classes.
pub(crate) const TYPE: Address = 0x1000;
const NO_BASES: Address = 0x800;
const NAME: Address = 0x900;
/// Offsets in a class: its name, its flags, and the tuple of its bases.
const CLASS_NAME: u64 = 24;
const CLASS_FLAGS: u64 = 168;
const CLASS_BASES: u64 = 344;

/// A memory of some words, each at an address that is a multiple of 8.
#[derive(Clone, Default)]
pub(crate) struct Words(pub(crate) BTreeMap<Address, u64>);

impl Words {
    /// Returns a memory with the class of all classes.
    pub(crate) fn new() -> Self {
        let mut words = Self::default();
        words.put_class(TYPE, ClassFlag::Class as u64);
        words.put(NO_BASES, &[1, TYPE, 0]);
        words.put_bytes(NAME, b"builtin\0\0");
        words
    }

    /// Writes words at an address and those after it.
    pub(crate) fn put(&mut self, address: Address, words: &[u64]) {
        self.0.extend((address..).step_by(8).zip(words.iter().copied()));
    }

    /// Writes bytes at an address and those after it, and zeros up to the end of the last word.
    pub(crate) fn put_bytes(&mut self, address: Address, bytes: &[u8]) {
        for (position, chunk) in (address..).step_by(8).zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.put(position, &[u64::from_ne_bytes(word)]);
        }
    }

    /// Adds a class of C without bases.
    pub(crate) fn put_class(&mut self, address: Address, flags: u64) {
        self.put(address, &[0; 44]);
        self.put(address, &[1, TYPE]);
        self.put(address + CLASS_NAME, &[NAME]);
        self.put(address + CLASS_FLAGS, &[flags | ClassFlag::Ready as u64]);
        self.put(address + CLASS_BASES, &[NO_BASES]);
    }

    /// Gives a class a name and a tuple of bases.
    pub(crate) fn name_class(&mut self, class: Address, name: Address, bases: Address) {
        self.put(class + CLASS_NAME, &[name]);
        self.put(class + CLASS_BASES, &[bases]);
    }

    fn byte(&self, address: Address) -> Option<u8> {
        let word = self.0.get(&(address / 8 * 8))?;
        Some(word.to_ne_bytes()[(address % 8) as usize])
    }
}

impl ReadMemory for Words {
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        for (index, byte) in buffer.iter_mut().enumerate() {
            *byte = self.byte(address.checked_add(index as u64)?)?;
        }
        Some(())
    }
}
