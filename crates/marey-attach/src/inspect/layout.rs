//! Offsets of CPython's objects by version.

/// Offsets in bytes that differ between versions, from CPython's headers (`unicodeobject.h`,
/// `pycore_dict.h`, `object.h`). They are the same for x86-64 and aarch64.
#[derive(Debug)]
pub(super) struct Layout {
    /// In a compact text of ASCII: its characters.
    pub(super) ascii_text: u64,
    /// In another compact text its characters, in other texts their address.
    pub(super) text: u64,
    /// In a tuple: its first item.
    pub(super) tuple_items: u64,
    pub(super) integer: Integer,
    pub(super) keys: Keys,
    pub(super) instance: Instance,
    /// In the values of a dictionary with shared keys: the first value.
    pub(super) shared_values: u64,
    /// In a class of Python code: the address of its qualified name.
    pub(super) qualified_name: u64,
    /// In a class of Python code: the address of the keys that its instances share.
    pub(super) cached_keys: u64,
}

/// The word of an integer that has its sign and the number of its digits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Integer {
    /// The number of digits, negative for a negative integer.
    SignedSize,
    /// The sign in the lowest two bits (2 is negative), and the number of digits from bit 3 on.
    Tag,
}

/// The head of the keys of a dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys {
    /// The size is a word, and each entry has a hash.
    Size,
    /// Logarithms of sizes are bytes, and entries of tables of texts have no hash.
    Logarithms,
}

/// Where instances of classes of Python code have their attributes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instance {
    /// In a dictionary, whose address is at the offset that the class states.
    Dictionary,
    /// Before the object: the address of values with the keys of the class, and that of a dictionary.
    ValuesOrDictionary,
    /// Before the object: the address of either, whose lowest bit is set for values.
    Tagged,
    /// Behind the object: values with the keys of the class, unless there is a dictionary.
    Inline,
}

const CPYTHON_3_10: Layout = Layout {
    ascii_text: 48,
    text: 72,
    tuple_items: 24,
    integer: Integer::SignedSize,
    keys: Keys::Size,
    instance: Instance::Dictionary,
    shared_values: 0,
    qualified_name: 864,
    cached_keys: 872,
};

const CPYTHON_3_11: Layout =
    Layout { keys: Keys::Logarithms, instance: Instance::ValuesOrDictionary, ..CPYTHON_3_10 };

const CPYTHON_3_12: Layout = Layout {
    ascii_text: 40,
    text: 56,
    integer: Integer::Tag,
    instance: Instance::Tagged,
    qualified_name: 872,
    cached_keys: 880,
    ..CPYTHON_3_11
};

const CPYTHON_3_13: Layout =
    Layout { instance: Instance::Inline, shared_values: 8, ..CPYTHON_3_12 };

const CPYTHON_3_14: Layout = Layout { tuple_items: 32, ..CPYTHON_3_13 };

impl Layout {
    /// Returns the layout of a version of CPython; `None` for versions that are not supported.
    pub(super) const fn for_version(major: u64, minor: u64) -> Option<&'static Self> {
        match (major, minor) {
            (3, 10) => Some(&CPYTHON_3_10),
            (3, 11) => Some(&CPYTHON_3_11),
            (3, 12) => Some(&CPYTHON_3_12),
            (3, 13) => Some(&CPYTHON_3_13),
            (3, 14) => Some(&CPYTHON_3_14),
            _ => None,
        }
    }
}
