//! Objects in memories that the tests make up: sound, damaged, hostile and changing ones.

use std::cell::Cell;

use proptest::prelude::*;

use super::InspectError;
use super::expression::Expression;
use super::value::ValueLimits;
use crate::object::words::{TYPE, Words};
use crate::object::{ClassFlag, ObjectLayout, Objects, ReadMemory};

const MINORS: [u64; 5] = [10, 11, 12, 13, 14];
const MAX_READS: usize = 3_000;
const LIMITS: ValueLimits = ValueLimits { depth: 4, items: 50 };

/// A memory whose content at an address is any, but always the same.
struct Arbitrary<F> {
    word_at: F,
    reads: Cell<usize>,
}

impl<F: Fn(u64) -> u64> ReadMemory for Arbitrary<F> {
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.reads.set(self.reads.get() + 1);
        for (index, byte) in buffer.iter_mut().enumerate() {
            let position = address.checked_add(index as u64)?;
            *byte = (self.word_at)(position / 8).to_ne_bytes()[(position % 8) as usize];
        }
        Some(())
    }
}

/// Reads all that can be read of objects. Returns the number of readings.
fn read_all(word_at: impl Fn(u64) -> u64, minor: u64) -> usize {
    let memory = Arbitrary { word_at, reads: Cell::new(0) };
    let objects = Objects::new(&memory, ObjectLayout::for_version(3, minor).unwrap(), MAX_READS);
    for address in [0, 8, 4096, 1 << 40, u64::MAX - 7] {
        read_object(&objects, address);
    }
    memory.reads.get()
}

/// Reads all that can be read of an object; the results are values or errors.
fn read_object(objects: &Objects<'_>, address: u64) {
    let expression = Expression::parse("a.b[0]['c'][-1]").unwrap();
    drop(objects.value(address, LIMITS));
    drop(objects.attribute_values(address, LIMITS));
    for first in 0..4 {
        drop(objects.follow(address, &expression, first));
    }
}

#[test]
fn memory_that_refers_to_itself_is_read_to_an_end() {
    // Every word is an address and a set of flags: an object is its own class, item and key.
    for minor in MINORS {
        for flags in 0..1 << 8 {
            let constant = (flags << 24) | ClassFlag::Ready as u64 | ClassFlag::Class as u64;
            let reads = read_all(|_| constant, minor);
            assert!(reads <= MAX_READS, "3.{minor}, {constant:#x}: {reads}");
        }
    }
}

proptest! {
    #[test]
    fn any_memory_is_read_to_an_end(
        seed in any::<u64>(),
        minor in 10_u64..15,
        has_small_words in any::<bool>(),
    ) {
        let mixed = |position: u64| {
            let mixed = (position ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            let word = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            // Small words are lengths, and have the flags of a class in half of the cases.
            if has_small_words { (word & 0xffff_ffff) | ClassFlag::Ready as u64 } else { word }
        };
        prop_assert!(read_all(mixed, minor) <= MAX_READS);
    }
}

const LIST_CLASS: u64 = 0x2000;
const TEXT_CLASS: u64 = 0x3000;
const DICTIONARY_CLASS: u64 = 0x4000;
const KEY: u64 = 0x6000;
const ITEMS: u64 = 0x6100;
const KEYS: u64 = 0x6200;
const OTHER_KEYS: u64 = 0x6400;
const A_DICTIONARY: u64 = 0x7000;
const A_LIST: u64 = 0x7100;

/// Returns the memory of `{"c": ["c", "c"]}` in CPython 3.12.
fn sound() -> Words {
    let mut words = Words::new();
    words.put_class(LIST_CLASS, ClassFlag::List as u64);
    words.put_class(TEXT_CLASS, ClassFlag::Text as u64);
    words.put_class(DICTIONARY_CLASS, ClassFlag::Dictionary as u64);
    // A compact text of ASCII, with characters of a byte.
    words.put(KEY, &[1, TEXT_CLASS, 1, 0, 1 << 2 | 1 << 5 | 1 << 6, u64::from(b'c')]);
    words.put(A_LIST, &[1, LIST_CLASS, 2, ITEMS]);
    words.put(ITEMS, &[KEY, KEY]);
    for keys in [KEYS, OTHER_KEYS] {
        let sizes = u64::from_ne_bytes([3, 3, 1, 0, 0, 0, 0, 0]);
        words.put(keys, &[1, sizes, 4, 1, 0, KEY, A_LIST]);
    }
    words.put(A_DICTIONARY, &[1, DICTIONARY_CLASS, 1, 0, KEYS, 0]);
    words
}

fn objects(memory: &dyn ReadMemory) -> Objects<'_> {
    Objects::new(memory, ObjectLayout::for_version(3, 12).unwrap(), MAX_READS)
}

#[test]
fn a_dictionary_in_memory_is_read() {
    let memory = sound();
    let objects = objects(&memory);
    assert_eq!(objects.value(A_DICTIONARY, LIMITS).unwrap().to_string(), "{'c': ['c', 'c']}");
    let expression = Expression::parse("a['c'][-1]").unwrap();
    assert_eq!(objects.follow(A_DICTIONARY, &expression, 0).unwrap(), KEY);
    let missing = Expression::parse("a['d']").unwrap();
    let error = objects.follow(A_DICTIONARY, &missing, 0).unwrap_err();
    assert_eq!(error.to_string(), "`a` has no key 'd'");
}

#[test]
fn a_memory_with_any_word_damaged_is_a_value_or_an_error() {
    let memory = sound();
    for address in memory.0.keys() {
        for damage in [0, 1, u64::MAX, 1 << 63, 0xffff_ffff, *address, A_DICTIONARY, KEYS, TYPE] {
            let mut damaged = memory.clone();
            damaged.0.insert(*address, damage);
            read_object(&objects(&damaged), A_DICTIONARY);
            read_object(&objects(&damaged), A_LIST);
        }
        let mut torn = memory.clone();
        torn.0.remove(address);
        read_object(&objects(&torn), A_DICTIONARY);
    }
}

/// A memory whose dictionary moves its keys at a certain reading.
struct Moving {
    words: Words,
    moved: Words,
    reads: Cell<u32>,
    moves_at: u32,
}

impl ReadMemory for Moving {
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let read = self.reads.replace(self.reads.get() + 1);
        let words = if read < self.moves_at { &self.words } else { &self.moved };
        words.read_into(address, buffer)
    }
}

#[test]
fn a_dictionary_that_moves_while_it_is_read_is_no_value() {
    let mut moved = sound();
    moved.put(A_DICTIONARY, &[1, DICTIONARY_CLASS, 1, 0, OTHER_KEYS, 0]);
    // The memory of the old keys has other content now.
    moved.put(KEYS + 40, &[KEY, KEY]);
    let expression = Expression::parse("a['c']").unwrap();
    let mut changes = 0;
    for moves_at in 0..40 {
        let memory = Moving { words: sound(), moved: moved.clone(), reads: Cell::new(0), moves_at };
        match objects(&memory).follow(A_DICTIONARY, &expression, 0) {
            Ok(value) => assert_eq!(value, A_LIST),
            Err(InspectError::Changed) => changes += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(changes > 0);
}

#[test]
fn an_object_that_takes_too_long_is_too_large() {
    let memory = sound();
    let objects = Objects::new(&memory, ObjectLayout::for_version(3, 12).unwrap(), 5);
    assert!(matches!(objects.value(A_DICTIONARY, LIMITS), Err(InspectError::TooLarge)));
}
