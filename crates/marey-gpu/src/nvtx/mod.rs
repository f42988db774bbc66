//! NVTX annotations of the program and its libraries, recorded as scopes.
//!
//! Every library that contains NVTX loads the library in `NVTX_INJECTION64_PATH` at its first
//! annotation, and lets it fill a table of functions: [`initialize`]. Neither a GPU nor a driver is
//! needed.
//!
//! A push/pop range is a scope on its thread's stack ([`push_pop`]). A start/end range may end on
//! any thread, so it is not on a stack ([`start_end`]). A mark is an instant. The scope's name is
//! the message, prefixed by the domain and `::` unless it is the default domain ([`name`]). A
//! payload is a value of the metric `payload`. Colours, categories and named resources are ignored.

mod calls;
mod layout;
mod name;
mod payload;
mod push_pop;
mod start_end;

pub use self::layout::GetExportTable;

use self::layout::{CALLBACK_TABLE, CORE_MODULE, CORE2_MODULE, ExportTable};
use marey_model::env;
use marey_record::environment;
use std::ffi::c_int;

/// Registers marey for the annotations of one library, which passes its own `get_export_table`.
/// NVTX calls this once per library. Returns 1, or 0 if marey does not record the library.
///
/// # Safety
/// `get_export_table` is NVTX's function of that name, and the library makes no annotation before
/// this call returns.
#[expect(unsafe_code, reason = "calls and fills the function tables of NVTX")]
pub unsafe fn initialize(get_export_table: Option<GetExportTable>) -> c_int {
    let is_enabled = !is_on(env::DISABLE, false) && is_on(env::NVTX, true);
    let Some(get_export_table) = get_export_table.filter(|_| is_enabled) else { return 0 };
    // SAFETY: guaranteed by the caller; NVTX returns a table that lives as long as its library, or
    // null.
    let Some(export_table) =
        (unsafe { get_export_table(CALLBACK_TABLE).cast::<ExportTable>().as_ref() })
    else {
        return 0;
    };
    for (module, functions) in [(CORE_MODULE, calls::CORE), (CORE2_MODULE, calls::CORE2)] {
        // SAFETY: the table is NVTX's, and the lists pair each slot with a function of its type.
        if !unsafe { export_table.set_functions(module, functions) } {
            return 0;
        }
    }
    1
}

fn is_on(variable: &str, default: bool) -> bool {
    environment::text(variable).map_or(default, |value| env::is_on(Some(&value)))
}
