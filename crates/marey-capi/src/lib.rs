//! `libmarey.so`: contains the recorder's state, and is the only crate that exports C symbols.
//!
//! A process may contain several bindings of marey at once (a Python wheel, an annotated C++
//! extension, an injected library). All of them find this library by its name and call it through
//! the table that [`marey_table`] returns, so they record into one run.
//!
//! **Constraints.** Each `extern "C"` function is a wrapper of a few lines around the safe API of
//! `marey-record`. Pointers are checked in [`ptr`], which names the argument. No panic crosses the
//! C boundary. No Arrow, no tokio.
//!
//! Start reading at `TABLE`.

#![expect(unsafe_code, reason = "this crate is the C interface")]

mod gpu;
mod ptr;
mod sessions;

use marey_gpu::nvtx;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::setting::Declaration;
use marey_record::api::{
    Collective, CollectiveState, LineVariables, SampleCause, StackSample, VariableValue,
};
use marey_record::table::{
    ABI_VERSION, CollectiveArg, ErrorBuffer, LineArg, MetricArg, NO_METRIC, Sink, Table, ValueTag,
};
use marey_record::{ContextSource, Detached, NodeKind, api, python_requests, settings};
use marey_torch::autograd::Fields;
use marey_torch::inputs::InputFields;
use marey_torch::shapes::{self, Shapes};
use marey_torch::{ids, operators};
use ptr::{Failure, catch_panic, read_metrics, read_text, send};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
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
    intern,
    intern_metric,
    scope_enter,
    scope_exit,
    operator_enter,
    operator_exit,
    state_enter,
    state_exit,
    step_begin,
    step_end,
    top_name,
    add_metrics,
    detached_enter,
    detached_exit,
    detached_add_metrics,
    detached_release,
    detached_id,
    set_frame_provider,
    frame_root,
    frame_child,
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
    name_text,
    sessions: sessions::sessions,
    defer_fork_restart: sessions::defer_fork_restart,
    run_dir: sessions::run_dir,
    active: api::active_word(),
    operator_exit_id,
    detached_here,
    detached_operator_enter,
    count_losses,
    gpu_start: gpu::start,
    gpu_level: gpu::level,
    gpu_probe: gpu::probe,
    gpu_note: gpu::note,
    note_environment,
    set_task_provider,
    torch_operators,
    performance_events,
    torch_shapes,
    gpu_pause: gpu::pause,
    torch_ids,
    active_sessions: sessions::active_sessions,
    note,
    record_collectives,
    setting,
    set_setting,
    record_samples,
    set_settings_listener,
    cpp_state: &CPP_STATE,
    scope_args,
    scope_exit_autograd,
    performance_counts,
    device_events: sessions::device_events,
    end_idle_threads: sessions::end_idle_threads,
    session_scope: sessions::session_scope,
    context_names,
    state_name,
    scope_enter_timed,
    scope_exit_timed,
    ticks,
    monotonic_nanos,
    cpp_thread,
    record_variables,
    next_request,
    answer_request,
    needs_sampling,
    begin_sampling,
    end_sampling,
    next_sample,
    is_sample_due,
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

/// The address of the state that C++ libraries share.
static CPP_STATE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The address of the state that C++ libraries share about this thread.
    static CPP_THREAD: Cell<usize> = const { Cell::new(0) };
}

extern "C" fn cpp_thread() -> *mut usize {
    // Without a destructor, so that the word lives as long as its thread.
    CPP_THREAD.with(Cell::as_ptr)
}

extern "C" fn note_environment() {
    catch_panic((), api::copy_environment);
}

// Names.

unsafe extern "C" fn intern(name: *const c_char, len: usize) -> u32 {
    // SAFETY: the caller passes a readable name of `len` bytes, as the header requires.
    let name = unsafe { read_text(name, len, "name") };
    catch_panic(0, || name.map_or(0, |name| api::intern(&name)))
}

unsafe extern "C" fn intern_metric(name: *const c_char, len: usize) -> u32 {
    // SAFETY: as in `intern`.
    let name = unsafe { read_text(name, len, "name") };
    catch_panic(NO_METRIC, || {
        name.ok().and_then(|name| api::intern_metric(&name)).unwrap_or(NO_METRIC)
    })
}

unsafe extern "C" fn name_text(name: u32, sink: Option<Sink>, context: *mut c_void) {
    let text = catch_panic(None, || Some(api::name(name)));
    if let Some(text) = text {
        // SAFETY: the caller passes a function that takes bytes and this context.
        unsafe { send(sink, context, text.as_bytes()) };
    }
}

