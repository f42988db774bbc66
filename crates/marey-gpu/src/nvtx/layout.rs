//! What NVTX 3 hands over, as it lies in memory on 64-bit Linux.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Returns one of NVTX's export tables by its number.
pub type GetExportTable = unsafe extern "C" fn(table: u32) -> *const c_void;

/// Number of the export table that tells where the functions' slots are.
pub(super) const TABLES: u32 = 1;

/// Module of the functions of the default domain.
pub(super) const CORE: c_int = 1;
/// Module of the functions that take a domain.
pub(super) const CORE2: c_int = 5;

/// A function of any type.
pub(super) type Function = *const c_void;

/// The export table [`TABLES`].
#[repr(C)]
pub(super) struct ExportTable {
    bytes: usize,
    slots_of_module: Option<
        unsafe extern "C" fn(
            module: c_int,
            slots: *mut *mut *mut Function,
            count: *mut c_uint,
        ) -> c_int,
    >,
}

/// Where a library keeps the functions of a module: pointers to variables, by slot.
pub(super) struct Slots {
    first: *mut *mut Function,
    count: u32,
}

#[expect(unsafe_code, reason = "reads and writes a stranger's tables")]
impl Slots {
    /// # Safety
    /// The table is NVTX's.
    pub(super) unsafe fn of(export: &ExportTable, module: c_int) -> Option<Self> {
        let slots_of_module =
            export.slots_of_module.filter(|_| export.bytes >= size_of_val(export))?;
        let (mut first, mut count) = (std::ptr::null_mut(), 0);
        // SAFETY: the function is NVTX's, and writes to these two.
        let found = unsafe { slots_of_module(module, &raw mut first, &raw mut count) } != 0;
        (found && !first.is_null()).then_some(Self { first, count })
    }

    /// Has a slot hold a function, if there is such a slot.
    ///
    /// # Safety
    /// The function is of the slot's type.
    pub(super) unsafe fn fill(&self, slot: u32, function: Function) {
        if slot >= self.count {
            return;
        }
        // SAFETY: NVTX has as many pointers there as it says, to variables of its own or null, which
        // no other thread touches before initialisation is over.
        unsafe {
            let variable = *self.first.add(slot as usize);
            if !variable.is_null() {
                *variable = function;
            }
        }
    }
}

/// The version in the layout of [`Attributes`]; a later one may mean something else by the same bytes.
const ATTRIBUTES_VERSIONS: std::ops::RangeInclusive<u16> = 1..=3;

/// What a range or a mark is: `nvtxEventAttributes_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Attributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_type: i32,
    color: u32,
    pub(super) payload_type: i32,
    reserved: i32,
    /// The payload's bytes from the lowest on.
    pub(super) payload: u64,
    pub(super) message_type: i32,
    pub(super) message: *const c_void,
}

#[expect(unsafe_code, reason = "reads a stranger's structure")]
impl Attributes {
    /// # Safety
    /// `attributes` is null or points to the attributes that a caller of NVTX has filled in.
    pub(super) unsafe fn read<'a>(attributes: *const Self) -> Option<&'a Self> {
        if attributes.is_null() {
            return None;
        }
        // SAFETY: not null; the first two fields are in every version.
        let (version, bytes) = unsafe { ((*attributes).version, (*attributes).bytes) };
        if !ATTRIBUTES_VERSIONS.contains(&version) || usize::from(bytes) < size_of::<Self>() {
            return None;
        }
        // SAFETY: it is as long as this, by its own word.
        Some(unsafe { &*attributes })
    }
}

/// Kinds of [`Attributes::message`].
pub(super) mod message_type {
    pub(in super::super) const UTF8: i32 = 1;
    pub(in super::super) const WIDE: i32 = 2;
    pub(in super::super) const REGISTERED: i32 = 3;
}

/// Kinds of [`Attributes::payload`].
pub(super) mod payload_type {
    pub(in super::super) const U64: i32 = 1;
    pub(in super::super) const I64: i32 = 2;
    pub(in super::super) const F64: i32 = 3;
    pub(in super::super) const U32: i32 = 4;
    pub(in super::super) const I32: i32 = 5;
    pub(in super::super) const F32: i32 = 6;
}

/// A domain or a registered string: the number of its name, which the recorder gave. Nothing is behind
/// such a pointer, so one that is stale or made up does no harm.
pub(super) type Handle = *mut c_void;

/// The handle of a name's number.
pub(super) fn handle(number: u32) -> Handle {
    std::ptr::without_provenance_mut(number as usize)
}

/// The number in a handle; 0, which is no name, for null.
pub(super) fn number(handle: *const c_void) -> u32 {
    u32::try_from(handle.addr()).unwrap_or(0)
}

/// A text that ends with a zero.
pub(super) type Utf8 = *const c_char;
/// A text in UTF-32 that ends with a zero: `wchar_t` on Linux.
pub(super) type Wide = *const i32;
