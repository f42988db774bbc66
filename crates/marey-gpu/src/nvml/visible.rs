//! Finds the devices that the process uses, with CUDA's device numbers.
//!
//! NVML lists every device of the machine in PCI bus order. A program sees the devices in
//! `CUDA_VISIBLE_DEVICES`, numbered from 0, and CUPTI's records contain those numbers. Once the
//! program has initialised the driver, the driver reports the UUIDs of the visible devices and
//! which of them are in use. So eight ranks that each see eight devices read one device each.
//! Before that, the variable is evaluated as far as possible. Its numbers may follow another order
//! (`CUDA_DEVICE_ORDER`), which matters if the devices differ.

use crate::cupti;
use crate::cupti::driver::Driver;
use marey_record::environment;
use nvml_wrapper::{Device, Nvml};

/// A visible device.
#[derive(Debug)]
pub(super) struct VisibleDevice {
    /// CUDA device number.
    pub(super) number: u32,
    /// UUID.
    pub(super) uuid: String,
    pub(super) device: Device<'static>,
}

/// The environment variable that selects and orders a program's devices.
const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// The prefixes of the UUIDs of GPUs and of MIG instances.
const GPU_PREFIX: &str = "GPU-";
const MIG_PREFIX: &str = "MIG-";

/// Returns the devices that the process uses. Before it uses any, returns the visible ones.
pub(super) fn devices(nvml: &'static Nvml) -> Vec<VisibleDevice> {
    let reported = cupti::without_recording(|| driver_devices(nvml));
    reported.filter(|reported| !reported.is_empty()).unwrap_or_else(|| environment_devices(nvml))
}

/// Returns the devices as the driver reports them, `None` if the program has not initialised it.
fn driver_devices(nvml: &'static Nvml) -> Option<Vec<VisibleDevice>> {
    if !Driver::is_started() {
        return None;
    }
    let driver = Driver::get().ok()?;
    let used_numbers: Vec<_> =
        (0..driver.device_count).filter(|&number| driver.has_active_context(number)).collect();
    let numbers =
        if used_numbers.is_empty() { (0..driver.device_count).collect() } else { used_numbers };
    let visible_device = |number| {
        let uuid = driver.uuid(number)?;
        let device = gpu_by_uuid(nvml, &format!("{GPU_PREFIX}{uuid}"));
        VisibleDevice::new(
            number,
            device.or_else(|| gpu_by_uuid(nvml, &format!("{MIG_PREFIX}{uuid}")))?,
        )
    };
    Some(numbers.into_iter().filter_map(visible_device).collect())
}

fn environment_devices(nvml: &'static Nvml) -> Vec<VisibleDevice> {
    let variable = environment::text(VISIBLE_DEVICES);
    let devices: Vec<_> = match variable.as_deref() {
        None => every_device(nvml).collect(),
        // As in CUDA, names after an invalid one are ignored.
        Some(names) => {
            names.split(',').map_while(|name| device_by_name(nvml, name.trim())).collect()
        }
    };
    (0..).zip(devices).filter_map(|(number, device)| VisibleDevice::new(number, device)).collect()
}

fn every_device(nvml: &'static Nvml) -> impl Iterator<Item = Device<'static>> {
    (0..nvml.device_count().unwrap_or(0)).filter_map(|index| nvml.device_by_index(index).ok())
}

impl VisibleDevice {
    fn new(number: u32, device: Device<'static>) -> Option<Self> {
        Some(Self { number, uuid: device.uuid().ok()?, device })
    }
}

/// Returns the device of a name: a number, or a prefix of a UUID.
fn device_by_name(nvml: &'static Nvml, name: &str) -> Option<Device<'static>> {
    if let Ok(index) = name.parse() {
        return nvml.device_by_index(index).ok();
    }
    if name.starts_with(MIG_PREFIX) {
        return gpu_by_uuid(nvml, name);
    }
    let matches_name = |device: &Device<'_>| device.uuid().is_ok_and(|uuid| uuid.starts_with(name));
    let mut matching = every_device(nvml).filter(matches_name);
    matching.next().filter(|_| name.starts_with(GPU_PREFIX) && matching.next().is_none())
}

/// Returns the GPU with a UUID. For a MIG instance, returns its GPU, which has the counters.
fn gpu_by_uuid(nvml: &'static Nvml, uuid: &str) -> Option<Device<'static>> {
    let device = nvml.device_by_uuid(uuid).ok()?;
    if uuid.starts_with(MIG_PREFIX) { device.mig_parent_device().ok() } else { Some(device) }
}