// Events. These cannot panic: they index nothing and unwrap nothing.

extern "C" fn scope_enter(name: u32, kind: u8) -> u64 {
    api::enter_kind(name, kind)
}

extern "C" fn scope_exit(name: u32) -> u64 {
    api::exit(name)
}

extern "C" fn operator_enter(name: u32) -> u64 {
    api::enter_operator(name)
}

extern "C" fn operator_exit(name: u32) -> u64 {
    api::exit_operator(name)
}

extern "C" fn operator_exit_id(id: u64) -> u64 {
    api::exit_operator_with_id(id)
}

extern "C" fn scope_exit_autograd(name: u32, sequence: u64, forward_os_id: u64) {
    api::exit_autograd(name, api::AutogradCall { sequence, forward_os_id });
}

unsafe extern "C" fn scope_args(name: u32, json: *const c_char, json_len: usize) {
    if !api::is_tracing() {
        return;
    }
    // SAFETY: the caller passes a readable text of `json_len` bytes, as the header requires.
    let json = unsafe { read_text(json, json_len, "json") };
    if let Ok(json) = json {
        catch_panic((), || {
            api::record_inputs(name, api::intern_text(&json));
        });
    }
}

extern "C" fn count_losses(cause: u8, losses: u64) {
    if let Some(&cause) = LossCause::ALL.get(usize::from(cause)) {
        api::count_losses(cause, losses);
    }
}

extern "C" fn state_enter(name: u32) {
    api::enter_state(name);
}

extern "C" fn state_exit() -> bool {
    api::exit_state()
}

extern "C" fn step_begin() {
    api::step_begin();
}

extern "C" fn step_end() {
    api::step_end();
    shapes::step_end();
}

extern "C" fn top_name() -> u32 {
    api::innermost_name()
}

unsafe extern "C" fn add_metrics(
    values: *const MetricArg,
    len: usize,
    error: *mut ErrorBuffer,
) -> i32 {
    // SAFETY: the caller passes `len` readable values, as the header requires.
    let values = unsafe { read_metrics(values, len) };
    // SAFETY: the caller passes a writable error buffer or null.
    unsafe { ptr::call_with_status(error, || Ok(api::add_metrics(&values?)?)) }
}

unsafe extern "C" fn context_names(context: u32, names: *mut u32, len: usize) -> usize {
    let names = if names.is_null() {
        &mut []
    } else {
        // SAFETY: the caller passes `len` writable numbers.
        unsafe { std::slice::from_raw_parts_mut(names, len) }
    };
    let source = if context == 1 { ContextSource::Python } else { ContextSource::Shadow };
    catch_panic(0, || api::context_names(source, names))
}

extern "C" fn state_name() -> u32 {
    api::state_name()
}

extern "C" fn scope_enter_timed(name: u32, kind: u8) -> u64 {
    api::enter_timed(name, kind)
}

extern "C" fn scope_exit_timed(name: u32) -> u64 {
    api::exit_timed(name)
}

extern "C" fn ticks() -> u64 {
    api::now_ticks()
}

extern "C" fn monotonic_nanos(ticks: u64) -> u64 {
    catch_panic(0, || api::monotonic_nanos(ticks))
}

// Detached scopes.

/// Borrows a scope that `detached_enter` returned.
///
/// # Safety
/// `scope` is null or was returned by `detached_enter` and not released yet.
unsafe fn borrow<'a>(scope: *const Detached) -> Option<&'a Detached> {
    // SAFETY: guaranteed by the caller.
    unsafe { scope.as_ref() }
}

unsafe extern "C" fn detached_enter(
    parent: *const Detached,
    name: u32,
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
        api::enter_in_task(parent, name, NodeKind::from_u8(kind))
            .map_or(std::ptr::null(), Arc::into_raw)
    })
}

extern "C" fn detached_here() -> *const Detached {
    catch_panic(std::ptr::null(), || {
        api::detach_innermost().map_or(std::ptr::null(), Arc::into_raw)
    })
}

unsafe extern "C" fn detached_operator_enter(scope: *const Detached, name: u32) -> u64 {
    // SAFETY: guaranteed by the caller, as in `borrow`.
    let scope = unsafe { borrow(scope) };
    catch_panic(0, || scope.map_or(0, |scope| api::enter_operator_in(scope, name)))
}

unsafe extern "C" fn detached_exit(scope: *const Detached) {
    // SAFETY: guaranteed by the caller.
    let scope = unsafe { borrow(scope) };
    catch_panic((), || scope.map_or((), Detached::exit));
}

