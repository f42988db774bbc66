//! A cache from the addresses of kernel names, which records contain, to interned name ids.

use crate::lock;
use marey_record::{NumberHash, api};
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{LazyLock, Mutex};

/// Maximum number of cached names.
const MAX_CACHED_NAMES: usize = 1 << 16;

/// The name ids, by the address of the name.
///
/// After a library is unloaded, another one may be mapped at the addresses of its names. So a
/// cached address is valid only if the text there is unchanged.
#[derive(Debug, Default)]
struct KernelNames {
    ids_by_address: HashMap<usize, (Box<CStr>, u32), NumberHash>,
}

static KERNEL_NAMES: LazyLock<Mutex<KernelNames>> = LazyLock::new(Mutex::default);

/// Returns the name id of the string at this address.
///
/// # Safety
/// The address is of a NUL-terminated string that does not change during the call.
#[expect(unsafe_code, reason = "records give names by their address")]
pub(super) unsafe fn intern(address: *const c_char) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe { lock(&KERNEL_NAMES).intern(address) }
}

/// Locks the cache for a fork.
pub(super) fn lock_for_fork() -> impl Sized + use<> {
    lock(&KERNEL_NAMES)
}

impl KernelNames {
    /// # Safety
    /// As for [`intern`].
    #[expect(unsafe_code, reason = "records give names by their address")]
    unsafe fn intern(&mut self, address: *const c_char) -> u32 {
        // SAFETY: the caller's guarantee.
        let text = unsafe { CStr::from_ptr(address) };
        match self.ids_by_address.get(&address.addr()) {
            Some((cached, name_id)) if **cached == *text => *name_id,
            _ => self.insert(address.addr(), text),
        }
    }

    #[cold]
    fn insert(&mut self, address: usize, text: &CStr) -> u32 {
        if self.ids_by_address.len() >= MAX_CACHED_NAMES {
            // Reloaded modules have their names at new addresses each time, so the cache would
            // grow.
            self.ids_by_address.clear();
        }
        let name_id = api::intern(&text.to_string_lossy());
        self.ids_by_address.insert(address, (text.into(), name_id));
        name_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the texts are the test's own")]
    fn a_changed_string_at_the_same_address_is_another_name() {
        let mut names = KernelNames::default();
        let mut text = *b"kernel_a\0";
        // SAFETY: here and below, the string is NUL-terminated.
        let mut id = |text: &[u8; 9]| unsafe { names.intern(text.as_ptr().cast()) };
        let first = id(&text);
        assert_eq!(id(&text), first);
        text[7] = b'b';
        let second = id(&text);
        assert_ne!(second, first);
        assert_eq!(&*api::name(second), "kernel_b");
        text[7] = b'a';
        assert_eq!(id(&text), first);
    }
}
