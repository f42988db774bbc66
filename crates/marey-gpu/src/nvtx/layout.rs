//! The data structures of NVTX 3 on 64-bit Linux, and the access to its function slots.

use std::ffi::{c_int, c_uint, c_void};

/// Returns one of NVTX's export tables by its number.
pub type GetExportTable = unsafe extern "C" fn(table: u32) -> *const c_void;

/// Number of the export table with the function slots.
pub(super) const CALLBACK_TABLE: u32 = 1;

/// Module of functions of the default domain.
pub(super) const CORE_MODULE: c_int = 1;
/// Module of functions with a domain argument.
pub(super) const CORE2_MODULE: c_int = 5;

/// A function of any type.
pub(super) type Function = *const c_void;

/// The export table [`CALLBACK_TABLE`].
#[repr(C)]
pub(super) struct ExportTable {
    bytes: usize,
    module_slots: Option<
        unsafe extern "C" fn(
            module: c_int,
            slots: *mut *mut *mut Function,
            count: *mut c_uint,
        ) -> c_int,
    >,
}

#[expect(unsafe_code, reason = "reads and writes NVTX's tables")]
impl ExportTable {
    /// Sets functions of a module by their slots, if the slots exist. Returns whether the module
    /// exists.
    ///
    /// # Safety
    /// The table is NVTX's, and each function has the type of its slot.
    pub(super) unsafe fn set_functions(
        &self,
        module: c_int,
        functions: &[(u32, Function)],
    ) -> bool {
        let module_slots = self.module_slots.filter(|_| self.bytes >= size_of_val(self));
        let Some(module_slots) = module_slots else { return false };
        let (mut first, mut count) = (std::ptr::null_mut(), 0);
        // SAFETY: the function is NVTX's, and writes to these two variables.
        let exists = unsafe { module_slots(module, &raw mut first, &raw mut count) } != 0;
        if !exists || first.is_null() {
            return false;
        }
        for &(slot, function) in functions.iter().filter(|(slot, _)| *slot < count) {
            // SAFETY: NVTX provides `count` pointers to variables of its own, or null, which no
            // other thread accesses before initialisation has finished.
            unsafe {
                let variable = *first.add(slot as usize);
                if !variable.is_null() {
                    *variable = function;
                }
            }
        }
        true
    }
}

/// The versions that have the layout of [`EventAttributes`]. Later ones may differ.
const ATTRIBUTES_VERSIONS: std::ops::RangeInclusive<u16> = 1..=3;

/// Attributes of a range or mark: `nvtxEventAttributes_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct EventAttributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_type: i32,
    color: u32,
    pub(super) payload_type: i32,
    reserved: i32,
    /// The payload, in the lowest bytes.
    pub(super) payload: u64,
    pub(super) message_type: i32,
    pub(super) message: *const c_void,
}

#[expect(unsafe_code, reason = "reads a structure of NVTX's caller")]
impl EventAttributes {
    /// # Safety
    /// `attributes` is null or points to attributes that a caller of NVTX has initialised.
    pub(super) unsafe fn read<'a>(attributes: *const Self) -> Option<&'a Self> {
        if attributes.is_null() {
            return None;
        }
        // SAFETY: not null; the first two fields are in every version.
        let (version, bytes) = unsafe { ((*attributes).version, (*attributes).bytes) };
        if !ATTRIBUTES_VERSIONS.contains(&version) || usize::from(bytes) < size_of::<Self>() {
            return None;
        }
        // SAFETY: the structure has at least this size, according to its `bytes` field.
        Some(unsafe { &*attributes })
    }
}

/// Types of [`EventAttributes::message`].
pub(super) mod message_type {
    pub(in super::super) const UTF8: i32 = 1;
    pub(in super::super) const WIDE: i32 = 2;
    pub(in super::super) const REGISTERED: i32 = 3;
}

/// Types of [`EventAttributes::payload`].
pub(super) mod payload_type {
    pub(in super::super) const U64: i32 = 1;
    pub(in super::super) const I64: i32 = 2;
    pub(in super::super) const F64: i32 = 3;
    pub(in super::super) const U32: i32 = 4;
    pub(in super::super) const I32: i32 = 5;
    pub(in super::super) const F32: i32 = 6;
}

/// The handle of a domain or registered string. It is the name id in the recorder as a pointer
/// value, and is never dereferenced. So a stale or invalid handle does no harm.
pub(super) type NameHandle = *mut c_void;

/// Returns the handle of a name id.
pub(super) fn handle_for_name(name_id: u32) -> NameHandle {
    std::ptr::without_provenance_mut(name_id as usize)
}

/// Returns the name id in a handle; 0, which is no name, for null.
pub(super) fn name_id(handle: *const c_void) -> u32 {
    u32::try_from(handle.addr()).unwrap_or(0)
}

/// A character of UTF-32, which is `wchar_t` on Linux.
pub(super) type WideCharacter = i32;
