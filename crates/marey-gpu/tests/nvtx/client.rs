//! A fake library with NVTX: function tables that marey fills, and calls of them.

#![expect(unsafe_code, reason = "imitates a C library")]

use marey_gpu::nvtx;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;
use std::ptr::{null, null_mut};

const SLOTS: usize = 16;

/// Functions of a library, by module and slot.
pub(crate) struct Library {
    core: [*const c_void; SLOTS],
    core2: [*const c_void; SLOTS],
}

type SlotPointers = [*mut *const c_void; SLOTS];

thread_local! {
    /// Slots of the library that is being initialised.
    static INITIALIZED_SLOTS: RefCell<[SlotPointers; 2]> = const { RefCell::new([[null_mut(); SLOTS]; 2]) };
}

#[repr(C)]
struct ExportTable {
    bytes: usize,
    module_slots: unsafe extern "C" fn(c_int, *mut *mut *mut *const c_void, *mut c_uint) -> c_int,
}

static EXPORTS: ExportTable = ExportTable { bytes: size_of::<ExportTable>(), module_slots };

unsafe extern "C" fn get_export_table(table: u32) -> *const c_void {
    if table == 1 { (&raw const EXPORTS).cast() } else { null() }
}

unsafe extern "C" fn module_slots(
    module: c_int,
    first: *mut *mut *mut *const c_void,
    count: *mut c_uint,
) -> c_int {
    let index = match module {
        1 => 0,
        5 => 1,
        _ => return 0,
    };
    INITIALIZED_SLOTS.with_borrow_mut(|slots| {
        // SAFETY: the caller passes two writable variables; the thread's pointers outlive its call.
        unsafe { (*first, *count) = (slots[index].as_mut_ptr(), SLOTS as u32) };
    });
    1
}

/// `nvtxEventAttributes_t`.
#[repr(C)]
pub(crate) struct Attributes {
    pub(crate) version: u16,
    pub(crate) bytes: u16,
    pub(crate) category: u32,
    pub(crate) color_type: i32,
    pub(crate) color: u32,
    pub(crate) payload_type: i32,
    pub(crate) reserved: i32,
    pub(crate) payload: u64,
    pub(crate) message_type: i32,
    pub(crate) message: *const c_void,
}

pub(crate) fn attributes(message_type: i32, message: *const c_void) -> Attributes {
    Attributes {
        version: 3,
        bytes: 48,
        category: 7,
        color_type: 1,
        color: 0xff00,
        payload_type: 0,
        reserved: 0,
        payload: 0,
        message_type,
        message,
    }
}

pub(crate) fn with_message(text: &CStr) -> Attributes {
    attributes(1, text.as_ptr().cast())
}

pub(crate) fn with_payload(text: &CStr, payload_type: i32, payload: u64) -> Attributes {
    Attributes { payload_type, payload, ..with_message(text) }
}

pub(crate) type Handle = *mut c_void;

/// Returns the function of a slot; `F` is its type.
fn function<F>(slot: *const c_void) -> F {
    assert_eq!(size_of::<F>(), size_of_val(&slot));
    // SAFETY: a function pointer; the callers pass the type that NVTX declares for the slot.
    unsafe { transmute_copy(&slot) }
}

impl Library {
    /// Creates a library and initialises it with marey.
    pub(crate) fn new() -> Self {
        let mut library = Self { core: [null(); SLOTS], core2: [null(); SLOTS] };
        INITIALIZED_SLOTS.with_borrow_mut(|slots| {
            slots[0] = library.core.each_mut().map(std::ptr::from_mut);
            slots[1] = library.core2.each_mut().map(std::ptr::from_mut);
        });
        // SAFETY: called as NVTX does.
        assert_eq!(unsafe { nvtx::initialize(Some(get_export_table)) }, 1);
        library
    }

    // Slots of nvtxRangePushA, nvtxRangePushW and nvtxRangePop.

    pub(crate) fn push(&self, text: &CStr) -> c_int {
        function::<extern "C" fn(*const c_char) -> c_int>(self.core[9])(text.as_ptr())
    }

    pub(crate) fn push_wide(&self, text: &[u32]) -> c_int {
        assert_eq!(text.last(), Some(&0));
        function::<extern "C" fn(*const u32) -> c_int>(self.core[10])(text.as_ptr())
    }

    pub(crate) fn pop(&self) -> c_int {
        function::<extern "C" fn() -> c_int>(self.core[11])()
    }

    // Slots of the functions with a domain argument.

    fn call<T>(&self, slot: usize, domain: Handle, attributes: &Attributes) -> T {
        function::<extern "C" fn(Handle, *const Attributes) -> T>(self.core2[slot])(
            domain, attributes,
        )
    }

    pub(crate) fn mark(&self, domain: Handle, attributes: &Attributes) {
        self.call::<()>(1, domain, attributes);
    }

    pub(crate) fn start(&self, domain: Handle, attributes: &Attributes) -> u64 {
        self.call(2, domain, attributes)
    }

    pub(crate) fn end(&self, range: u64) {
        function::<extern "C" fn(Handle, u64)>(self.core2[3])(null_mut(), range);
    }

    pub(crate) fn push_in(&self, domain: Handle, attributes: &Attributes) -> c_int {
        self.call(4, domain, attributes)
    }

    pub(crate) fn pop_in(&self, domain: Handle) -> c_int {
        function::<extern "C" fn(Handle) -> c_int>(self.core2[5])(domain)
    }

    pub(crate) fn register(&self, domain: Handle, text: &CStr) -> Attributes {
        let handle = function::<extern "C" fn(Handle, *const c_char) -> Handle>(self.core2[10])(
            domain,
            text.as_ptr(),
        );
        attributes(3, handle)
    }

    pub(crate) fn domain(&self, name: &CStr) -> Handle {
        function::<extern "C" fn(*const c_char) -> Handle>(self.core2[12])(name.as_ptr())
    }
}

// SAFETY: function pointers, which any thread may call.
unsafe impl Sync for Library {}

/// Returns marey's result for a library without an export table.
pub(crate) fn initialize_without_exports() -> [c_int; 2] {
    unsafe extern "C" fn no_table(_: u32) -> *const c_void {
        null()
    }
    // SAFETY: there is nothing to be filled.
    unsafe { [nvtx::initialize(None), nvtx::initialize(Some(no_table))] }
}
