//! Opening a vendor's library and taking its functions. What was opened stays: its threads and
//! callbacks may live as long as the process.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix;

/// A library that is loaded for good.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded(*mut c_void);

impl Loaded {
    /// Loads this file, or what the loader finds by this name. The error is the loader's.
    pub(super) fn open(path: impl AsRef<OsStr>) -> Result<Self, String> {
        Self::with_flags(path.as_ref(), libc::RTLD_NOW | libc::RTLD_LOCAL)
    }

    /// The library of this file, if the process has it already.
    pub(super) fn already(path: &Path) -> Option<Self> {
        Self::with_flags(path.as_os_str(), libc::RTLD_NOW | libc::RTLD_NOLOAD).ok()
    }

    #[expect(unsafe_code, reason = "the initialisers of a library run")]
    fn with_flags(path: &OsStr, flags: c_int) -> Result<Self, String> {
        // SAFETY: the initialisers of NVIDIA's libraries do no more than set up their own state; a
        // file that the user names instead is trusted as `LD_LIBRARY_PATH` is.
        let library = unsafe { unix::Library::open(Some(path), flags) };
        library.map(|library| Self(library.into_raw())).map_err(|error| error.to_string())
    }

    /// The address of a function, if the library has it.
    #[expect(unsafe_code, reason = "dlsym")]
    pub(super) fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open, and the name ends with a zero.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

/// The file that the code at an address was loaded from.
#[expect(unsafe_code, reason = "dladdr")]
pub(super) fn file_of(address: *const c_void) -> Option<PathBuf> {
    // SAFETY: plain data, for which zero is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for, and `info` can be written.
    let is_known = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    if !is_known || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name is the loader's, ends with a zero and lives as long as the library: for good.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Declares a table of functions with their C names: those that there must be, then those that may be missing.
macro_rules! functions {
    (
        $(#[$about:meta])*
        pub struct $table:ident -> $result:ty;
        needed { $(
            $(#[$doc:meta])*
            $field:ident = $symbol:literal ($($arg:ident: $type:ty),*);
        )+ }
        optional { $(
            $(#[$maybe_doc:meta])*
            $maybe:ident = $maybe_symbol:literal ($($maybe_arg:ident: $maybe_type:ty),*);
        )* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub struct $table {
            $(
                $(#[$doc])*
                pub $field: unsafe extern "C" fn($($arg: $type),*) -> $result,
            )+
            $(
                $(#[$maybe_doc])*
                pub $maybe: Option<unsafe extern "C" fn($($maybe_arg: $maybe_type),*) -> $result>,
            )*
        }

        impl $table {
            /// The names of those that there must be.
            #[cfg(test)]
            pub(super) const NEEDED: &[&std::ffi::CStr] = &[$($symbol),+];

            /// Those of a library, or the first that it must have and has not.
            #[expect(unsafe_code, reason = "the address of a function becomes a function")]
            pub(super) fn of(library: $crate::cupti::dl::Loaded) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let address = library.symbol($symbol);
                        let address = address.ok_or($symbol.to_str().unwrap_or_default())?;
                        // SAFETY: the vendor documents the function of this name with this signature.
                        unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($type),*) -> $result,
                            >(address)
                        }
                    },)+
                    // SAFETY: the same.
                    $($maybe: library.symbol($maybe_symbol).map(|address| unsafe {
                        std::mem::transmute::<
                            *mut std::ffi::c_void,
                            unsafe extern "C" fn($($maybe_type),*) -> $result,
                        >(address)
                    }),)*
                })
            }
        }
    };
}

pub(super) use functions;
