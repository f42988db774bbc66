//! Interns the names of scopes, made of NVTX's messages and domains.
//!
//! The handle of a registered string or domain is its name id, so a push with a registered string
//! needs no lookup.

use super::layout::{EventAttributes, NameHandle, Utf8Pointer, WidePointer, message_type, name_id};
use marey_record::api;
use std::borrow::Cow;
use std::ffi::CStr;

/// Name of a range without a message.
const UNNAMED: &str = "<unnamed>";

/// The default domain, which NVTX represents by a null handle.
pub(super) const DEFAULT_DOMAIN: u32 = 0;

/// Returns the name id for attributes in a domain.
///
/// # Safety
/// The message has the type in the attributes.
#[expect(unsafe_code, reason = "reads strings of NVTX's caller")]
pub(super) unsafe fn id_for_attributes(
    domain_id: u32,
    attributes: Option<&EventAttributes>,
) -> u32 {
    let Some(attributes) = attributes else { return id_for_text(domain_id, None) };
    let message = attributes.message;
    match attributes.message_type {
        message_type::REGISTERED if name_id(message) != 0 => name_id(message),
        // SAFETY: guaranteed by the caller.
        message_type::UTF8 => id_for_text(domain_id, unsafe { utf8(message.cast()) }.as_deref()),
        // SAFETY: guaranteed by the caller.
        message_type::WIDE => id_for_text(domain_id, unsafe { wide(message.cast()) }.as_deref()),
        _ => id_for_text(domain_id, None),
    }
}

/// Returns the name id for a message in a domain.
pub(super) fn id_for_text(domain_id: u32, message: Option<&str>) -> u32 {
    let message = message.filter(|message| !message.is_empty()).unwrap_or(UNNAMED);
    if domain_id == DEFAULT_DOMAIN {
        return api::intern(message);
    }
    api::intern(&format!("{}::{message}", api::name(domain_id)))
}

/// Returns the name id of a domain.
pub(super) fn domain_id(handle: NameHandle) -> u32 {
    name_id(handle)
}

/// Converts a string; invalid UTF-8 is replaced. Returns `None` for null.
///
/// # Safety
/// `text` is null or points to a NUL-terminated string that does not change.
#[expect(unsafe_code, reason = "reads a string of NVTX's caller")]
pub(super) unsafe fn utf8<'a>(text: Utf8Pointer) -> Option<Cow<'a, str>> {
    // SAFETY: guaranteed by the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// Converts a string; invalid characters are replaced. Returns `None` for null.
///
/// # Safety
/// `text` is null or points to a NUL-terminated string.
#[expect(unsafe_code, reason = "reads a string of NVTX's caller")]
pub(super) unsafe fn wide<'a>(text: WidePointer) -> Option<Cow<'a, str>> {
    if text.is_null() {
        return None;
    }
    let mut decoded = String::new();
    let mut position = text;
    // SAFETY: guaranteed by the caller: everything up to the NUL is readable, and nothing after it
    // is read.
    while let character @ 1.. = unsafe { *position }.cast_unsigned() {
        decoded.push(char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER));
        // SAFETY: this was not the NUL, so one more character follows.
        position = unsafe { position.add(1) };
    }
    Some(decoded.into())
}
