//! What there is to read, for who asks before recording.

use super::error::Unavailable;
use super::library;
use nvml_wrapper::{Device, Nvml};

/// The library, its versions and its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Path or name of the library.
    pub library: String,
    /// Version of the driver, if NVML tells it.
    pub driver_version: Option<String>,
    /// Version of NVML, if it tells it.
    pub nvml_version: Option<String>,
    /// The devices, in the order of their numbers.
    pub devices: Vec<ProbedDevice>,
}

/// A device, or why it cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedDevice {
    /// Its number by the order of PCI buses, as `nvidia-smi` has it.
    pub index: u32,
    /// What is known of it, or what NVML says instead.
    pub about: Result<AboutDevice, String>,
}

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AboutDevice {
    /// Name of the model.
    pub name: String,
    /// What names it on every machine, and in `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Its memory, if it tells.
    pub memory_bytes: Option<u64>,
    /// Whether it has the counters of GPM.
    pub has_gpm: bool,
}

/// Looks for the library and its devices. Takes as long as the driver does to wake them.
pub fn probe() -> Result<Probe, Unavailable> {
    let nvml = library::open()?;
    let library = library::name();
    let count = nvml.device_count().map_err(|error| Unavailable::not_started(&library, &error))?;
    Ok(Probe {
        library,
        driver_version: nvml.sys_driver_version().ok(),
        nvml_version: nvml.sys_nvml_version().ok(),
        devices: (0..count)
            .map(|index| ProbedDevice { index, about: about(nvml, index) })
            .collect(),
    })
}

fn about(nvml: &Nvml, index: u32) -> Result<AboutDevice, String> {
    let ask = |device: &Device<'_>| {
        Ok(AboutDevice {
            name: device.name()?,
            uuid: device.uuid()?,
            memory_bytes: device.memory_info().ok().map(|memory| memory.total),
            has_gpm: device.gpm_support().unwrap_or(false),
        })
    };
    let about: Result<_, nvml_wrapper::error::NvmlError> =
        nvml.device_by_index(index).and_then(|device| ask(&device));
    about.map_err(|error| error.to_string())
}
