//! Which devices the process uses, and CUDA's numbers of them.
//!
//! NVML has every device of the machine, by the order of PCI buses. A program has those that
//! `CUDA_VISIBLE_DEVICES` names, counted from 0, and CUPTI's records have those numbers. Once the program has
//! started the driver, the driver tells which these are, by their UUIDs, and which of them are in use: eight
//! ranks that see eight devices ask one each. Before that the variable does, as far as it can: it may name
//! devices by an order of its own (`CUDA_DEVICE_ORDER`), in which unlike devices are others.

use crate::cupti;
use crate::cupti::driver::Driver;
use marey_record::environment;
use nvml_wrapper::{Device, Nvml};

/// A device that the process uses.
#[derive(Debug)]
pub(super) struct Visible {
    /// CUDA's number.
    pub(super) number: u32,
    /// What names it on every machine.
    pub(super) uuid: String,
    pub(super) device: Device<'static>,
}

/// The variable that selects and orders a program's devices.
const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// Prefixes of UUIDs: of whole devices, and of parts (MIG).
const GPU: &str = "GPU-";
const MIG: &str = "MIG-";

/// The devices that the process uses or, as long as it uses none, sees.
pub(super) fn devices(nvml: &'static Nvml) -> Vec<Visible> {
    let told = cupti::unseen(|| told_by_driver(nvml));
    told.filter(|told| !told.is_empty()).unwrap_or_else(|| named_by_environment(nvml))
}

/// `None` as long as the program has not started the driver.
fn told_by_driver(nvml: &'static Nvml) -> Option<Vec<Visible>> {
    if !Driver::is_started() {
        return None;
    }
    let driver = Driver::get().ok()?;
    let used: Vec<_> = (0..driver.device_count).filter(|&number| driver.is_used(number)).collect();
    let numbers = if used.is_empty() { (0..driver.device_count).collect() } else { used };
    let visible = |number| {
        let uuid = driver.uuid(number)?;
        let device = whole(nvml, &format!("{GPU}{uuid}"));
        visible(number, device.or_else(|| whole(nvml, &format!("{MIG}{uuid}")))?)
    };
    Some(numbers.into_iter().filter_map(visible).collect())
}

fn named_by_environment(nvml: &'static Nvml) -> Vec<Visible> {
    let all =
        || (0..nvml.device_count().unwrap_or(0)).filter_map(|it| nvml.device_by_index(it).ok());
    let listed = environment::text(VISIBLE_DEVICES);
    let devices: Vec<_> = match listed.as_deref() {
        None => all().collect(),
        // What comes after a name that is no device's is not visible, nor is it to CUDA.
        Some(names) => names.split(',').map_while(|name| named_device(nvml, name.trim())).collect(),
    };
    (0..).zip(devices).filter_map(|(number, device)| visible(number, device)).collect()
}

fn visible(number: u32, device: Device<'static>) -> Option<Visible> {
    Some(Visible { number, uuid: device.uuid().ok()?, device })
}

/// The device of a name: a number, or the start of a UUID.
fn named_device(nvml: &'static Nvml, name: &str) -> Option<Device<'static>> {
    if let Ok(index) = name.parse() {
        return nvml.device_by_index(index).ok();
    }
    if name.starts_with(MIG) {
        return whole(nvml, name);
    }
    let all = (0..nvml.device_count().ok()?).filter_map(|index| nvml.device_by_index(index).ok());
    let is_meant = |device: &Device<'_>| device.uuid().is_ok_and(|uuid| uuid.starts_with(name));
    let mut meant = all.filter(is_meant);
    meant.next().filter(|_| name.starts_with(GPU) && meant.next().is_none())
}

/// The device with a UUID; of a part of a device the whole, which has the counters.
fn whole(nvml: &'static Nvml, uuid: &str) -> Option<Device<'static>> {
    let device = nvml.device_by_uuid(uuid).ok()?;
    if uuid.starts_with(MIG) { device.mig_parent_device().ok() } else { Some(device) }
}
