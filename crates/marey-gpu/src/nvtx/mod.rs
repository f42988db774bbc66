//! NVTX: the annotations of NVIDIA's libraries, and of programs that use them, as scopes.
//!
//! Every library that holds NVTX loads the one that `NVTX_INJECTION64_PATH` names when it first
//! annotates, and lets it fill a table of functions: [`initialize`]. No GPU and no driver take part.
//!
//! A range that is pushed is a scope on its thread's stack, whose pop leaves it ([`pushed`]). One that
//! is started may end on any thread, so it lies on no stack ([`started`]). A mark is a moment. Their
//! name is the message, after the domain and `::` unless that is the default one ([`name`]); a payload
//! is the value of their metric `payload`. Colours, categories and named resources are not kept.

mod calls;
mod layout;
mod name;
mod payload;
mod pushed;
mod started;

pub use self::layout::GetExportTable;

use self::layout::{CORE, CORE2, ExportTable, Slots, TABLES};
use marey_model::env;
use marey_record::environment;
use std::ffi::c_int;

/// Takes over the annotations of one library, which passes its own `get_export_table`. Every library of
/// a process calls this once, and nobody else. Returns 1, or 0 to see none of them.
///
/// # Safety
/// `get_export_table` is NVTX's function of that name, and no annotation of its library is under way but
/// those that wait for this call.
#[expect(unsafe_code, reason = "calls and fills what a stranger's library hands over")]
pub unsafe fn initialize(get_export_table: Option<GetExportTable>) -> c_int {
    let is_wanted = !is_on(env::DISABLE, false) && is_on(env::NVTX, true);
    let Some(get_export_table) = get_export_table.filter(|_| is_wanted) else { return 0 };
    // SAFETY: the caller's promise; NVTX returns a table that lives as long as its library, or null.
    let Some(export) = (unsafe { get_export_table(TABLES).cast::<ExportTable>().as_ref() }) else {
        return 0;
    };
    for (module, functions) in [(CORE, calls::CORE), (CORE2, calls::CORE2)] {
        // SAFETY: the table is NVTX's.
        let Some(slots) = (unsafe { Slots::of(export, module) }) else { return 0 };
        for &(slot, function) in functions {
            // SAFETY: the lists pair each slot with a function of its type.
            unsafe { slots.fill(slot, function) };
        }
    }
    1
}

fn is_on(variable: &str, default: bool) -> bool {
    environment::text(variable).map_or(default, |value| env::is_on(Some(&value)))
}
