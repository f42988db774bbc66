//! The entries of the C function table that record data other than scopes: notes about the run,
//! collectives, samples of call stacks, and the values of watched variables.

use crate::ptr::{catch_panic, read_metric, read_text};
use marey_record::api::{
    self, Collective, CollectiveState, DueTask, LineVariables, SampleCause, StackSample,
    VariableValue,
};
use marey_record::table::{CollectiveArg, LineArg, NO_SAMPLE, VariableArg};
use std::ffi::c_char;
use std::time::Duration;

pub(crate) unsafe extern "C" fn note(
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

pub(crate) unsafe extern "C" fn record_collectives(collectives: *const CollectiveArg, len: usize) {
    if collectives.is_null() {
        return;
    }
    // SAFETY: the caller passes `len` readable collectives.
    let collectives = unsafe { std::slice::from_raw_parts(collectives, len) };
    let non_negative = |value: i64| u64::try_from(value).ok();
    let optional_id = |id: u32| (id != 0).then_some(id);
    let samples = collectives.iter().map(|collective| Collective {
        name_id: collective.name,
        group_id: collective.group,
        group_ranks_id: optional_id(collective.group_ranks),
        group_size: u32::try_from(collective.group_size).ok(),
        sequence: non_negative(collective.sequence),
        dtype_id: optional_id(collective.dtype),
        in_elements: non_negative(collective.in_elements),
        out_elements: non_negative(collective.out_elements),
        created_unix_nanos: collective.created_unix_nanos,
        started_unix_nanos: Some(collective.started_unix_nanos).filter(|&nanos| nanos >= 0),
        duration_nanos: non_negative(collective.duration_nanos),
        state: CollectiveState::ALL
            .get(collective.state as usize)
            .copied()
            .unwrap_or(CollectiveState::Scheduled),
        is_p2p: collective.is_p2p != 0,
    });
    catch_panic((), || api::record_collectives(samples.collect()));
}

pub(crate) unsafe extern "C" fn record_samples(samples: *const StackSample, len: usize, cause: u8) {
    let Some(cause) = SampleCause::from_number(cause).filter(|_| !samples.is_null()) else {
        return;
    };
    // SAFETY: the caller passes `len` readable samples.
    let samples = unsafe { std::slice::from_raw_parts(samples, len) };
    catch_panic((), || api::record_samples(samples, cause));
}

pub(crate) extern "C" fn needs_sampling() -> bool {
    catch_panic(false, api::needs_sampling)
}

pub(crate) extern "C" fn find_collectives(is_on: bool) {
    catch_panic((), || api::find_collectives(is_on));
}

pub(crate) extern "C" fn begin_sampling() -> u32 {
    catch_panic(0, api::begin_sampling)
}

pub(crate) extern "C" fn end_sampling() {
    catch_panic((), api::end_sampling);
}

pub(crate) extern "C" fn is_sample_due(cause: u8) -> bool {
    let cause = SampleCause::from_number(cause);
    catch_panic(false, || cause.is_some_and(api::is_sample_due))
}

pub(crate) extern "C" fn next_sample(
    thread: u32,
    cause: Option<&mut u8>,
    duration_nanos: Option<&mut u64>,
) -> bool {
    let Some(due) = catch_panic(None, || api::next_sample(thread)) else { return false };
    let (due_cause, duration) = match due {
        DueTask::Sample(cause, duration) => (cause as u8, duration),
        DueTask::Collective => (NO_SAMPLE, Duration::ZERO),
    };
    if let (Some(cause), Some(nanos)) = (cause, duration_nanos) {
        *cause = due_cause;
        *nanos = duration.as_nanos().try_into().unwrap_or(u64::MAX);
    }
    true
}

pub(crate) unsafe extern "C" fn record_variables(line: Option<&LineArg>) {
    let Some(line) = line else { return };
    if line.variables.is_null() {
        return;
    }
    // SAFETY: the caller passes `len` readable variables.
    let variables = unsafe { std::slice::from_raw_parts(line.variables, line.len) };
    let variables = variables.iter().filter_map(|&VariableArg { ref value, value_type }| {
        let name_id = value.metric;
        // SAFETY: the caller passes values that meet the contract of `read_metrics`.
        let value = unsafe { read_metric(value) }.ok()?;
        Some(VariableValue { name_id, type_id: value_type, value })
    });
    let &LineArg { os_id, thread_name, file, function, line, .. } = line;
    catch_panic((), || {
        let variables = variables.collect::<Vec<_>>();
        let variables = variables.as_slice();
        api::record_variables(&LineVariables {
            os_id,
            thread_name_id: thread_name,
            file_id: file,
            function_id: function,
            line,
            variables,
        });
    });
}
