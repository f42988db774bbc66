//! Reads classes: their flags, bases and names.

use super::{Address, Objects, ReadError, Result, word_in, words_of};

// These offsets are the same in all versions.
/// Offset of the address of its class in an object.
const CLASS: u64 = 8;
// Offsets in a class.
const NAME: usize = 24;
const BASIC_BYTES: usize = 32;
const ITEM_BYTES: usize = 40;
const FLAGS: usize = 168;
const DICTIONARY: usize = 264;
const DESCRIPTOR_SET: usize = 280;
const DICTIONARY_OFFSET: usize = 288;
const BASES: usize = 344;
const CLASS_BYTES: usize = 352;

/// The maximum number of base classes.
const MAX_BASES: u64 = 256;
/// The maximum length of the name of a class.
const MAX_NAME_BYTES: usize = 256;
const MAX_NAME_CHARACTERS: u64 = 256;

/// A class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Class {
    pub(crate) address: Address,
    name: u64,
    pub(crate) basic_bytes: u64,
    pub(crate) item_bytes: u64,
    flags: u64,
    /// Address of the dictionary of its attributes. 0 in classes of C from CPython 3.12 on.
    pub(crate) dictionary: Address,
    /// Whether the class has `__set__`. An attribute of such a class (a data descriptor) takes
    /// precedence over an attribute of the instance.
    pub(crate) has_set: bool,
    pub(crate) dictionary_offset: i64,
    bases: u64,
}

/// A flag of a class (`tp_flags`).
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Flag {
    InlineValues = 1 << 2,
    ManagedDictionary = 1 << 4,
    /// The class was made by Python code.
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
    pub(crate) const fn is(&self, flag: Flag) -> bool {
        self.flags & flag as u64 != 0
    }
}

impl Objects<'_> {
    /// Forgets the classes that were read before. Called when the process has run since.
    pub(crate) fn forget_classes(&self) {
        self.classes.borrow_mut().clear();
    }

    /// Returns the class of an object.
    pub(crate) fn class_of(&self, object: Address) -> Result<Class> {
        self.class(self.word(object, CLASS)?)
    }

    /// Reads a class. Fails if the object is none, which its own class shows.
    pub(crate) fn class(&self, address: Address) -> Result<Class> {
        if let Some(class) = self.classes.borrow().get(&address) {
            return Ok(*class);
        }
        let block: [u8; CLASS_BYTES] = self.bytes(address, 0)?;
        let word_at = |offset| word_in(&block, offset);
        let class = Class {
            address,
            name: word_at(NAME),
            basic_bytes: word_at(BASIC_BYTES),
            item_bytes: word_at(ITEM_BYTES),
            flags: word_at(FLAGS),
            dictionary: word_at(DICTIONARY),
            has_set: word_at(DESCRIPTOR_SET) != 0,
            dictionary_offset: word_at(DICTIONARY_OFFSET).cast_signed(),
            bases: word_at(BASES),
        };
        let metaclass_flags = self.word(word_at(CLASS as usize), FLAGS as u64)?;
        if !class.is(Flag::Ready) || metaclass_flags & Flag::Class as u64 == 0 {
            return Err(ReadError::Changed);
        }
        self.classes.borrow_mut().insert(address, class);
        Ok(class)
    }

    /// Returns a class and its bases in the order of attribute look-up (`__mro__`).
    pub(crate) fn bases(&self, class: &Class) -> Result<Vec<Class>> {
        let count = self.length(class.bases)?;
        if count > MAX_BASES {
            return Err(ReadError::Changed);
        }
        let addresses = self.block(class.bases, self.layout.tuple_items, 8 * count)?;
        words_of(&addresses).map(|address| self.class(address)).collect()
    }

    /// Whether a class is the class of C that has this name in C.
    pub(crate) fn is_class_of_c(&self, class: &Class, name: &str) -> Result<bool> {
        Ok(!class.is(Flag::Heap) && self.name_in_c(class)? == name)
    }

    /// Returns the name of a class with the name of its module, such as `train.Model`.
    pub(crate) fn class_name(&self, class: &Class) -> Result<String> {
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

    /// Returns the name of a class from its C string (`tp_name`).
    pub(crate) fn name_in_c(&self, class: &Class) -> Result<String> {
        self.string_of_c(class.name)
    }

    fn string_of_c(&self, mut address: Address) -> Result<String> {
        let mut name = Vec::new();
        while name.len() < MAX_NAME_BYTES {
            // An aligned piece does not cross into the next page, which may be unreadable.
            let piece = self.block(address, 0, 16 - address % 16)?;
            let characters = piece.iter().take_while(|byte| **byte != 0);
            name.extend(characters);
            if piece.contains(&0) {
                break;
            }
            address = address.checked_add(piece.len() as u64).ok_or(ReadError::Changed)?;
        }
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// Returns the name in C of the class of an object. For a class of C it begins with the module.
    /// The class need not be ready: old versions never make those of awaitables ready.
    pub(crate) fn type_name(&self, object: Address) -> Option<String> {
        let class = self.reference(object, CLASS)?;
        self.string_of_c(self.reference(class, NAME as u64)?).ok()
    }

    /// Whether an object is an instance of the class with this name in C, or of a class derived
    /// from it.
    pub(crate) fn is_instance(&self, object: Address, name: &str) -> bool {
        let bases = self.class_of(object).and_then(|class| self.bases(&class));
        let names = |class: &Class| self.name_in_c(class).is_ok_and(|found| found == name);
        bases.is_ok_and(|bases| bases.iter().any(names))
    }
}
