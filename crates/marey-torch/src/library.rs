//! The functions of `libtorch_cpu.so` for observers of operators, `ATen/record_function.h` in its
//! source.

use crate::fork;
use std::ffi::{CStr, c_char, c_void};

/// `at::RecordFunction`. Only its address is used here.
#[repr(C)]
pub(crate) struct RecordFunction {
    _private: [u8; 0],
}

/// `at::RecordScope`: the kind of an observed function.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum ObservedKind {
    /// An operator that the dispatcher calls, or C++ code that calls itself one.
    Function = 0,
    /// A node of the autograd graph.
    BackwardFunction = 1,
    /// `torch.profiler.record_function`.
    UserScope = 7,
}

/// The number of kinds in `at::RecordScope`, the same from PyTorch 2.2 to 2.15.
const NUM_KINDS: usize = 10;

/// Called at the start. C++ returns a `std::unique_ptr<at::ObserverContext>`, which the Itanium ABI
/// returns in memory of the caller, so the function has an argument more: see
/// [`crate::callbacks`].
pub(crate) type StartCallback = unsafe extern "C" fn();

/// Called at the end, with the result of the start.
pub(crate) type EndCallback =
    unsafe extern "C" fn(function: *const RecordFunction, context: *mut c_void);

/// `at::RecordFunctionCallback`, 40 bytes from PyTorch 2.2 to 2.15. It is trivially copyable, so
/// C++ passes it as C passes a struct.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Registration {
    start: Option<StartCallback>,
    end: Option<EndCallback>,
    sampling_probability: f64,
    observed_kinds: [bool; NUM_KINDS],
    needs_inputs: bool,
    needs_outputs: bool,
    needs_ids: bool,
}

impl Registration {
    /// Returns the same registration, which also needs the arguments of a function and observes
    /// functions with this probability.
    pub(crate) fn with_inputs(self, sampling_probability: f64) -> Self {
        Self { sampling_probability, needs_inputs: true, ..self }
    }

    /// Returns a registration for every function of one kind, without its arguments.
    pub(crate) fn new(kind: ObservedKind, start: StartCallback, end: EndCallback) -> Self {
        let mut observed_kinds = [false; NUM_KINDS];
        observed_kinds[kind as usize] = true;
        Self {
            start: Some(start),
            end: Some(end),
            sampling_probability: 1.0,
            observed_kinds,
            needs_inputs: false,
            needs_outputs: false,
            needs_ids: false,
        }
    }

    /// Returns a registration by which every observed function gets a number. PyTorch calls no
    /// function of it, as both are null.
    pub(crate) fn numbering() -> Self {
        Self { observed_kinds: [true; NUM_KINDS], needs_ids: true, ..Self::unobserving() }
    }

    /// Returns a registration that observes nothing.
    pub(crate) fn unobserving() -> Self {
        Self {
            start: None,
            end: None,
            sampling_probability: 1.0,
            observed_kinds: [false; NUM_KINDS],
            needs_inputs: false,
            needs_outputs: false,
            needs_ids: false,
        }
    }
}

type AddCallback = unsafe extern "C" fn(registration: Registration) -> u64;

/// The functions of the loaded library. They are valid for the life of the process, because Python
/// never unloads PyTorch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    /// `at::addGlobalCallback`: returns a handle. Takes effect on each thread at the next operator.
    add_callback: AddCallback,
    /// `at::addThreadLocalCallback`: the same, for the calling thread.
    add_thread_callback: AddCallback,
    /// `at::removeCallback`. Functions in progress still call `end`.
    remove_callback: unsafe extern "C" fn(handle: u64),
    /// `at::RecordFunction::name`: a C string that is valid while the function is observed. For an
    /// operator of the dispatcher it belongs to the operator's schema.
    pub(crate) name: unsafe extern "C" fn(function: *const RecordFunction) -> *const c_char,
    /// `at::RecordFunction::currentThreadId`: PyTorch's number of the calling thread, from 1 on.
    pub(crate) current_thread: unsafe extern "C" fn() -> u64,
    /// `at::RecordFunction::overload_name`, from PyTorch 2.7 on: empty for the default overload.
    pub(crate) overload_name: Option<unsafe extern "C" fn(*const RecordFunction) -> *const c_char>,
}