unsafe extern "C" fn detached_add_metrics(
    scope: *const Detached,
    values: *const MetricArg,
    len: usize,
    error: *mut ErrorBuffer,
) -> i32 {
    // SAFETY: guaranteed by the caller, as in `add_metrics` and `borrow`.
    let (scope, values) = unsafe { (borrow(scope), read_metrics(values, len)) };
    // SAFETY: the caller passes a writable error buffer or null.
    unsafe {
        ptr::call_with_status(error, || Ok(ptr::non_null(scope, "scope")?.add_metrics(&values?)?))
    }
}

unsafe extern "C" fn detached_release(scope: *const Detached) {
    if !scope.is_null() {
        // SAFETY: the caller gives back the reference that `detached_enter` returned, once.
        catch_panic((), || drop(unsafe { Arc::from_raw(scope) }));
    }
}

unsafe extern "C" fn detached_id(scope: *const Detached) -> u64 {
    // SAFETY: guaranteed by the caller.
    unsafe { borrow(scope) }.map_or(0, Detached::id)
}

// PyTorch.

extern "C" fn torch_shapes(shapes: u32, fields: u64) {
    let shapes = match shapes {
        1 => Shapes::Sampled,
        2 => Shapes::All,
        _ => Shapes::Off,
    };
    catch_panic((), || shapes::set(shapes, InputFields::from_packed(fields)));
}

unsafe extern "C" fn torch_operators(
    is_on: bool,
    sequence: u8,
    forward_thread: u8,
    error: *mut ErrorBuffer,
) -> i32 {
    // SAFETY: the caller passes a writable error buffer or null.
    unsafe {
        ptr::call_with_status(error, || {
            if is_on {
                operators::start(Fields { sequence, forward_thread })
                    .map_err(|reason| Failure::unsupported(reason.to_string()))
            } else {
                operators::stop();
                Ok(())
            }
        })
    }
}

// Performance counters.

unsafe extern "C" fn performance_events(
    names: *const c_char,
    names_len: usize,
    error: *mut ErrorBuffer,
) -> i32 {
    // SAFETY: the caller passes a readable text, and a writable error buffer or null.
    unsafe {
        ptr::call_with_status(error, || {
            let names = read_text(names, names_len, "names")?;
            let names: Vec<_> = names.split(',').filter(|name| !name.trim().is_empty()).collect();
            Ok(api::set_performance_events(&names)?)
        })
    }
}

unsafe extern "C" fn performance_counts(metrics: *mut u32, counts: *mut u64, len: usize) -> usize {
    let totals = catch_panic(Vec::new(), api::performance_totals);
    if !metrics.is_null() && !counts.is_null() {
        for (index, &(metric, count)) in totals.iter().enumerate().take(len) {
            // SAFETY: the caller passes two arrays of `len` writable numbers.
            unsafe {
                *metrics.add(index) = metric;
                *counts.add(index) = count;
            }
        }
    }
    totals.len()
}

unsafe extern "C" fn torch_ids(is_on: bool, error: *mut ErrorBuffer) -> i32 {
    // SAFETY: the caller passes a writable error buffer or null.
    unsafe {
        ptr::call_with_status(error, || {
            if is_on {
                ids::start().map_err(|reason| Failure::unsupported(reason.to_string()))
            } else {
                ids::stop();
                Ok(())
            }
        })
    }
}

// Notes.

unsafe extern "C" fn note(
    key: *const c_char,
    key_len: usize,
    text: *const c_char,
    text_len: usize,
) {
    // SAFETY: the caller passes two readable texts with their lengths.
    let texts = unsafe { (read_text(key, key_len, "key"), read_text(text, text_len, "text")) };
    if let (Ok(key), Ok(text)) = texts {
        catch_panic((), || marey_record::device::note(key.into_owned(), text.into_owned()));
    }
}

// Collectives.

unsafe extern "C" fn record_collectives(collectives: *const CollectiveArg, len: usize) {
    if collectives.is_null() {
        return;
    }
    // SAFETY: the caller passes `len` collectives.
    let collectives = unsafe { std::slice::from_raw_parts(collectives, len) };
    let positive = |value: i64| u64::try_from(value).ok();
    let name = |name: u32| (name != 0).then_some(name);
    let samples = collectives.iter().map(|collective| Collective {
        name: collective.name,
        group: collective.group,
        group_ranks: name(collective.group_ranks),
        group_size: u32::try_from(collective.group_size).ok(),
        sequence: positive(collective.sequence),
        dtype: name(collective.dtype),
        in_elements: positive(collective.in_elements),
        out_elements: positive(collective.out_elements),
        created_unix_nanos: collective.created_unix_nanos,
        started_unix_nanos: Some(collective.started_unix_nanos).filter(|&nanos| nanos >= 0),
        duration_nanos: positive(collective.duration_nanos),
        state: CollectiveState::ALL
            .get(collective.state as usize)
            .copied()
            .unwrap_or(CollectiveState::Scheduled),
        is_p2p: collective.is_p2p != 0,
    });
    catch_panic((), || api::record_collectives(samples.collect()));
}

