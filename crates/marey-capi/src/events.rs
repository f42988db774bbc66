//! The entries of the C function table that intern names and that record the events of the
//! calling thread: scopes, operators, steps, states and metrics.
//!
//! The functions that enter and exit scopes need no [`catch_panic`]: they index nothing and unwrap
//! nothing, so they cannot panic.

use crate::ptr::{call_with_status, catch_panic, read_metrics, read_text, send};
use marey_model::loss::LossCause;
use marey_model::op_cost;
use marey_record::table::{ErrorBuffer, MetricArg, NO_METRIC, Sink};
use marey_record::{ContextSource, api};
use marey_torch::shapes;
use std::ffi::{c_char, c_void};

pub(crate) unsafe extern "C" fn intern(name: *const c_char, len: usize) -> u32 {
    // SAFETY: the caller passes a readable name of `len` bytes, as the header requires.
    let name = unsafe { read_text(name, len, "name") };
    catch_panic(0, || name.map_or(0, |name| api::intern(&name)))
}

pub(crate) unsafe extern "C" fn intern_metric(name: *const c_char, len: usize) -> u32 {
    // SAFETY: the caller passes a readable name of `len` bytes, as the header requires.
    let name = unsafe { read_text(name, len, "name") };
    catch_panic(NO_METRIC, || {
        name.ok().and_then(|name| api::intern_metric(&name)).unwrap_or(NO_METRIC)
    })
}

pub(crate) unsafe extern "C" fn name_text(name_id: u32, sink: Option<Sink>, context: *mut c_void) {
    let name = catch_panic(None, || Some(api::name(name_id)));
    if let Some(name) = name {
        // SAFETY: the caller passes a function that takes bytes and this context.
        unsafe { send(sink, context, name.as_bytes()) };
    }
}

pub(crate) extern "C" fn scope_enter(name_id: u32, kind: u8) -> u64 {
    api::enter_kind(name_id, kind)
}

pub(crate) extern "C" fn scope_exit(name_id: u32) -> u64 {
    api::exit(name_id)
}

pub(crate) extern "C" fn operator_enter(name_id: u32) -> u64 {
    api::enter_operator(name_id)
}

pub(crate) extern "C" fn operator_exit(name_id: u32) -> u64 {
    api::exit_operator(name_id)
}

pub(crate) extern "C" fn operator_exit_id(scope_id: u64) -> u64 {
    api::exit_operator_with_id(scope_id)
}

pub(crate) extern "C" fn scope_exit_autograd(name_id: u32, sequence: u64, forward_os_id: u64) {
    api::exit_autograd(name_id, api::AutogradCall { sequence, forward_os_id });
}

pub(crate) extern "C" fn scope_exit_only(
    scope_id: u64,
    end_ticks: u64,
    sequence: u64,
    forward_os_id: u64,
) -> bool {
    let call = (sequence != u64::MAX).then_some(api::AutogradCall { sequence, forward_os_id });
    api::exit_only_at(scope_id, end_ticks, call)
}

pub(crate) unsafe extern "C" fn operator_flops(
    operator: *const c_char,
    operator_len: usize,
    args: *const c_char,
    args_len: usize,
) -> f64 {
    // SAFETY: the caller passes two readable texts with their lengths.
    let texts = unsafe {
        (read_text(operator, operator_len, "operator"), read_text(args, args_len, "args"))
    };
    let (Ok(operator), Ok(args)) = texts else { return -1.0 };
    catch_panic(-1.0, || {
        let flops = if operator.contains("::") {
            op_cost::flops(&operator, &args)
        } else {
            op_cost::flops(&format!("aten::{operator}"), &args)
        };
        flops.unwrap_or(-1.0)
    })
}

pub(crate) unsafe extern "C" fn scope_args(name_id: u32, json: *const c_char, json_len: usize) {
    if !api::is_tracing() {
        return;
    }
    // SAFETY: the caller passes a readable text of `json_len` bytes, as the header requires.
    let json = unsafe { read_text(json, json_len, "json") };
    if let Ok(json) = json {
        catch_panic((), || {
            api::record_inputs(name_id, api::intern_text(&json));
        });
    }
}

pub(crate) extern "C" fn count_losses(cause: u8, losses: u64) {
    if let Some(&cause) = LossCause::ALL.get(usize::from(cause)) {
        api::count_losses(cause, losses);
    }
}

pub(crate) extern "C" fn state_enter(name_id: u32) {
    api::enter_state(name_id);
}

