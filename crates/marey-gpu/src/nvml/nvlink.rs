//! What went over the `NVLinks` of a device that has no GPM.

use super::query::Tell;
use marey_model::counter::DeviceCounter;
use marey_record::api;
use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper_sys::bindings::nvmlFieldValue_t;

/// Bytes of the unit in which links count.
const KIBIBYTE: f64 = 1024.0;
/// What stands for all links of a device, in place of the number of one.
const ALL_LINKS: u32 = u32::MAX;
/// Counts of data, and the counter of each.
const FIELDS: [(u32, DeviceCounter); 2] = [
    (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, DeviceCounter::NvlinkReceived),
    (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, DeviceCounter::NvlinkSent),
];

/// The links of a device: they count up, so it takes two readings.
#[derive(Debug, Default)]
pub(super) struct Links {
    last: Option<(u64, [u64; FIELDS.len()])>,
}

impl Links {
    /// Tells how fast they went since the reading before.
    pub(super) fn read(&mut self, device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
        let counts = counts(device)?;
        let now_ticks = api::now_ticks();
        if let Some((last_ticks, last_counts)) = self.last.replace((now_ticks, counts)) {
            let seconds = api::nanos_between(last_ticks, now_ticks) as f64 / 1e9;
            for (at, (_, counter)) in FIELDS.into_iter().enumerate() {
                // A reset begins anew.
                if let Some(kibibytes) = counts[at].checked_sub(last_counts[at])
                    && seconds > 0.0
                {
                    tell(counter, kibibytes as f64 * KIBIBYTE / seconds);
                }
            }
        }
        Ok(())
    }
}

/// The counts of all links together, which nvml-wrapper has no call for: it asks for the first link.
#[expect(unsafe_code, reason = "a call of NVML by hand")]
fn counts(device: &Device<'_>) -> Result<[u64; FIELDS.len()], NvmlError> {
    let lib = device.nvml().lib();
    let Ok(get_values) = lib.nvmlDeviceGetFieldValues.as_ref() else {
        return Err(NvmlError::FunctionNotFound);
    };
    let count = i32::try_from(FIELDS.len()).or(Err(NvmlError::InvalidArg))?;
    // SAFETY: plain numbers, for which zero is a value.
    let mut values: [nvmlFieldValue_t; FIELDS.len()] = unsafe { std::mem::zeroed() };
    for (value, (field, _)) in values.iter_mut().zip(FIELDS) {
        (value.fieldId, value.scopeId) = (field, ALL_LINKS);
    }
    // SAFETY: the handle is this NVML's, and the array is as long as the call is told.
    nvml_try(unsafe { get_values(device.handle(), count, values.as_mut_ptr()) })?;
    let mut counts = [0; FIELDS.len()];
    for (count, value) in counts.iter_mut().zip(&values) {
        nvml_try(value.nvmlReturn)?;
        // SAFETY: these fields are `unsigned long long`, and any bits are a number.
        *count = unsafe { value.value.ullVal };
    }
    Ok(counts)
}
