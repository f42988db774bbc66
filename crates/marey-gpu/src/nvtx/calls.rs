//! Marey's implementations of the NVTX functions, which NVTX calls in place of its own.

#![expect(unsafe_code, reason = "C functions with pointers from NVTX's caller")]

use super::layout::{
    EventAttributes, Function, NameHandle, WideCharacter, handle_for_name, name_id,
};
use super::name::{self, Character, DEFAULT_DOMAIN};
use super::{payload, push_pop, start_end};
use marey_record::api;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// The functions of the default domain, by slot. The slots of functions for categories stay empty,
/// because categories are ignored.
pub(super) const CORE: &[(u32, Function)] = &[
    (1, mark_ex as Function),
    (2, mark_text::<c_char> as Function),
    (3, mark_text::<WideCharacter> as Function),
    (4, start_ex as Function),
    (5, start_text::<c_char> as Function),
    (6, start_text::<WideCharacter> as Function),
    (7, end as Function),
    (8, push_ex as Function),
    (9, push_text::<c_char> as Function),
    (10, push_text::<WideCharacter> as Function),
    (11, pop as Function),
];

/// The functions with a domain argument, by slot. A function that is left out does nothing, or
/// returns a null handle that is only passed to other functions that are left out.
pub(super) const CORE2: &[(u32, Function)] = &[
    (1, domain_mark as Function),
    (2, domain_start as Function),
    (3, domain_end as Function),
    (4, domain_push as Function),
    (5, domain_pop as Function),
    (10, register::<c_char> as Function),
    (11, register::<WideCharacter> as Function),
    (12, domain_create::<c_char> as Function),
    (13, domain_create::<WideCharacter> as Function),
];

// Push/pop ranges, on the thread's stack.

unsafe extern "C" fn push_ex(attributes: *const EventAttributes) -> c_int {
    // SAFETY: NVTX's caller passes attributes or null.
    unsafe { domain_push(null_mut(), attributes) }
}

unsafe extern "C" fn push_text<C: Character>(message: *const C) -> c_int {
    catch_panic(push_pop::NOT_TRACKED, || {
        // SAFETY: NVTX's caller passes a string or null.
        push_pop::push(DEFAULT_DOMAIN, || unsafe { name::id_for_string(DEFAULT_DOMAIN, message) }).0
    })
}

extern "C" fn pop() -> c_int {
    domain_pop(null_mut())
}

unsafe extern "C" fn domain_push(domain: NameHandle, attributes: *const EventAttributes) -> c_int {
    catch_panic(push_pop::NOT_TRACKED, || {
        // SAFETY: NVTX's caller passes attributes or null.
        let attributes = unsafe { EventAttributes::read(attributes) };
        let domain = name_id(domain);
        // SAFETY: NVTX's caller passes a message of the type in the attributes.
        let (level, is_recorded) =
            push_pop::push(domain, || unsafe { name::id_for_attributes(domain, attributes) });
        if is_recorded && let Some(values) = payload::metric_values(attributes) {
            // A value of another type is rejected and counted as a loss.
            drop(api::add_metrics(&values));
        }
        level
    })
}

extern "C" fn domain_pop(domain: NameHandle) -> c_int {
    catch_panic(push_pop::NOT_TRACKED, || push_pop::pop(name_id(domain)))
}

// Start/end ranges.

unsafe extern "C" fn start_ex(attributes: *const EventAttributes) -> u64 {
    // SAFETY: NVTX's caller passes attributes or null.
    unsafe { domain_start(null_mut(), attributes) }
}

unsafe extern "C" fn start_text<C: Character>(message: *const C) -> u64 {
    catch_panic(0, || {
        // SAFETY: NVTX's caller passes a string or null.
        start_end::start(|| unsafe { name::id_for_string(DEFAULT_DOMAIN, message) }).0
    })
}

extern "C" fn end(range: u64) {
    catch_panic((), || start_end::end(range));
}

unsafe extern "C" fn domain_start(domain: NameHandle, attributes: *const EventAttributes) -> u64 {
    catch_panic(0, || {
        // SAFETY: NVTX's caller passes attributes or null.
        let attributes = unsafe { EventAttributes::read(attributes) };
        // SAFETY: NVTX's caller passes a message of the type in the attributes.
        let name = || unsafe { name::id_for_attributes(name_id(domain), attributes) };
        let (range, scope) = start_end::start(name);
        if let Some(scope) = scope
            && let Some(values) = payload::metric_values(attributes)
        {
            drop(scope.add_metrics(&values));
        }
        range
    })
}

extern "C" fn domain_end(_domain: NameHandle, range: u64) {
    end(range);
}

// Marks.

unsafe extern "C" fn mark_ex(attributes: *const EventAttributes) {
    // SAFETY: NVTX's caller passes attributes or null.
    unsafe { domain_mark(null_mut(), attributes) };
}

unsafe extern "C" fn mark_text<C: Character>(message: *const C) {
    catch_panic((), || {
        if api::is_live() {
            // SAFETY: NVTX's caller passes a string or null.
            let name = unsafe { name::id_for_string(DEFAULT_DOMAIN, message) };
            drop(api::record_instant(name, &[]));
        }
    });
}

unsafe extern "C" fn domain_mark(domain: NameHandle, attributes: *const EventAttributes) {
    catch_panic((), || {
        if !api::is_live() {
            return;
        }
        // SAFETY: NVTX's caller passes attributes or null.
        let attributes = unsafe { EventAttributes::read(attributes) };
        let payload = payload::metric_values(attributes);
        let values = payload.as_ref().map_or([].as_slice(), |values| values);
        // SAFETY: NVTX's caller passes a message of the type in the attributes.
        let name = unsafe { name::id_for_attributes(name_id(domain), attributes) };
        drop(api::record_instant(name, values));
    });
}

// Registered strings and domains.

unsafe extern "C" fn register<C: Character>(domain: NameHandle, text: *const C) -> NameHandle {
    catch_panic(null_mut(), || {
        // SAFETY: NVTX's caller passes a string or null.
        handle_for_name(unsafe { name::id_for_string(name_id(domain), text) })
    })
}

unsafe extern "C" fn domain_create<C: Character>(text: *const C) -> NameHandle {
    catch_panic(null_mut(), || {
        // SAFETY: NVTX's caller passes a string or null.
        handle_for_name(unsafe { name::id_for_string(DEFAULT_DOMAIN, text) })
    })
}

/// Runs `run`, and returns `fallback` if it panics.
fn catch_panic<T>(fallback: T, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(fallback)
}