pub(crate) extern "C" fn state_exit() -> bool {
    api::exit_state()
}

pub(crate) extern "C" fn step_begin() {
    api::step_begin();
}

pub(crate) extern "C" fn step_end() {
    api::step_end();
    shapes::step_end();
}

pub(crate) extern "C" fn top_name() -> u32 {
    api::innermost_name_id()
}

pub(crate) unsafe extern "C" fn add_metrics(
    values: *const MetricArg,
    len: usize,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    // SAFETY: the caller passes `len` readable values, as the header requires.
    let values = unsafe { read_metrics(values, len) };
    call_with_status(error, || Ok(api::add_metrics(&values?)?))
}

pub(crate) unsafe extern "C" fn context_names(
    context_source: u32,
    name_ids: *mut u32,
    len: usize,
) -> usize {
    let name_ids = if name_ids.is_null() {
        &mut []
    } else {
        // SAFETY: the caller passes an array of `len` writable name ids.
        unsafe { std::slice::from_raw_parts_mut(name_ids, len) }
    };
    let source = if context_source == 1 { ContextSource::Python } else { ContextSource::Shadow };
    catch_panic(0, || api::context_name_ids(source, name_ids))
}

pub(crate) extern "C" fn state_name() -> u32 {
    api::state_name_id()
}

pub(crate) extern "C" fn scope_enter_timed(name_id: u32, kind: u8) -> u64 {
    api::enter_timed(name_id, kind)
}

pub(crate) extern "C" fn scope_exit_timed(name_id: u32) -> u64 {
    api::exit_timed(name_id)
}

pub(crate) extern "C" fn ticks() -> u64 {
    api::now_ticks()
}

pub(crate) extern "C" fn monotonic_nanos(ticks: u64) -> u64 {
    catch_panic(0, || api::monotonic_nanos(ticks))
}

pub(crate) unsafe extern "C" fn performance_events(
    names: *const c_char,
    names_len: usize,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    // SAFETY: the caller passes a readable text.
    let names = unsafe { read_text(names, names_len, "names") };
    call_with_status(error, || {
        let names = names?;
        let names: Vec<_> = names.split(',').filter(|name| !name.trim().is_empty()).collect();
        Ok(api::set_performance_events(&names)?)
    })
}

pub(crate) unsafe extern "C" fn possible_performance_events(
    names: *const c_char,
    names_len: usize,
    metric_ids: *mut u32,
    len: usize,
    refusals: Option<Sink>,
    context: *mut c_void,
) -> usize {
    // SAFETY: the caller passes a readable text.
    let Ok(names) = (unsafe { read_text(names, names_len, "names") }) else { return 0 };
    let names: Vec<_> = names.split(',').collect();
    let results = catch_panic(Vec::new(), || api::set_possible_performance_events(&names));
    for (index, result) in results.iter().enumerate() {
        if let Err(refusal) = result {
            // SAFETY: the caller passes a function that takes bytes and this context, or null.
            unsafe { send(refusals, context, refusal.to_string().as_bytes()) };
        }
        if index < len && !metric_ids.is_null() {
            let metric_id = result.as_ref().copied().unwrap_or(NO_METRIC);
            // SAFETY: the caller passes an array of `len` writable numbers.
            unsafe { *metric_ids.add(index) = metric_id };
        }
    }
    results.len()
}

pub(crate) unsafe extern "C" fn performance_counts(
    metric_ids: *mut u32,
    counts: *mut u64,
    len: usize,
) -> usize {
    let totals = catch_panic(Vec::new(), api::performance_totals);
    if !metric_ids.is_null() && !counts.is_null() {
        for (index, &(metric_id, count)) in totals.iter().enumerate().take(len) {
            // SAFETY: the caller passes two arrays of `len` writable numbers.
            unsafe {
                *metric_ids.add(index) = metric_id;
                *counts.add(index) = count;
            }
        }
    }
    totals.len()
}

pub(crate) extern "C" fn set_task_provider(provider: api::TaskProvider) {
    api::set_task_provider(provider);
}

pub(crate) extern "C" fn set_frame_provider(provider: api::FrameProvider) {
    api::set_frame_provider(provider);
}

pub(crate) extern "C" fn frame_root(generation: Option<&mut u64>) -> u32 {
    let (root_id, tree_generation) = api::frame_root();
    if let Some(generation) = generation {
        *generation = tree_generation;
    }
    root_id
}

pub(crate) extern "C" fn frame_child(parent_id: u32, name_id: u32) -> u32 {
    api::frame_child(parent_id, name_id)
}
