//! Loads vendor libraries and their functions. A library is never unloaded, because its threads and
//! callbacks may live as long as the process.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix;

/// A library that stays loaded.
#[derive(Debug)]
pub(super) struct LoadedLibrary(ManuallyDrop<unix::Library>);

impl LoadedLibrary {
    /// Loads a file, or a name that the loader resolves. The error is the loader's message.
    pub(super) fn open(path: impl AsRef<OsStr>) -> Result<Self, String> {
        Self::open_with_flags(path.as_ref(), libc::RTLD_NOW | libc::RTLD_LOCAL)
    }

    /// Returns the library of this file if the process has already loaded it.
    pub(super) fn find_loaded(path: &Path) -> Option<Self> {
        Self::open_with_flags(path.as_os_str(), libc::RTLD_NOW | libc::RTLD_NOLOAD).ok()
    }

    #[expect(unsafe_code, reason = "the initialisers of a library run")]
    fn open_with_flags(path: &OsStr, flags: c_int) -> Result<Self, String> {
        // SAFETY: the initialisers of NVIDIA's libraries do no more than set up their own state; a
        // file that the user names instead is trusted as `LD_LIBRARY_PATH` is.
        let library = unsafe { unix::Library::open(Some(path), flags) };
        library.map(|library| Self(ManuallyDrop::new(library))).map_err(|error| error.to_string())
    }

    /// Returns a function, if the library exports it.
    ///
    /// # Safety
    /// `F` is the type of the function with this name.
    #[expect(unsafe_code, reason = "the address of a function becomes a function")]
    pub(super) unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: guaranteed by the caller; an address of 0 is `None`.
        *unsafe { self.0.get::<Option<F>>(name.to_bytes_with_nul()) }.ok()?
    }
}

/// Returns the file that the code at an address was loaded from.
#[expect(unsafe_code, reason = "dladdr")]
pub(super) fn library_file(address: *const c_void) -> Option<PathBuf> {
    // SAFETY: plain data, for which zero is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `dladdr` accepts any address, and `info` is writable.
    let is_known = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    if !is_known || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name is NUL-terminated and lives as long as the library, which is never
    // unloaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Returns a NUL-terminated string; `None` if it is empty.
pub(super) fn read_c_string(bytes: &[u8]) -> Option<String> {
    let text = CStr::from_bytes_until_nul(bytes).ok()?.to_string_lossy();
    (!text.is_empty()).then(|| text.into_owned())
}

/// Declares a table of functions with their C names: required ones, then optional ones.
macro_rules! functions {
    (
        $(#[$table_doc:meta])*
        pub struct $table:ident -> $result:ty;
        required { $(
            $(#[$doc:meta])*
            $field:ident = $symbol:literal ($($arg:ident: $type:ty),*);
        )+ }
        optional { $(
            $(#[$optional_doc:meta])*
            $optional_field:ident = $optional_symbol:literal ($($optional_arg:ident: $optional_type:ty),*);
        )* }
    ) => {
        $(#[$table_doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $table {
            $(
                $(#[$doc])*
                pub $field: unsafe extern "C" fn($($arg: $type),*) -> $result,
            )+
            $(
                $(#[$optional_doc])*
                pub $optional_field: Option<unsafe extern "C" fn($($optional_arg: $optional_type),*) -> $result>,
            )*
        }

        impl $table {
            /// Names of the required functions.
            #[cfg(test)]
            pub(super) const REQUIRED: &[&std::ffi::CStr] = &[$($symbol),+];

            /// Loads the functions of a library. The error is the first missing required function.
            #[expect(unsafe_code, reason = "the address of a function becomes a function")]
            pub(super) fn load(library: &$crate::cupti::dl::LoadedLibrary) -> Result<Self, &'static str> {
                // SAFETY: the vendor documents the functions of these names with these signatures.
                unsafe {
                    Ok(Self {
                        $($field: library
                            .function($symbol)
                            .ok_or($symbol.to_str().unwrap_or_default())?,)+
                        $($optional_field: library.function($optional_symbol),)*
                    })
                }
            }
        }
    };
}

pub(super) use functions;