/// The reason why operators cannot be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No `libtorch_cpu.so` is loaded.
    #[error("this process has not loaded libtorch_cpu.so")]
    NotLoaded,
    /// The library lacks a function.
    #[error("libtorch_cpu.so does not export {0}")]
    NoSymbol(&'static str),
}

impl Library {
    /// Registers callbacks for all threads and returns their handle.
    ///
    /// # Safety
    /// The registration has the layout of this version of PyTorch.
    pub(crate) unsafe fn add(&self, registration: Registration) -> u64 {
        fork::note_change();
        // SAFETY: guaranteed by the caller.
        unsafe { (self.add_callback)(registration) }
    }

    /// Removes the callbacks with a handle that [`Library::add`] has returned.
    pub(crate) fn remove(&self, handle: u64) {
        fork::note_change();
        // SAFETY: PyTorch ignores a handle that it does not know.
        unsafe { (self.remove_callback)(handle) }
    }

    /// Makes the calling thread read the list of callbacks, as its next operator would.
    pub(crate) fn read_callbacks(&self) {
        // SAFETY: marey adds callbacks only where the layout of a registration is known. PyTorch ignores a
        // handle that it does not know.
        unsafe {
            let handle = (self.add_thread_callback)(Registration::unobserving());
            (self.remove_callback)(handle);
        }
    }

    /// Finds the functions in the copy of the library that this process has loaded.
    pub(crate) fn find() -> Result<Self, Unavailable> {
        // SAFETY: a C string. With `RTLD_NOLOAD` no initialiser runs.
        let library = unsafe {
            libc::dlopen(c"libtorch_cpu.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD)
        };
        if library.is_null() {
            return Err(Unavailable::NotLoaded);
        }
        let optional = |symbol: &'static CStr| {
            // SAFETY: an open handle and a C string.
            let address = unsafe { libc::dlsym(library, symbol.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        let required = |symbol: &'static CStr| {
            optional(symbol).ok_or(Unavailable::NoSymbol(symbol.to_str().unwrap_or_default()))
        };
        let add = required(c"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE")?;
        let add_to_thread =
            required(c"_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE")?;
        let remove = required(c"_ZN2at14removeCallbackEm")?;
        let name = required(c"_ZNK2at14RecordFunction4nameEv")?;
        let current_thread = required(c"_ZN2at14RecordFunction15currentThreadIdEv")?;
        let overload_name = optional(c"_ZNK2at14RecordFunction13overload_nameEv");
        // SAFETY: the mangled names contain the argument types; the header declares the results. A
        // method takes its object as the first argument.
        unsafe {
            use std::mem::transmute;
            Ok(Self {
                add_callback: transmute::<*mut c_void, AddCallback>(add),
                add_thread_callback: transmute::<*mut c_void, AddCallback>(add_to_thread),
                remove_callback: transmute::<*mut c_void, unsafe extern "C" fn(u64)>(remove),
                name: transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const RecordFunction) -> *const c_char,
                >(name),
                current_thread: transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(
                    current_thread,
                ),
                overload_name: overload_name.map(|address| {
                    transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(*const RecordFunction) -> *const c_char,
                    >(address)
                }),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn a_registration_has_the_layout_of_record_function_h() {
        assert_eq!(size_of::<Registration>(), 40);
        assert_eq!(offset_of!(Registration, sampling_probability), 16);
        assert_eq!(offset_of!(Registration, observed_kinds), 24);
        assert_eq!(offset_of!(Registration, needs_inputs), 34);
        assert_eq!(offset_of!(Registration, needs_ids), 36);
    }

    #[test]
    fn a_process_without_pytorch_says_so() {
        assert_eq!(Library::find().err(), Some(Unavailable::NotLoaded));
    }
}
