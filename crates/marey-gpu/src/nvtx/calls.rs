//! Marey's implementations of the NVTX functions, which NVTX calls in place of its own.

#![expect(unsafe_code, reason = "C functions with pointers from NVTX's caller")]

use super::layout::{
    EventAttributes, Function, NameHandle, Utf8Pointer, WidePointer, handle_for_name,
};
use super::name::{self, DEFAULT_DOMAIN};
use super::{payload, push_pop, start_end};
use marey_record::api;
use std::borrow::Cow;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// The functions of the default domain, by slot. The slots of functions for categories stay empty,
/// because categories are ignored.
pub(super) const CORE: &[(u32, Function)] = &[
    (1, mark_ex as Function),
    (2, mark_utf8 as Function),
    (3, mark_wide as Function),
    (4, start_ex as Function),
    (5, start_utf8 as Function),
    (6, start_wide as Function),
    (7, end as Function),
    (8, push_ex as Function),
    (9, push_utf8 as Function),
    (10, push_wide as Function),
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
    (10, register_utf8 as Function),
    (11, register_wide as Function),
    (12, domain_create_utf8 as Function),
    (13, domain_create_wide as Function),
];

// Push/pop ranges, on the thread's stack.

unsafe extern "C" fn push_ex(attributes: *const EventAttributes) -> c_int {
    // SAFETY: NVTX's caller passes attributes or null.
    unsafe { domain_push(null_mut(), attributes) }
}

unsafe extern "C" fn push_utf8(message: Utf8Pointer) -> c_int {
    // SAFETY: NVTX's caller passes a string or null.
    push_text(|| unsafe { name::utf8(message) })
}

unsafe extern "C" fn push_wide(message: WidePointer) -> c_int {
    // SAFETY: NVTX's caller passes a string or null.
    push_text(|| unsafe { name::wide(message) })
}

extern "C" fn pop() -> c_int {
    domain_pop(null_mut())
}

unsafe extern "C" fn domain_push(domain: NameHandle, attributes: *const EventAttributes) -> c_int {
    catch_panic(push_pop::NOT_TRACKED, || {
        // SAFETY: NVTX's caller passes attributes or null.
        let attributes = unsafe { EventAttributes::read(attributes) };
        let domain = name::domain_id(domain);
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
    catch_panic(push_pop::NOT_TRACKED, || push_pop::pop(name::domain_id(domain)))
}

fn push_text<'a>(message: impl FnOnce() -> Option<Cow<'a, str>>) -> c_int {
    catch_panic(push_pop::NOT_TRACKED, || {
        push_pop::push(DEFAULT_DOMAIN, || name::id_for_text(DEFAULT_DOMAIN, message().as_deref())).0
    })
}

// Start/end ranges.

unsafe extern "C" fn start_ex(attributes: *const EventAttributes) -> u64 {
    // SAFETY: NVTX's caller passes attributes or null.
    unsafe { domain_start(null_mut(), attributes) }
}

unsafe extern "C" fn start_utf8(message: Utf8Pointer) -> u64 {
    // SAFETY: NVTX's caller passes a string or null.
    start_text(|| unsafe { name::utf8(message) })
}

unsafe extern "C" fn start_wide(message: WidePointer) -> u64 {
    // SAFETY: NVTX's caller passes a string or null.
    start_text(|| unsafe { name::wide(message) })
}

extern "C" fn end(range: u64) {
    catch_panic((), || start_end::end(range));
}

unsafe extern "C" fn domain_start(domain: NameHandle, attributes: *const EventAttributes) -> u64 {
    catch_panic(0, || {
        // SAFETY: NVTX's caller passes attributes or null.
        let attributes = unsafe { EventAttributes::read(attributes) };
        // SAFETY: NVTX's caller passes a message of the type in the attributes.
        let name = || unsafe { name::id_for_attributes(name::domain_id(domain), attributes) };
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

fn start_text<'a>(message: impl FnOnce() -> Option<Cow<'a, str>>) -> u64 {
    catch_panic(0, || {
        start_end::start(|| name::id_for_text(DEFAULT_DOMAIN, message().as_deref())).0
    })
}

// Marks.

unsafe extern "C" fn mark_ex(attributes: *const EventAttributes) {
    // SAFETY: NVTX's caller passes attributes or null.
    unsafe { domain_mark(null_mut(), attributes) };
}

unsafe extern "C" fn mark_utf8(message: Utf8Pointer) {
    // SAFETY: NVTX's caller passes a string or null.
    mark_text(|| unsafe { name::utf8(message) });
}

unsafe extern "C" fn mark_wide(message: WidePointer) {
    // SAFETY: NVTX's caller passes a string or null.
    mark_text(|| unsafe { name::wide(message) });
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
        let name = unsafe { name::id_for_attributes(name::domain_id(domain), attributes) };
        drop(api::record_instant(name, values));
    });
}

fn mark_text<'a>(message: impl FnOnce() -> Option<Cow<'a, str>>) {
    catch_panic((), || {
        if api::is_live() {
            drop(api::record_instant(name::id_for_text(DEFAULT_DOMAIN, message().as_deref()), &[]));
        }
    });
}

// Registered strings and domains.

unsafe extern "C" fn register_utf8(domain: NameHandle, text: Utf8Pointer) -> NameHandle {
    // SAFETY: NVTX's caller passes a string or null.
    register(domain, || unsafe { name::utf8(text) })
}

unsafe extern "C" fn register_wide(domain: NameHandle, text: WidePointer) -> NameHandle {
    // SAFETY: NVTX's caller passes a string or null.
    register(domain, || unsafe { name::wide(text) })
}

fn register<'a>(domain: NameHandle, text: impl FnOnce() -> Option<Cow<'a, str>>) -> NameHandle {
    catch_panic(null_mut(), || {
        handle_for_name(name::id_for_text(name::domain_id(domain), text().as_deref()))
    })
}

unsafe extern "C" fn domain_create_utf8(text: Utf8Pointer) -> NameHandle {
    // SAFETY: NVTX's caller passes a string or null.
    domain_create(|| unsafe { name::utf8(text) })
}

unsafe extern "C" fn domain_create_wide(text: WidePointer) -> NameHandle {
    // SAFETY: NVTX's caller passes a string or null.
    domain_create(|| unsafe { name::wide(text) })
}

fn domain_create<'a>(text: impl FnOnce() -> Option<Cow<'a, str>>) -> NameHandle {
    catch_panic(null_mut(), || {
        handle_for_name(name::id_for_text(DEFAULT_DOMAIN, text().as_deref()))
    })
}

/// Runs `run`, and returns `fallback` if it panics.
fn catch_panic<T>(fallback: T, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(fallback)
}
