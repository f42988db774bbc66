//! Computes the throughput of `NVLink` for devices without GPM.

use super::query::Report;
use marey_model::counter::DeviceCounter;
use marey_record::api;
use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper_sys::bindings::nvmlFieldValue_t;

/// Bytes in the unit of the link counters.
const KIBIBYTE: f64 = 1024.0;
/// The scope id that means the sum over all links.
const ALL_LINKS: u32 = u32::MAX;
/// The NVML fields of transferred data, with their counters.
const FIELDS: [(u32, DeviceCounter); 2] = [
    (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, DeviceCounter::NvlinkReceived),
    (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, DeviceCounter::NvlinkSent),
];

/// Cumulative counters of the links, from which two readings give the throughput.
#[derive(Debug, Default)]
pub(super) struct Links {
    last_reading: Option<(u64, [u64; FIELDS.len()])>,
}

impl Links {
    /// Reports the throughput since the previous reading.
    pub(super) fn read(
        &mut self,
        device: &Device<'_>,
        report: Report<'_>,
    ) -> Result<(), NvmlError> {
        let counts = read_counts(device)?;
        let now_ticks = api::now_ticks();
        if let Some((last_ticks, last_counts)) = self.last_reading.replace((now_ticks, counts)) {
            let elapsed_secs = api::nanos_between(last_ticks, now_ticks) as f64 / 1e9;
            for (index, (_, counter)) in FIELDS.into_iter().enumerate() {
                // A reset makes the difference negative.
                if let Some(kibibytes) = counts[index].checked_sub(last_counts[index])
                    && elapsed_secs > 0.0
                {
                    report(counter, kibibytes as f64 * KIBIBYTE / elapsed_secs);
                }
            }
        }
        Ok(())
    }
}

/// Returns the sums over all links. Calls NVML itself, because nvml-wrapper queries the first link
/// only.
#[expect(unsafe_code, reason = "a call of NVML")]
fn read_counts(device: &Device<'_>) -> Result<[u64; FIELDS.len()], NvmlError> {
    let lib = device.nvml().lib();
    let Ok(get_values) = lib.nvmlDeviceGetFieldValues.as_ref() else {
        return Err(NvmlError::FunctionNotFound);
    };
    let count = i32::try_from(FIELDS.len()).or(Err(NvmlError::InvalidArg))?;
    // SAFETY: plain integers, for which zero is valid.
    let mut values: [nvmlFieldValue_t; FIELDS.len()] = unsafe { std::mem::zeroed() };
    for (value, (field, _)) in values.iter_mut().zip(FIELDS) {
        (value.fieldId, value.scopeId) = (field, ALL_LINKS);
    }
    // SAFETY: the handle belongs to this NVML, and the array has the length passed.
    nvml_try(unsafe { get_values(device.handle(), count, values.as_mut_ptr()) })?;
    let mut counts = [0; FIELDS.len()];
    for (count, value) in counts.iter_mut().zip(&values) {
        nvml_try(value.nvmlReturn)?;
        // SAFETY: these fields have the type `unsigned long long`, for which all bit patterns are
        // valid.
        *count = unsafe { value.value.ullVal };
    }
    Ok(counts)
}
