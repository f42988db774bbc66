//! Interns the names of scopes, made of NVTX's messages and domains.
//!
//! The handle of a registered string or domain is its name id, so a push with a registered string
//! needs no lookup.

#![expect(unsafe_code, reason = "reads strings of NVTX's caller")]

use super::layout::{EventAttributes, WideCharacter, message_type, name_id};
use marey_record::api;
use std::borrow::Cow;
use std::ffi::{CStr, c_char};

/// Name of a range without a message.
const UNNAMED: &str = "<unnamed>";

/// The default domain, which NVTX represents by a null handle.
pub(super) const DEFAULT_DOMAIN: u32 = 0;

/// Returns the name id for attributes in a domain.
///
/// # Safety
/// The message has the type in the attributes.
pub(super) unsafe fn id_for_attributes(
    domain_id: u32,
    attributes: Option<&EventAttributes>,
) -> u32 {
    let Some(attributes) = attributes else { return id_for_text(domain_id, None) };
    let message = attributes.message;
    match attributes.message_type {
        message_type::REGISTERED if name_id(message) != 0 => name_id(message),
        // SAFETY: guaranteed by the caller.
        message_type::UTF8 => unsafe { id_for_string(domain_id, message.cast::<c_char>()) },
        // SAFETY: guaranteed by the caller.
        message_type::WIDE => unsafe { id_for_string(domain_id, message.cast::<WideCharacter>()) },
        _ => id_for_text(domain_id, None),
    }
}

/// Returns the name id for a message in a domain.
///
/// # Safety
/// As for [`Character::decode`].
pub(super) unsafe fn id_for_string<C: Character>(domain_id: u32, message: *const C) -> u32 {
    // SAFETY: guaranteed by the caller.
    id_for_text(domain_id, unsafe { C::decode(message) }.as_deref())
}

fn id_for_text(domain_id: u32, message: Option<&str>) -> u32 {
    let message = message.filter(|message| !message.is_empty()).unwrap_or(UNNAMED);
    if domain_id == DEFAULT_DOMAIN {
        return api::intern(message);
    }
    api::intern(&format!("{}::{message}", api::name(domain_id)))
}

/// A character of NVTX's strings, which are NUL-terminated.
pub(super) trait Character: Sized {
    /// Converts a string; invalid characters are replaced. Returns `None` for null.
    ///
    /// # Safety
    /// `text` is null or points to a NUL-terminated string that does not change.
    unsafe fn decode<'a>(text: *const Self) -> Option<Cow<'a, str>>;
}

impl Character for c_char {
    unsafe fn decode<'a>(text: *const Self) -> Option<Cow<'a, str>> {
        // SAFETY: guaranteed by the caller.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }
}

impl Character for WideCharacter {
    unsafe fn decode<'a>(text: *const Self) -> Option<Cow<'a, str>> {
        if text.is_null() {
            return None;
        }
        let mut decoded = String::new();
        let mut position = text;
        // SAFETY: guaranteed by the caller: everything up to the NUL is readable, and nothing after
        // it is read.
        while let character @ 1.. = unsafe { *position }.cast_unsigned() {
            decoded.push(char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER));
            // SAFETY: this was not the NUL, so one more character follows.
            position = unsafe { position.add(1) };
        }
        Some(decoded.into())
    }
}
