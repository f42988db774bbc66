//! Tests of reading objects in made-up memories with the layout of each version of CPython.

use super::class::ClassFlag;
use super::words::{TYPE, Words};
use super::{Address, ObjectLayout, Objects, ReadMemory};

const MINORS: [u64; 5] = [10, 11, 12, 13, 14];
const MAX_READS: usize = 2_000;

const INTEGER_CLASS: Address = 0x2000;
const TEXT_CLASS: Address = 0x3000;
const DICTIONARY_CLASS: Address = 0x4000;
const LIST_CLASS: Address = 0x5000;
const OTHER_CLASS: Address = 0x6000;
/// The addresses of the texts `a`, `b` and `c`.
const NAMES: [Address; 3] = [0x7000, 0x7100, 0x7200];
const OBJECT: Address = 0x8000;
const DICTIONARY: Address = 0x9000;
const KEYS: Address = 0xa000;
const VALUES: Address = 0xb000;
const DATA: Address = 0xc000;
/// The addresses of two values, which are not read.
const FIRST: Address = 0xf000;
const SECOND: Address = 0xf100;

fn objects(memory: &dyn ReadMemory, minor: u64) -> Objects<'_> {
    Objects::new(memory, ObjectLayout::for_version(3, minor).unwrap(), MAX_READS)
}

/// Returns a memory of classes and of three texts.
fn classes(minor: u64) -> Words {
    let mut words = Words::new();
    words.put_class(INTEGER_CLASS, ClassFlag::Integer as u64);
    words.put_class(TEXT_CLASS, ClassFlag::Text as u64);
    words.put_class(DICTIONARY_CLASS, ClassFlag::Dictionary as u64);
    words.put_class(LIST_CLASS, ClassFlag::List as u64);
    words.put_class(OTHER_CLASS, 0);
    for (address, name) in NAMES.into_iter().zip(["a", "b", "c"]) {
        put_text(&mut words, address, minor, name, 1, true);
    }
    words
}

/// Adds a text with characters of this width, inside the object or elsewhere.
fn put_text(
    words: &mut Words,
    address: Address,
    minor: u64,
    text: &str,
    width: usize,
    is_compact: bool,
) {
    let codes = text.chars().map(u32::from);
    let data: Vec<u8> = codes.flat_map(|code| code.to_le_bytes().into_iter().take(width)).collect();
    let is_ascii = is_compact && text.is_ascii();
    let state = (width as u64) << 2 | u64::from(is_compact) << 5 | u64::from(is_ascii) << 6;
    words.put(address, &[1, TEXT_CLASS, text.chars().count() as u64, 0, state]);
    let (ascii, other) = if minor < 12 { (48, 72) } else { (40, 56) };
    if is_compact {
        words.put_bytes(address + if is_ascii { ascii } else { other }, &data);
    } else {
        words.put(address + other, &[DATA]);
        words.put_bytes(DATA, &data);
    }
}

#[test]
fn a_text_of_any_form_is_read() {
    let texts = [("plain", 1), ("größe", 1), ("αβγ", 2), ("a\u{fffd}b", 2), ("🙂 x", 4)];
    for minor in MINORS {
        for (text, width) in texts {
            for is_compact in [true, false] {
                let mut words = classes(minor);
                put_text(&mut words, OBJECT, minor, text, width, is_compact);
                let objects = objects(&words, minor);
                assert_eq!(objects.text_of(OBJECT).as_deref(), Some(text), "3.{minor}");
                let excerpt = objects.text(OBJECT, 2).unwrap();
                assert_eq!(excerpt.content, text.chars().take(2).collect::<String>());
                assert_eq!(excerpt.length, text.chars().count() as u64);
            }
        }
    }
}

#[test]
fn half_a_surrogate_pair_is_replaced() {
    let mut words = classes(12);
    put_text(&mut words, OBJECT, 12, "αβ", 2, true);
    words.put(OBJECT + 56, &[0xd800 | u64::from(u32::from('β')) << 16]);
    assert_eq!(objects(&words, 12).text_of(OBJECT).as_deref(), Some("\u{fffd}β"));
}

#[test]
fn an_integer_of_any_sign_and_size_is_read() {
    for minor in MINORS {
        for value in [0, 5, -5, (1 << 40) + 3, -(1 << 62), i64::MAX] {
            let mut words = classes(minor);
            put_integer(&mut words, minor, value);
            let objects = objects(&words, minor);
            let number = objects.integer(OBJECT).unwrap();
            assert_eq!(number.as_i64(), Some(value), "3.{minor}");
            assert_eq!(number.decimal(), Some(value.to_string()), "3.{minor}");
            assert_eq!(objects.unsigned_integer(OBJECT), u64::try_from(value).ok(), "3.{minor}");
            assert_eq!(objects.text_of(OBJECT), None);
        }
        assert_eq!(objects(&classes(minor), minor).unsigned_integer(NAMES[0]), None);
    }
}

