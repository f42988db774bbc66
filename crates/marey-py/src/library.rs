//! Loads `libmarey.so`, the recorder, and gives the rest of the module its C function table.
//!
//! A process must have one recorder, so a copy that the program has loaded already is used.

use marey_model::env;
use marey_record::table::{ABI_VERSION, SYMBOL, Sink, Table};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use std::ffi::{CStr, CString, OsStr, OsString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const FILE_NAME: &str = "libmarey.so";

static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the C function table. The module's import calls [`load`] before any call of this.
#[inline(always)]
pub(crate) fn table() -> &'static Table {
    // SAFETY: `load` stored a valid pointer of static lifetime before any other function of this
    // module could be called, and nothing stores another.
    unsafe { &*TABLE.load(Ordering::Relaxed) }
}

/// Whether any session is alive.
#[inline(always)]
pub(crate) fn is_live() -> bool {
    let live: &AtomicU64 = table().live;
    live.load(Ordering::Relaxed) != 0
}

/// Whether any session records.
pub(crate) fn is_active() -> bool {
    table().active.load(Ordering::Relaxed) != 0
}

/// Returns the interned id of a name.
pub(crate) fn intern(name: &str) -> u32 {
    // SAFETY: the text lives until the call returns.
    unsafe { (table().intern)(name.as_ptr().cast(), name.len()) }
}

/// Returns the interned id of a metric's name, or `NO_METRIC`.
pub(crate) fn intern_metric(name: &str) -> u32 {
    // SAFETY: the text lives until the call returns.
    unsafe { (table().intern_metric)(name.as_ptr().cast(), name.len()) }
}

/// Calls a function of the table that passes bytes to a sink. Returns its result, and what it has
/// passed in each call of the sink.
pub(crate) fn receive<T>(call: impl FnOnce(Option<Sink>, *mut c_void) -> T) -> (T, Vec<Vec<u8>>) {
    unsafe extern "C" fn push(received: *mut c_void, bytes: *const u8, len: usize) {
        // SAFETY: the context is the list below, and the library passes `len` readable bytes.
        unsafe {
            let bytes = std::slice::from_raw_parts(bytes, len);
            (*received.cast::<Vec<Vec<u8>>>()).push(bytes.to_vec());
        }
    }
    let mut received: Vec<Vec<u8>> = Vec::new();
    let result = call(Some(push), (&raw mut received).cast());
    (result, received)
}

/// Calls a function of the table that passes one text to a sink. Returns its result and the text.
pub(crate) fn receive_text<T>(call: impl FnOnce(Option<Sink>, *mut c_void) -> T) -> (T, String) {
    let (result, received) = receive(call);
    (result, String::from_utf8_lossy(&received.concat()).into_owned())
}

/// Loads the library: the copy that the process has loaded already, else the file that `MAREY_LIB`
/// names, else the file of the package.
pub(crate) fn load(_py: Python<'_>) -> PyResult<()> {
    let handle = open_library(Path::new(FILE_NAME), libc::RTLD_NOLOAD)
        .or_else(|_| open_library(&library_file()?, 0))
        .map_err(PyImportError::new_err)?;
    let symbol = CString::new(SYMBOL).map_err(|error| PyImportError::new_err(error.to_string()))?;
    // SAFETY: a valid handle and a C string.
    let function = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    if function.is_null() {
        return Err(PyImportError::new_err(format!(
            "the loaded {FILE_NAME} has no symbol {SYMBOL}: it is not the library of marey"
        )));
    }
    // SAFETY: every version of the library exports a function of this type under this name.
    let function =
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> *const Table>(function) };
    let loaded = function();
    // SAFETY: the table lives as long as the process; its first two fields are in every version.
    let (size, version) = unsafe { ((*loaded).size, (*loaded).abi_version) };
    if version != ABI_VERSION || size < size_of::<Table>() {
        return Err(PyImportError::new_err(format!(
            "the {FILE_NAME} of this process has interface {version} of {size} bytes, and this \
             package needs {ABI_VERSION} of {}; install matching versions or unset {}",
            size_of::<Table>(),
            env::LIB,
        )));
    }
    TABLE.store(loaded.cast_mut(), Ordering::Release);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the GIL is held")]
fn library_file() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(env::LIB).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let module = module_path().ok_or("the path of marey._native is unknown")?;
    let folder = module.parent().unwrap_or(Path::new("."));
    Ok(folder.join("lib").join(FILE_NAME))
}

/// Returns the path of the `libmarey.so` that this process has loaded.
#[pyfunction]
pub(crate) fn library_path() -> Option<OsString> {
    file_of_function(table().intern as *const c_void).map(PathBuf::into_os_string)
}

/// Returns the path of this extension module.
pub(crate) fn module_path() -> Option<PathBuf> {
    file_of_function(module_path as *const c_void)
}

/// Returns the path of the shared object that contains a function.
fn file_of_function(function: *const c_void) -> Option<PathBuf> {
    // SAFETY: plain data, filled in by dladdr when it succeeds.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr accepts any address; `info` is writable.
    let is_found = unsafe { libc::dladdr(function, &raw mut info) } != 0;
    if !is_found || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr returned a C string that lives as long as the loaded object; both libraries
    // stay loaded.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

fn open_library(path: &Path, flags: i32) -> Result<*mut c_void, String> {
    let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the path is a C string, and the library has no initialisers but those of Rust's
    // runtime.
    let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | flags) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: dlerror returns null or a C string that is valid until the next dl call here.
    let message = unsafe {
        let message = libc::dlerror();
        if message.is_null() {
            String::new()
        } else {
            CStr::from_ptr(message).to_string_lossy().into_owned()
        }
    };
    Err(format!("cannot load {}: {message}", path.display()))
}
