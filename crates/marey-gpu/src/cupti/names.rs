//! The names of kernels, which records give by their address.

use marey_record::{NumberHash, api};
use std::collections::HashMap;
use std::ffi::{CStr, c_char};

/// Names that are remembered.
const MOST_NAMES: usize = 1 << 16;

/// Names that were met, by the address at which they stood.
///
/// A library that is unloaded takes its names along, and another may come to stand there: a known
/// address counts only if the text is still the same.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<usize, (Box<CStr>, u32), NumberHash>,
}

impl Names {
    /// The recorder's number of the text at this address.
    ///
    /// # Safety
    /// The address is that of a text that ends with a zero, and that nobody changes meanwhile.
    #[expect(unsafe_code, reason = "records give names by their address")]
    pub(super) unsafe fn number(&mut self, address: *const c_char) -> u32 {
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(address) };
        match self.known.get(&address.addr()) {
            Some((known, number)) if **known == *text => *number,
            _ => self.learn(address.addr(), text),
        }
    }

    #[cold]
    fn learn(&mut self, address: usize, text: &CStr) -> u32 {
        if self.known.len() >= MOST_NAMES {
            // Modules that are loaded again and again stand elsewhere each time.
            self.known.clear();
        }
        let number = api::intern(&text.to_string_lossy());
        self.known.insert(address, (text.into(), number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the texts are the test's own")]
    fn another_text_at_the_same_address_is_another_name() {
        let mut names = Names::default();
        let mut text = *b"kernel_a\0";
        // SAFETY: here and below, the text ends with a zero.
        let mut number = |text: &[u8; 9]| unsafe { names.number(text.as_ptr().cast()) };
        let first = number(&text);
        assert_eq!(number(&text), first);
        text[7] = b'b';
        let second = number(&text);
        assert_ne!(second, first);
        assert_eq!(&*api::name(second), "kernel_b");
        text[7] = b'a';
        assert_eq!(number(&text), first);
    }
}
