//! Reads objects of CPython (numbers, texts, containers, frames, coroutines) from the memory of a
//! process that may run meanwhile, or from a core file.
//!
//! **Constraints.** Any word may be torn, stale or hostile. So no length is trusted, no computation
//! overflows, and the number of reads is bounded. A method that returns [`Result`] fails for an
//! object that cannot be read. A method that returns [`Option`] is for callers that skip such an
//! object: its `None` means that the object does not exist or cannot be read.

mod class;
mod code;
mod coroutine;
mod dictionary;
mod instance;
mod layout;
mod scalars;
mod sequence;
#[cfg(test)]
mod tests;
mod thread;
#[cfg(test)]
pub(crate) mod words;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

pub(crate) use self::class::{Class, ClassFlag};
use self::code::Code;
pub(crate) use self::coroutine::Progress;
pub(crate) use self::dictionary::DictTable;
pub(crate) use self::layout::{ObjectLayout, OffsetTable};
pub(crate) use self::scalars::PyInteger;
pub(crate) use self::thread::ThreadState;

/// The limit of reads for the stacks and tasks of a process, which take some seconds. A torn list
/// may be circular, and a walk of it would not end.
pub(crate) const MAX_READS: usize = 10_000_000;
/// The number of bytes that count as one more read, because they cost as much as a system call.
const BYTES_PER_READ: usize = 256;
/// The longest single read.
const MAX_BLOCK_BYTES: usize = 1 << 24;

/// Offset of the length in an object of variable size.
const LENGTH: u64 = 16;
/// Offset of the first field after the head of an object.
const FIRST_FIELD: u64 = 16;

/// Address of an object.
pub(crate) type Address = u64;

/// The memory of a process, or the image of one in a core file.
pub(crate) trait ReadMemory {
    /// Fills a buffer from an address. Returns `None` if not all of it can be read.
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()>;
}

/// Why an object cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The memory holds no such object, or no longer.
    Changed,
    /// The number of reads or of items has reached its limit.
    TooLarge,
}

pub(crate) type Result<T> = std::result::Result<T, ReadError>;

/// Reads the objects of one process.
pub(crate) struct Objects<'a> {
    memory: &'a dyn ReadMemory,
    pub(crate) layout: &'a ObjectLayout,
    reads_left: Cell<usize>,
    classes: RefCell<HashMap<Address, Class>>,
    codes: RefCell<HashMap<Address, Option<Rc<Code>>>>,
}

impl<'a> Objects<'a> {
    /// Returns the objects of a memory. After `max_reads` reads each further one fails.
    pub(crate) fn new(
        memory: &'a dyn ReadMemory,
        layout: &'a ObjectLayout,
        max_reads: usize,
    ) -> Self {
        Self {
            memory,
            layout,
            reads_left: Cell::new(max_reads),
            classes: RefCell::default(),
            codes: RefCell::default(),
        }
    }

    /// Fills a buffer from an address and an offset.
    fn read_into(&self, address: Address, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let cost = 1 + buffer.len() / BYTES_PER_READ;
        let left = self.reads_left.get().checked_sub(cost).ok_or(ReadError::TooLarge)?;
        self.reads_left.set(left);
        let address = address.checked_add(offset).ok_or(ReadError::Changed)?;
        self.memory.read_into(address, buffer).ok_or(ReadError::Changed)
    }

    /// Reads `N` bytes.
    pub(crate) fn bytes<const N: usize>(&self, address: Address, offset: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_into(address, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `bytes` bytes. Fails if they are more than [`MAX_BLOCK_BYTES`].
    fn block(&self, address: Address, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let length = usize::try_from(bytes).ok().filter(|length| *length <= MAX_BLOCK_BYTES);
        let mut block = vec![0; length.ok_or(ReadError::Changed)?];
        self.read_into(address, offset, &mut block)?;
        Ok(block)
    }

    /// Reads a field that is a number or a reference.
    pub(crate) fn word(&self, address: Address, offset: u64) -> Result<u64> {
        self.bytes(address, offset).map(u64::from_ne_bytes)
    }

    /// Returns the length of an object. Fails if it is negative.
    pub(crate) fn length(&self, object: Address) -> Result<u64> {
        let length = self.word(object, LENGTH)?;
        if length > i64::MAX.cast_unsigned() { Err(ReadError::Changed) } else { Ok(length) }
    }

    /// Reads a field that refers to another object. `None` for NULL, or if it cannot be read.
    pub(crate) fn reference(&self, object: Address, offset: u64) -> Option<Address> {
        self.word(object, offset).ok().filter(|&address| address != 0)
    }

    /// Reads a field that is an `int` of C.
    pub(crate) fn c_int(&self, object: Address, offset: u64) -> Option<i32> {
        self.bytes(object, offset).ok().map(i32::from_ne_bytes)
    }

    /// Returns the object that a weak reference refers to, if it still exists.
    pub(crate) fn referent(&self, weak_reference: Address) -> Option<Address> {
        self.reference(weak_reference, FIRST_FIELD)
    }
}

/// Returns the word at an offset of a block, 0 after its end.
fn word_in(block: &[u8], offset: usize) -> u64 {
    let bytes = block.get(offset..).and_then(|tail| tail.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Returns the words of a block.
fn words_of(block: &[u8]) -> impl Iterator<Item = u64> {
    block.chunks_exact(8).map(|bytes| word_in(bytes, 0))
}
