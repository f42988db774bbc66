//! The entries of the C function table for detached scopes, which are on no thread's stack.

use crate::ptr::{call_with_status, catch_panic, non_null, read_metrics};
use marey_record::table::{ErrorBuffer, MetricArg};
use marey_record::{Detached, NodeKind, api};
use std::sync::Arc;

pub(crate) unsafe extern "C" fn enter(
    parent: *const Detached,
    name_id: u32,
    kind: u8,
) -> *const Detached {
    let parent = (!parent.is_null()).then(|| {
        // SAFETY: not null, so it is an unreleased scope: it came from `Arc::into_raw` and owns a
        // reference. The count is incremented before the Arc is made.
        unsafe {
            Arc::increment_strong_count(parent);
            Arc::from_raw(parent)
        }
    });
    catch_panic(std::ptr::null(), || {
        api::enter_in_task(parent, name_id, NodeKind::from_u8(kind))
            .map_or(std::ptr::null(), Arc::into_raw)
    })
}

pub(crate) extern "C" fn here() -> *const Detached {
    catch_panic(std::ptr::null(), || {
        api::detach_innermost().map_or(std::ptr::null(), Arc::into_raw)
    })
}

pub(crate) extern "C" fn operator_enter(scope: Option<&Detached>, name_id: u32) -> u64 {
    catch_panic(0, || scope.map_or(0, |scope| api::enter_operator_in(scope, name_id)))
}

pub(crate) extern "C" fn exit(scope: Option<&Detached>) {
    catch_panic((), || scope.map_or((), Detached::exit));
}

pub(crate) unsafe extern "C" fn add_metrics(
    scope: Option<&Detached>,
    values: *const MetricArg,
    len: usize,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    // SAFETY: the caller passes `len` readable values.
    let values = unsafe { read_metrics(values, len) };
    call_with_status(error, || Ok(non_null(scope, "scope")?.add_metrics(&values?)?))
}

pub(crate) unsafe extern "C" fn release(scope: *const Detached) {
    if !scope.is_null() {
        // SAFETY: the caller gives back the reference that `detached_enter` returned, once.
        catch_panic((), || drop(unsafe { Arc::from_raw(scope) }));
    }
}

pub(crate) extern "C" fn id(scope: Option<&Detached>) -> u64 {
    scope.map_or(0, Detached::id)
}
