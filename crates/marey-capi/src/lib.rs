//! `libmarey.so`, the C ABI of marey: holds the recorder's state, and is the only crate that
//! exports C symbols.
//!
//! A process may contain several bindings of marey at once (a Python wheel, an annotated C++
//! extension, an injected library). All of them find this library by its name and call it through
//! the table that [`marey_table`] returns, so they record into one run.
//!
//! **Constraints.** Each `extern "C"` function is a wrapper of a few lines around the safe API of
//! `marey-record`. [`ptr`] checks the pointers; its errors name the argument. No panic crosses the
//! C boundary. The crate uses neither Arrow nor tokio.
//!
//! Start reading at `TABLE`.

#![expect(unsafe_code, reason = "this crate is the C interface")]

mod detached;
mod events;
mod gpu;
mod ptr;
mod records;
mod sessions;
mod torch;

use marey_gpu::nvtx;
use marey_model::setting::Declaration;
use marey_record::python_requests::{self, RequestKind};
use marey_record::table::{ABI_VERSION, Table};
use marey_record::{api, environment, settings};
use ptr::{catch_panic, read_text};
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::sync::atomic::AtomicUsize;

/// Returns the recorder's function table. The pointer is valid for the life of the process.
#[unsafe(no_mangle)]
pub extern "C" fn marey_table() -> *const Table {
    api::on_load();
    &raw const *TABLE
}

/// The entry point that NVTX calls in annotated libraries, if `NVTX_INJECTION64_PATH` names this
/// library.
///
/// # Safety
/// As for [`nvtx::initialize`].
#[unsafe(export_name = "InitializeInjectionNvtx2")]
pub unsafe extern "C" fn initialize_nvtx(exports: Option<nvtx::GetExportTable>) -> c_int {
    api::on_load();
    // SAFETY: guaranteed by the caller.
    catch_panic(0, || unsafe { nvtx::initialize(exports) })
}

/// The entry point that NVIDIA's driver calls on initialisation, if `CUDA_INJECTION64_PATH` names
/// this library.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> i32 {
    catch_panic((), marey_gpu::level::on_driver_start);
    1
}

static TABLE: std::sync::LazyLock<Table> = std::sync::LazyLock::new(|| Table {
    size: size_of::<Table>(),
    abi_version: ABI_VERSION,
    reserved: 0,
    live: api::live_word(),
    intern: events::intern,
    intern_metric: events::intern_metric,
    scope_enter: events::scope_enter,
    scope_exit: events::scope_exit,
    operator_enter: events::operator_enter,
    operator_exit: events::operator_exit,
    state_enter: events::state_enter,
    state_exit: events::state_exit,
    step_begin: events::step_begin,
    step_end: events::step_end,
    top_name: events::top_name,
    add_metrics: events::add_metrics,
    detached_enter: detached::enter,
    detached_exit: detached::exit,
    detached_add_metrics: detached::add_metrics,
    detached_release: detached::release,
    detached_id: detached::id,
    set_frame_provider: events::set_frame_provider,
    frame_root: events::frame_root,
    frame_child: events::frame_child,
    start: sessions::start,
    activate: sessions::activate,
    deactivate: sessions::deactivate,
    finalize: sessions::finalize,
    advance_phase: sessions::advance_phase,
    is_phase_complete: sessions::is_phase_complete,
    clear: sessions::clear,
    get_data: sessions::get_data,
    depth: sessions::depth,
    context: sessions::context,
    set_quiet_if_empty: sessions::set_quiet_if_empty,
    checkpoint: sessions::checkpoint,
    after_fork_in_parent: sessions::after_fork_in_parent,
    name_text: events::name_text,
    sessions: sessions::sessions,
    defer_fork_restart: sessions::defer_fork_restart,
    run_dir: sessions::run_dir,
    active: api::active_word(),
    operator_exit_id: events::operator_exit_id,
    detached_here: detached::here,
    detached_operator_enter: detached::operator_enter,
    count_losses: events::count_losses,
    gpu_start: gpu::start,
    gpu_level: gpu::level,
    gpu_probe: gpu::probe,
    gpu_note: gpu::note,
    note_environment,
    set_task_provider: events::set_task_provider,
    torch_operators: torch::operators,
    performance_events: events::performance_events,
    torch_shapes: torch::shapes,
    gpu_pause: gpu::pause,
    torch_ids: torch::ids,
    active_sessions: sessions::active_sessions,
    note: records::note,
    record_collectives: records::record_collectives,
    setting,
    set_setting,
    record_samples: records::record_samples,
    set_settings_listener,
    cpp_state: &CPP_STATE,
    scope_args: events::scope_args,
    scope_exit_autograd: events::scope_exit_autograd,
    performance_counts: events::performance_counts,
    device_events: sessions::device_events,
    end_idle_threads: sessions::end_idle_threads,
    session_scope: sessions::session_scope,
    context_names: events::context_names,
    state_name: events::state_name,
    scope_enter_timed: events::scope_enter_timed,
    scope_exit_timed: events::scope_exit_timed,
    ticks: events::ticks,
    monotonic_nanos: events::monotonic_nanos,
    cpp_thread,
    record_variables: records::record_variables,
    next_request,
    answer_request,
    needs_sampling: records::needs_sampling,
    begin_sampling: records::begin_sampling,
    end_sampling: records::end_sampling,
    next_sample: records::next_sample,
    is_sample_due: records::is_sample_due,
    scope_exit_only: events::scope_exit_only,
    possible_performance_events: events::possible_performance_events,
    operator_flops: events::operator_flops,
    begin_process_exit: api::begin_process_exit,
    find_collectives: records::find_collectives,
    answer_collective,
});

