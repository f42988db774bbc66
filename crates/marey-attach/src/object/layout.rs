//! Offsets of fields in CPython's structures, by version.
//!
//! Each is in bytes from the beginning of its structure, and the same on x86-64 and aarch64. The
//! sources are the headers of CPython (such as `unicodeobject.h`, `pycore_dict.h`, `object.h`). The
//! structures of `_asyncio` have no header, so their offsets come from objects of each version.

use super::{Address, ReadMemory};

/// Offsets of fields in the structures of one version of CPython. Each doc names the structure,
/// then the field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectLayout {
    /// Minor version: 10 to 14.
    pub(crate) minor: u64,
    /// Runtime: the first interpreter. Since 3.13 the runtime itself states the offset.
    pub(crate) first_interpreter: u64,
    /// Interpreter: the next one.
    pub(crate) next_interpreter: u64,
    /// Runtime (interpreter since 3.12): the thread state that last held the GIL.
    pub(crate) gil_holder: u64,
    /// Runtime (interpreter since 3.12): whether a thread holds the GIL.
    pub(crate) is_gil_locked: u64,
    /// Interpreter: the first of its thread states.
    pub(crate) first_thread: u64,
    /// Interpreter: `sys.modules`.
    pub(crate) modules: u64,
    /// Thread state: the address of the current frame, or of the structure that has it.
    pub(crate) thread_frame: u64,
    /// Structure that `thread_frame` points to: the current frame. `None` where it points to the
    /// frame itself.
    pub(crate) c_frame: Option<u64>,
    /// Thread state: the id that Python has for the thread.
    pub(crate) thread_id: u64,
    /// Thread state: the id that the operating system has for the thread, since 3.11.
    pub(crate) native_thread_id: Option<u64>,
    /// Compact text of ASCII: its characters.
    pub(super) ascii_text: u64,
    /// Other compact text: its characters. Text that is not compact: their address.
    pub(super) text: u64,
    /// Tuple: its first item.
    pub(super) tuple_items: u64,
    pub(super) integer_format: IntegerFormat,
    pub(super) dict_keys_format: DictKeysFormat,
    pub(super) attribute_storage: AttributeStorage,
    /// Values of a dictionary with shared keys: the first value.
    pub(super) shared_values: u64,
    /// Class of Python code: its qualified name.
    pub(super) qualified_name: u64,
    /// Class of Python code: the keys that its instances share.
    pub(super) cached_keys: u64,
    /// Generator and coroutine: the frame. Before 3.11: the address of the frame.
    pub(crate) generator_frame: u64,
    /// Generator and coroutine: the state of the frame, since 3.11.
    pub(crate) generator_state: u64,
    /// Frame: the frame that has called it.
    pub(crate) previous_frame: u64,
    /// Frame: the code.
    pub(crate) frame_code: u64,
    /// Frame: the current instruction.
    pub(crate) frame_instruction: u64,
    /// Frame: the top of its value stack, as a count from `frame_locals` or as an address.
    pub(crate) frame_stack_end: u64,
    /// Frame: the first local variable.
    pub(crate) frame_locals: u64,
    /// Frame: the kind of its owner, since 3.11.
    pub(crate) frame_owner: u64,
    /// Code: path of the source file.
    pub(crate) code_file: u64,
    /// Code: name of the function, with its class since 3.11.
    pub(crate) code_name: u64,
    /// Code: the table of lines.
    pub(crate) code_line_table: u64,
    /// Code: the first line.
    pub(crate) code_first_line: u64,
    /// Code: the instructions. Before 3.11: the address of the object with the instructions.
    pub(crate) code_instructions: u64,
    /// Future and task: the state.
    pub(crate) future_state: u64,
    /// Task: the future that it waits for.
    pub(crate) task_waiter: u64,
    /// Task: the coroutine.
    pub(crate) task_coroutine: u64,
    /// Task: the name.
    pub(crate) task_name: u64,
}