fn put_integer(words: &mut Words, minor: u64, value: i64) {
    let mut digits = Vec::new();
    let mut left = value.unsigned_abs();
    while left > 0 {
        digits.extend(((left & 0x3fff_ffff) as u32).to_le_bytes());
        left >>= 30;
    }
    let count = digits.len() as u64 / 4;
    let sign = match value {
        ..0 => 2,
        0 => 1,
        _ => 0,
    };
    let size = match (minor, value) {
        (12.., _) => count << 3 | sign,
        (_, ..0) => count.wrapping_neg(),
        _ => count,
    };
    words.put(OBJECT, &[1, INTEGER_CLASS, size]);
    words.put_bytes(OBJECT + 24, &digits);
}

/// The kinds of keys that a dictionary may have.
#[derive(Clone, Copy, Debug)]
enum Kind {
    General,
    Texts,
    /// The values are elsewhere.
    Shared,
}

/// Adds the keys `a`, `b` and `c`. The values of `a` and `c` are `FIRST` and `SECOND`.
fn put_keys(words: &mut Words, minor: u64, kind: Kind) {
    let values = match kind {
        Kind::Shared => [0; 3],
        Kind::General | Kind::Texts => [FIRST, 0, SECOND],
    };
    let has_hashes = minor == 10 || matches!(kind, Kind::General);
    let entries = NAMES.into_iter().zip(values);
    let entries: Vec<u64> = entries
        .flat_map(|(name, value)| [7, name, value].into_iter().skip(usize::from(!has_hashes)))
        .collect();
    if minor == 10 {
        // The size, a function, the numbers of free and used entries, and indexes of a byte each.
        words.put(KEYS, &[1, 8, 0, 2, 3, 0]);
        words.put(KEYS + 48, &entries);
    } else {
        let logarithms = u64::from_ne_bytes([3, 3, kind as u8, 0, 0, 0, 0, 0]);
        words.put(KEYS, &[1, logarithms, 2, 3, 0]);
        words.put(KEYS + 40, &entries);
    }
}

/// Adds the values of an object with shared keys.
fn put_values(words: &mut Words, address: Address, minor: u64) {
    let head_bytes = if minor < 13 { 0 } else { 8 };
    words.put(address, &[u64::from_ne_bytes([0, 0, 0, 1, 0, 0, 0, 0])]);
    words.put(address + head_bytes, &[FIRST, 0, SECOND]);
}

#[test]
fn a_dictionary_of_any_kind_has_its_values() {
    for minor in MINORS {
        for kind in [Kind::General, Kind::Texts, Kind::Shared] {
            let mut words = classes(minor);
            put_keys(&mut words, minor, kind);
            let values = if matches!(kind, Kind::Shared) { VALUES } else { 0 };
            put_values(&mut words, VALUES, minor);
            words.put(DICTIONARY, &[1, DICTIONARY_CLASS, 2, 0, KEYS, values]);
            let objects = objects(&words, minor);
            let found = ["a", "b", "c", "d"].map(|name| objects.dictionary_value(DICTIONARY, name));
            assert_eq!(found, [Some(FIRST), None, Some(SECOND), None], "3.{minor}, {kind:?}");
            let entries = objects.entries(&objects.dictionary(DICTIONARY).unwrap(), 10).unwrap();
            assert_eq!(entries, [(NAMES[0], FIRST), (NAMES[2], SECOND)], "3.{minor}, {kind:?}");
            assert_eq!(objects.dictionary_value(NAMES[0], "a"), None);
        }
    }
}

