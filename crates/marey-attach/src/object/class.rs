//! Reads classes: their flags, bases and names.

use super::{Address, Objects, ReadError, Result, word_in, words_of};

// These offsets are the same in all versions.
/// Offset of the address of its class in an object.
const OB_TYPE: u64 = 8;
// Offsets in a class.
const TP_NAME: usize = 24;
const TP_BASICSIZE: usize = 32;
const TP_ITEMSIZE: usize = 40;
const TP_FLAGS: usize = 168;
const TP_DICT: usize = 264;
const TP_DESCR_SET: usize = 280;
const TP_DICTOFFSET: usize = 288;
const TP_MRO: usize = 344;
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
    name_address: u64,
    pub(crate) basic_bytes: u64,
    pub(crate) item_bytes: u64,
    flags: u64,
    /// Address of the dictionary of its attributes. 0 in classes of C from CPython 3.12 on.
    pub(crate) dictionary: Address,
    /// Whether the class has `__set__`. An attribute of such a class (a data descriptor) takes
    /// precedence over an attribute of the instance.
    pub(crate) is_data_descriptor: bool,
    pub(crate) dictionary_offset: i64,
    mro_address: u64,
}

/// A flag of a class (`tp_flags`).
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum ClassFlag {
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
    pub(crate) const fn has_flag(&self, flag: ClassFlag) -> bool {
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
        self.class(self.word(object, OB_TYPE)?)
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
            name_address: word_at(TP_NAME),
            basic_bytes: word_at(TP_BASICSIZE),
            item_bytes: word_at(TP_ITEMSIZE),
            flags: word_at(TP_FLAGS),
            dictionary: word_at(TP_DICT),
            is_data_descriptor: word_at(TP_DESCR_SET) != 0,
            dictionary_offset: word_at(TP_DICTOFFSET).cast_signed(),
            mro_address: word_at(TP_MRO),
        };
        let metaclass_flags = self.word(word_at(OB_TYPE as usize), TP_FLAGS as u64)?;
        if !class.has_flag(ClassFlag::Ready) || metaclass_flags & ClassFlag::Class as u64 == 0 {
            return Err(ReadError::Changed);
        }
        self.classes.borrow_mut().insert(address, class);
        Ok(class)
    }

    /// Returns a class and its bases in the order of attribute look-up (`__mro__`).
    pub(crate) fn mro(&self, class: &Class) -> Result<Vec<Class>> {
        let count = self.length(class.mro_address)?;
        if count > MAX_BASES {
            return Err(ReadError::Changed);
        }
        let addresses = self.block(class.mro_address, self.layout.tuple_items, 8 * count)?;
        words_of(&addresses).map(|address| self.class(address)).collect()
    }

    /// Whether a class is the class of C that has this name in C.
    pub(crate) fn is_c_class(&self, class: &Class, name: &str) -> Result<bool> {
        Ok(!class.has_flag(ClassFlag::Heap) && self.c_name(class)? == name)
    }

    /// Returns the name of a class with the name of its module, such as `train.Model`.
    pub(crate) fn class_name(&self, class: &Class) -> Result<String> {
        if !class.has_flag(ClassFlag::Heap) {
            return self.c_name(class);
        }
        let qualified = self.word(class.address, self.layout.qualified_name)?;
        let qualified = self.text(qualified, MAX_NAME_CHARACTERS)?.content;
        let module = match self.find_text(&self.dictionary(class.dictionary)?, "__module__")? {
            Some(module) if self.class_of(module)?.has_flag(ClassFlag::Text) => {
                self.text(module, MAX_NAME_CHARACTERS)?.content
            }
            _ => return Ok(qualified),
        };
        Ok(if module == "builtins" { qualified } else { format!("{module}.{qualified}") })
    }

    /// Returns the name of a class from its C string (`tp_name`).
    pub(crate) fn c_name(&self, class: &Class) -> Result<String> {
        self.c_string(class.name_address)
    }

    fn c_string(&self, mut address: Address) -> Result<String> {
        let mut name = Vec::new();
        while name.len() < MAX_NAME_BYTES {
            // An aligned piece does not cross into the next page, which may be unreadable.
            let chunk = self.block(address, 0, 16 - address % 16)?;
            let characters = chunk.iter().take_while(|byte| **byte != 0);
            name.extend(characters);
            if chunk.contains(&0) {
                break;
            }
            address = address.checked_add(chunk.len() as u64).ok_or(ReadError::Changed)?;
        }
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// Returns the name in C of the class of an object. For a class of C it begins with the module.
    /// The class need not be ready: old versions never make those of awaitables ready.
    pub(crate) fn type_name(&self, object: Address) -> Option<String> {
        let class = self.reference(object, OB_TYPE)?;
        self.c_string(self.reference(class, TP_NAME as u64)?).ok()
    }

    /// Whether an object is an instance of the class with this name in C, or of a class derived
    /// from it.
    pub(crate) fn is_instance(&self, object: Address, name: &str) -> bool {
        let mro = self.class_of(object).and_then(|class| self.mro(&class));
        let has_name = |class: &Class| self.c_name(class).is_ok_and(|found| found == name);
        mro.is_ok_and(|mro| mro.iter().any(has_name))
    }
}
