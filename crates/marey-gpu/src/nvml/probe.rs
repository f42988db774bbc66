//! Queries NVML and its devices, for `marey doctor`.

use super::error::Unavailable;
use super::library;
use nvml_wrapper::{Device, Nvml};

/// The library, its versions and its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Path or name of the library.
    pub library: String,
    /// Version of the driver, if known.
    pub driver_version: Option<String>,
    /// Version of NVML, if known.
    pub nvml_version: Option<String>,
    /// The devices, by number.
    pub devices: Vec<ProbedDevice>,
}

/// A device, or the reason why it cannot be queried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedDevice {
    /// Device number by PCI bus order, as in `nvidia-smi`.
    pub index: u32,
    /// Properties of the device, or NVML's error message.
    pub properties: Result<DeviceProperties, String>,
}

/// Properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProperties {
    /// Model name.
    pub name: String,
    /// UUID, also accepted in `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Memory size, if known.
    pub memory_bytes: Option<u64>,
    /// Whether the device supports GPM.
    pub has_gpm: bool,
}

/// Initialises NVML and queries its devices. Takes as long as the driver needs to wake them.
pub fn probe() -> Result<Probe, Unavailable> {
    let nvml = library::open()?;
    let library = library::name();
    let count = nvml.device_count().map_err(|error| Unavailable::not_started(&library, &error))?;
    Ok(Probe {
        library,
        driver_version: nvml.sys_driver_version().ok(),
        nvml_version: nvml.sys_nvml_version().ok(),
        devices: (0..count)
            .map(|index| ProbedDevice { index, properties: properties(nvml, index) })
            .collect(),
    })
}

fn properties(nvml: &Nvml, index: u32) -> Result<DeviceProperties, String> {
    let query = |device: &Device<'_>| {
        Ok(DeviceProperties {
            name: device.name()?,
            uuid: device.uuid()?,
            memory_bytes: device.memory_info().ok().map(|memory| memory.total),
            has_gpm: device.gpm_support().unwrap_or(false),
        })
    };
    let properties: Result<_, nvml_wrapper::error::NvmlError> =
        nvml.device_by_index(index).and_then(|device| query(&device));
    properties.map_err(|error| error.to_string())
}