unsafe extern "C" fn record_samples(samples: *const StackSample, len: usize, cause: u8) {
    let Some(cause) = SampleCause::from_number(cause).filter(|_| !samples.is_null()) else {
        return;
    };
    // SAFETY: the caller passes `len` samples.
    let samples = unsafe { std::slice::from_raw_parts(samples, len) };
    catch_panic((), || api::record_samples(samples, cause));
}

extern "C" fn needs_sampling() -> bool {
    catch_panic(false, api::needs_sampling)
}

extern "C" fn begin_sampling() -> u32 {
    catch_panic(0, api::begin_sampling)
}

extern "C" fn end_sampling() {
    catch_panic((), api::end_sampling);
}

extern "C" fn is_sample_due(cause: u8) -> bool {
    let cause = SampleCause::from_number(cause);
    catch_panic(false, || cause.is_some_and(api::is_sample_due))
}

unsafe extern "C" fn next_sample(thread: u32, cause: *mut u8, duration_nanos: *mut u64) -> bool {
    let Some((next, duration)) = catch_panic(None, || api::next_sample(thread)) else {
        return false;
    };
    // SAFETY: the caller passes writable numbers or null.
    if let (Some(cause), Some(nanos)) = unsafe { (cause.as_mut(), duration_nanos.as_mut()) } {
        *cause = next as u8;
        *nanos = duration.as_nanos().try_into().unwrap_or(u64::MAX);
    }
    true
}

// Watched variables.

unsafe extern "C" fn record_variables(line: *const LineArg) {
    // SAFETY: null or a line.
    let Some(line) = (unsafe { line.as_ref() }) else { return };
    if line.variables.is_null() {
        return;
    }
    // SAFETY: the caller passes `len` variables.
    let variables = unsafe { std::slice::from_raw_parts(line.variables, line.len) };
    let variables = variables.iter().filter_map(|variable| {
        let value = match variable.tag {
            tag if tag == ValueTag::Int as u32 => MetricValue::Int(variable.integer),
            tag if tag == ValueTag::Float as u32 => MetricValue::Float(variable.real),
            tag if tag == ValueTag::Text as u32 => {
                // SAFETY: the caller passes a readable text with its length.
                let text = unsafe { read_text(variable.text, variable.text_len, "text") };
                MetricValue::Text(text.ok()?.into())
            }
            _ => return None,
        };
        Some(VariableValue { name: variable.name, value_type: variable.value_type, value })
    });
    let &LineArg { os_id, thread_name, file, function, line, .. } = line;
    catch_panic((), || {
        let variables = variables.collect::<Vec<_>>();
        let variables = variables.as_slice();
        api::record_variables(&LineVariables {
            os_id,
            thread_name,
            file,
            function,
            line,
            variables,
        });
    });
}

unsafe extern "C" fn next_request(request: *mut c_char, len: usize) -> usize {
    let Some(text) = catch_panic(None, python_requests::read_watch_request) else { return 0 };
    if text.len() <= len && !request.is_null() {
        // SAFETY: the caller passes a buffer of `len` bytes, which is no part of the text.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), request.cast(), text.len()) };
    }
    text.len()
}

unsafe extern "C" fn answer_request(is_error: bool, text: *const c_char, len: usize) {
    // SAFETY: the caller passes a readable text of `len` bytes.
    let Ok(text) = (unsafe { read_text(text, len, "text") }) else { return };
    let text = text.into_owned();
    catch_panic((), || {
        python_requests::answer_watches(if is_error { Err(text) } else { Ok(text) });
    });
}

// Tasks and Python frames.

extern "C" fn set_task_provider(provider: api::TaskProvider) {
    api::set_task_provider(provider);
}

extern "C" fn set_frame_provider(provider: api::FrameProvider) {
    api::set_frame_provider(provider);
}

unsafe extern "C" fn frame_root(generation: *mut u64) -> u32 {
    let (root, number) = api::frame_root();
    // SAFETY: the caller passes a writable number or null.
    if let Some(generation) = unsafe { generation.as_mut() } {
        *generation = number;
    }
    root
}

extern "C" fn frame_child(parent: u32, name: u32) -> u32 {
    api::frame_child(parent, name)
}
