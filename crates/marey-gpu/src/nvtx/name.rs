//! Names of scopes, from messages and domains.
//!
//! The recorder numbers names. A registered string, and a domain, is known by that number, so pushing
//! a range with one looks nothing up.

use super::layout::{Attributes, Handle, Utf8, Wide, message_type, number};
use marey_record::api;
use std::borrow::Cow;
use std::ffi::CStr;

/// What a range without a message is called.
const UNNAMED: &str = "<unnamed>";

/// The domain that NVTX means by a null handle.
pub(super) const DEFAULT_DOMAIN: u32 = 0;

/// The name of what has these attributes in a domain.
///
/// # Safety
/// The message is what its type says.
#[expect(unsafe_code, reason = "reads a stranger's texts")]
pub(super) unsafe fn of(domain: u32, attributes: Option<&Attributes>) -> u32 {
    let Some(attributes) = attributes else { return of_text(domain, None) };
    let message = attributes.message;
    match attributes.message_type {
        message_type::REGISTERED if number(message) != 0 => number(message),
        // SAFETY: the caller's promise.
        message_type::UTF8 => of_text(domain, unsafe { utf8(message.cast()) }.as_deref()),
        // SAFETY: as above.
        message_type::WIDE => of_text(domain, unsafe { wide(message.cast()) }.as_deref()),
        _ => of_text(domain, None),
    }
}

/// The name of a message in a domain.
pub(super) fn of_text(domain: u32, message: Option<&str>) -> u32 {
    let message = message.filter(|message| !message.is_empty()).unwrap_or(UNNAMED);
    if domain == DEFAULT_DOMAIN {
        return api::intern(message);
    }
    api::intern(&format!("{}::{message}", api::name(domain)))
}

/// The domain of a handle.
pub(super) fn domain(handle: Handle) -> u32 {
    number(handle)
}

/// A text; what is not UTF-8 in it is replaced. `None` for null.
///
/// # Safety
/// `text` is null or points to bytes that end with a zero and stay as they are.
#[expect(unsafe_code, reason = "reads a stranger's text")]
pub(super) unsafe fn utf8<'a>(text: Utf8) -> Option<Cow<'a, str>> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// A text; what is no character is replaced. `None` for null.
///
/// # Safety
/// `text` is null or points to characters that end with a zero.
#[expect(unsafe_code, reason = "reads a stranger's text")]
pub(super) unsafe fn wide<'a>(text: Wide) -> Option<Cow<'a, str>> {
    if text.is_null() {
        return None;
    }
    let mut found = String::new();
    let mut at = text;
    // SAFETY: the caller's promise: everything up to the zero is there, and nothing after it is read.
    while let character @ 1.. = unsafe { *at }.cast_unsigned() {
        found.push(char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER));
        // SAFETY: this was not the zero, so one more is there.
        at = unsafe { at.add(1) };
    }
    Some(found.into())
}