/// The format of the word in which an integer stores its sign and the number of its digits.
#[derive(Clone, Copy, Debug)]
pub(super) enum IntegerFormat {
    /// The number of digits, negative for a negative integer.
    SignedSize,
    /// The sign in the lowest two bits (2 is negative), and the number of digits from bit 3 on.
    Tag,
}

/// The format in which the keys of a dictionary state their size.
#[derive(Clone, Copy, Debug)]
pub(super) enum DictKeysFormat {
    /// As a word. Each entry has a hash.
    Size,
    /// As bytes with logarithms. Entries of a table whose keys are all texts have no hash.
    Logarithms,
}

/// Where instances of classes made by Python code have their attributes.
#[derive(Clone, Copy, Debug)]
pub(super) enum AttributeStorage {
    /// In a dictionary, whose address is at the offset that the class states.
    Dictionary,
    /// Before the object: the address of values with the keys of the class, and the address of a
    /// dictionary.
    ValuesOrDictionary,
    /// Before the object: the address of values or of a dictionary. Its lowest bit is set for
    /// values.
    Tagged,
    /// After the object: values with the keys of the class, unless there is a dictionary.
    Inline,
}

const CPYTHON_3_10: ObjectLayout = ObjectLayout {
    minor: 10,
    first_interpreter: 32,
    next_interpreter: 0,
    gil_holder: 360,
    is_gil_locked: 368,
    first_thread: 8,
    modules: 856,
    thread_frame: 24,
    c_frame: None,
    thread_id: 176,
    native_thread_id: None,
    ascii_text: 48,
    text: 72,
    tuple_items: 24,
    integer_format: IntegerFormat::SignedSize,
    dict_keys_format: DictKeysFormat::Size,
    attribute_storage: AttributeStorage::Dictionary,
    shared_values: 0,
    qualified_name: 864,
    cached_keys: 872,
    generator_frame: 16,
    generator_state: 0,
    previous_frame: 24,
    frame_code: 32,
    frame_instruction: 96,
    frame_stack_end: 80,
    frame_locals: 64,
    frame_owner: 0,
    code_file: 104,
    code_name: 112,
    code_line_table: 120,
    code_first_line: 40,
    code_instructions: 48,
    future_state: 88,
    task_waiter: 152,
    task_coroutine: 160,
    task_name: 168,
};

const CPYTHON_3_11: ObjectLayout = ObjectLayout {
    minor: 11,
    first_interpreter: 40,
    gil_holder: 368,
    is_gil_locked: 376,
    first_thread: 16,
    modules: 888,
    thread_frame: 56,
    c_frame: Some(8),
    thread_id: 152,
    native_thread_id: Some(160),
    dict_keys_format: DictKeysFormat::Logarithms,
    attribute_storage: AttributeStorage::ValuesOrDictionary,
    generator_frame: 80,
    generator_state: 75,
    previous_frame: 48,
    frame_instruction: 56,
    frame_stack_end: 64,
    frame_locals: 72,
    frame_owner: 69,
    code_file: 112,
    code_name: 128,
    code_line_table: 136,
    code_first_line: 72,
    code_instructions: 184,
    task_waiter: 128,
    task_coroutine: 136,
    task_name: 144,
    ..CPYTHON_3_10
};

const CPYTHON_3_12: ObjectLayout = ObjectLayout {
    minor: 12,
    gil_holder: 1048,
    is_gil_locked: 1056,
    first_thread: 72,
    modules: 944,
    c_frame: Some(0),
    thread_id: 136,
    native_thread_id: Some(144),
    ascii_text: 40,
    text: 56,
    integer_format: IntegerFormat::Tag,
    attribute_storage: AttributeStorage::Tagged,
    qualified_name: 872,
    cached_keys: 880,
    generator_frame: 72,
    generator_state: 67,
    previous_frame: 8,
    frame_code: 0,
    frame_owner: 70,
    code_first_line: 68,
    code_instructions: 192,
    ..CPYTHON_3_11
};