#[test]
fn an_attribute_is_found_in_a_dictionary_and_in_values() {
    const BASIC_BYTES: u64 = 32;
    for minor in MINORS {
        for has_dictionary in [false, true] {
            if minor == 10 && !has_dictionary {
                continue;
            }
            let mut words = classes(minor);
            let flags = match minor {
                10 => 0,
                11 | 12 => ClassFlag::ManagedDictionary as u64,
                _ => ClassFlag::ManagedDictionary as u64 | ClassFlag::InlineValues as u64,
            };
            words.put_class(OTHER_CLASS, flags);
            words.put(OTHER_CLASS + 32, &[BASIC_BYTES]);
            words.put(OTHER_CLASS + if minor < 12 { 872 } else { 880 }, &[KEYS]);
            put_keys(&mut words, minor, if has_dictionary { Kind::Texts } else { Kind::Shared });
            words.put(DICTIONARY, &[1, DICTIONARY_CLASS, 2, 0, KEYS, 0]);
            put_values(&mut words, VALUES, minor);
            words.put(OBJECT, &[1, OTHER_CLASS, 0, 0, 0]);
            match (minor, has_dictionary) {
                (10, _) => {
                    words.put(OTHER_CLASS + 288, &[16]);
                    words.put(OBJECT + 16, &[DICTIONARY]);
                }
                (11, true) => words.put(OBJECT - 32, &[0, DICTIONARY]),
                (11, false) => words.put(OBJECT - 32, &[VALUES, 0]),
                (12, false) => words.put(OBJECT - 24, &[VALUES - 1]),
                (_, true) => words.put(OBJECT - 24, &[DICTIONARY]),
                (_, false) => {
                    words.put(OBJECT - 24, &[0]);
                    put_values(&mut words, OBJECT + BASIC_BYTES, minor);
                }
            }
            let objects = objects(&words, minor);
            let found = ["a", "b", "c"].map(|name| objects.instance_attribute(OBJECT, name));
            let expected = [Some(FIRST), None, Some(SECOND)];
            assert_eq!(found, expected, "3.{minor}, {has_dictionary}");
        }
    }
}

#[test]
fn an_object_is_an_instance_of_its_class_and_of_its_bases() {
    const BASES: Address = 0xd000;
    for minor in MINORS {
        let mut words = classes(minor);
        words.put_bytes(DATA, b"_asyncio.Task\0");
        words.put_bytes(DATA + 0x100, b"Named\0\0\0\0");
        words.name_class(OTHER_CLASS, DATA + 0x100, BASES);
        words.name_class(LIST_CLASS, DATA, BASES);
        words.put(BASES, &[1, TYPE, 2]);
        words.put(BASES + if minor < 14 { 24 } else { 32 }, &[OTHER_CLASS, LIST_CLASS]);
        words.put(OBJECT, &[1, OTHER_CLASS]);
        let objects = objects(&words, minor);
        let found =
            ["Named", "_asyncio.Task", "Task"].map(|name| objects.is_instance(OBJECT, name));
        assert_eq!(found, [true, true, false], "3.{minor}");
        assert_eq!(objects.type_name(OBJECT).as_deref(), Some("Named"));
    }
}

#[test]
fn a_list_is_cut_at_a_limit() {
    let mut words = classes(12);
    words.put(OBJECT, &[1, LIST_CLASS, 2, DATA]);
    words.put(DATA, &[FIRST, SECOND]);
    let objects = objects(&words, 12);
    assert_eq!(objects.list_length(OBJECT), Some(2));
    assert_eq!(objects.list_items(OBJECT, 1).unwrap(), [FIRST]);
    assert_eq!(objects.list_items(OBJECT, 9).unwrap(), [FIRST, SECOND]);
    assert_eq!((objects.list_length(NAMES[0]), objects.list_items(NAMES[0], 9)), (None, None));
}

#[test]
fn a_set_is_read_without_what_was_removed_and_up_to_a_size() {
    let mut words = classes(12);
    words.put(OBJECT, &[1, OTHER_CLASS, 3, 2, 3, DATA]);
    words.put(DATA, &[FIRST, 5, 0, 0, TYPE, u64::MAX, SECOND, 6]);
    assert_eq!(objects(&words, 12).set_elements(OBJECT, 9).unwrap(), [FIRST, SECOND]);
    assert_eq!(objects(&words, 12).set_elements(OBJECT, 1).unwrap(), [FIRST]);
    for mask in [1 << 20, u64::MAX] {
        words.put(OBJECT + 32, &[mask]);
        assert_eq!(objects(&words, 12).set_elements(OBJECT, 9), None);
    }
}

/// A memory in which each address can be read and each word is noise: NULL, a small number or a
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
        let layout = ObjectLayout::for_version(3, minor).unwrap();
        for seed in 0..200 {
            let noise = Noise(seed);
            let objects = Objects::new(&noise, layout, 2_000);
            objects.text_of(OBJECT);
            objects.unsigned_integer(OBJECT);
            objects.set_elements(OBJECT, 10);
            objects.list_items(OBJECT, 10);
            objects.dictionary_value(OBJECT, "data");
            objects.instance_attribute(OBJECT, "data");
            objects.is_instance(OBJECT, "code");
            objects.frame_at(OBJECT, 10).ok();
            objects.await_chain(OBJECT);
            objects.thread_names(OBJECT);
            objects.thread_states(Some(OBJECT), OBJECT, &mut Vec::new()).ok();
            objects.read_frames(OBJECT, &mut Vec::new()).ok();
            objects.interpreters(OBJECT);
        }
    }
}