extern "C" fn set_settings_listener(listener: settings::Listener) {
    settings::set_listener(listener);
}

extern "C" fn setting(setting: u32) -> f64 {
    declared(setting).map_or(0.0, |declared| settings::value(declared.setting))
}

extern "C" fn set_setting(setting: u32, value: f64) -> bool {
    let declared = declared(setting).filter(|declared| declared.accepts(value));
    declared.is_some_and(|declared| settings::set(declared.setting, value).is_ok())
}

fn declared(setting: u32) -> Option<&'static Declaration> {
    marey_model::setting::ALL.get(setting as usize)
}

/// The address of the state that the C++ libraries of the process share, 0 until one sets it.
static CPP_STATE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The address of the state that the C++ libraries share about this thread, 0 until one sets
    /// it.
    static CPP_THREAD: Cell<usize> = const { Cell::new(0) };
}

extern "C" fn cpp_thread() -> *mut usize {
    // The cell has no destructor, so the word stays valid until its thread has ended.
    CPP_THREAD.with(Cell::as_ptr)
}

extern "C" fn note_environment() {
    catch_panic((), environment::refresh);
}

unsafe extern "C" fn next_request(request: *mut c_char, len: usize) -> usize {
    let read = || python_requests::read(RequestKind::Watches);
    let Some(text) = catch_panic(None, read) else { return 0 };
    if text.len() <= len && !request.is_null() {
        // SAFETY: the caller passes a buffer of `len` bytes, which does not overlap the text.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), request.cast(), text.len()) };
    }
    text.len()
}

unsafe extern "C" fn answer_request(is_error: bool, text: *const c_char, len: usize) {
    // SAFETY: the caller passes a readable text of `len` bytes.
    unsafe { answer(RequestKind::Watches, is_error, text, len) };
}

unsafe extern "C" fn answer_collective(is_error: bool, text: *const c_char, len: usize) {
    // SAFETY: the caller passes a readable text of `len` bytes.
    unsafe { answer(RequestKind::Collective, is_error, text, len) };
}

/// Passes on an answer of Python.
///
/// # Safety
/// `text` is null or has `len` readable bytes.
unsafe fn answer(kind: RequestKind, is_error: bool, text: *const c_char, len: usize) {
    // SAFETY: guaranteed by the caller.
    let Ok(text) = (unsafe { read_text(text, len, "text") }) else { return };
    let answer = if is_error { Err(text.into_owned()) } else { Ok(text.into_owned()) };
    catch_panic((), || python_requests::answer(kind, answer));
}