const CPYTHON_3_13: ObjectLayout = ObjectLayout {
    minor: 13,
    first_interpreter: 632,
    next_interpreter: 7264,
    gil_holder: 7760,
    is_gil_locked: 7768,
    first_thread: 7344,
    modules: 7656,
    thread_frame: 72,
    c_frame: None,
    thread_id: 152,
    native_thread_id: Some(160),
    attribute_storage: AttributeStorage::Inline,
    shared_values: 8,
    code_instructions: 200,
    future_state: 96,
    task_waiter: 112,
    task_coroutine: 120,
    task_name: 128,
    ..CPYTHON_3_12
};

const CPYTHON_3_14: ObjectLayout = ObjectLayout {
    minor: 14,
    first_interpreter: 808,
    next_interpreter: 7272,
    gil_holder: 7792,
    is_gil_locked: 7800,
    modules: 7688,
    tuple_items: 32,
    frame_locals: 80,
    frame_owner: 74,
    code_instructions: 208,
    future_state: 104,
    task_waiter: 120,
    task_coroutine: 128,
    task_name: 136,
    ..CPYTHON_3_13
};

impl ObjectLayout {
    /// Returns the layout of a version of CPython, `None` for versions that are not supported.
    pub(crate) const fn for_version(major: u64, minor: u64) -> Option<&'static Self> {
        match (major, minor) {
            (3, 10) => Some(&CPYTHON_3_10),
            (3, 11) => Some(&CPYTHON_3_11),
            (3, 12) => Some(&CPYTHON_3_12),
            (3, 13) => Some(&CPYTHON_3_13),
            (3, 14) => Some(&CPYTHON_3_14),
            _ => None,
        }
    }

    /// Returns the layout of CPython 3.`minor`, or the reason why it cannot be read. `runtime` is
    /// the address of `_PyRuntime`.
    pub(crate) fn of_runtime(
        memory: &dyn ReadMemory,
        runtime: Address,
        minor: u64,
    ) -> Result<Self, String> {
        let layout = Self::for_version(3, minor)
            .ok_or_else(|| format!("CPython 3.{minor} cannot be read yet"))?;
        if minor < 13 {
            return Ok(*layout);
        }
        let table = OffsetTable::read(memory, runtime)
            .ok_or("its table of offsets (`_Py_DebugOffsets`) cannot be read")?;
        if table.is_free_threaded() {
            return Err("free-threaded builds cannot be read yet".to_owned());
        }
        Ok(table.apply(layout))
    }
}

/// The table of offsets that CPython has at the beginning of its runtime since 3.13
/// (`_Py_DebugOffsets`).
pub(crate) struct OffsetTable([u64; Self::WORDS]);

impl OffsetTable {
    const WORDS: usize = 20;
    const COOKIE: u64 = u64::from_ne_bytes(*b"xdebugpy");

    /// Reads the table. Returns `None` if there is none, as before 3.13.
    pub(crate) fn read(memory: &dyn ReadMemory, runtime: Address) -> Option<Self> {
        let mut words = [[0; 8]; Self::WORDS];
        memory.read_into(runtime, words.as_flattened_mut())?;
        let words = words.map(u64::from_ne_bytes);
        (words[0] == Self::COOKIE).then_some(Self(words))
    }

    /// Whether the build is a free-threaded one.
    pub(crate) fn is_free_threaded(&self) -> bool {
        self.0[2] != 0
    }

    /// Returns a layout with the offsets in runtime and interpreter that the table states.
    fn apply(&self, layout: &ObjectLayout) -> ObjectLayout {
        // The table of 3.14 has another field before the modules.
        let shift = usize::from(layout.minor >= 14);
        ObjectLayout {
            first_interpreter: self.0[5],
            next_interpreter: self.0[8],
            first_thread: self.0[9],
            modules: self.0[11 + shift],
            is_gil_locked: self.0[17 + shift],
            gil_holder: self.0[18 + shift],
            ..*layout
        }
    }
}
