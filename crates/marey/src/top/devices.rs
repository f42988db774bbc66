//! Reads the load of the GPUs of this machine from NVML, which shows it to any process.

use marey_model::env;
use marey_model::quantity::Size;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;

/// The library of NVML, by the name that the loader of the system resolves.
const DEFAULT_LIBRARY: &str = "libnvidia-ml.so.1";

/// The load of one GPU at one time. A fact that NVML withholds is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DeviceLoad {
    /// Number of the device in NVML, which `CUDA_VISIBLE_DEVICES` does not change.
    index: u32,
    /// Percentage of NVML's last sample period in which a kernel of any process ran.
    utilization_percent: Option<u32>,
    used_bytes: Option<u64>,
    total_bytes: Option<u64>,
    /// Memory of the sampled process, if it uses the device and is in the pid namespace of the
    /// driver.
    process_bytes: Option<u64>,
    /// Whether NVML lists the process as one that uses the device.
    #[serde(skip)]
    has_process: bool,
}

impl DeviceLoad {
    /// Describes the device in a few words.
    pub(super) fn describe(&self) -> String {
        let utilization = self.utilization_percent.map(|percent| format!("{percent} %"));
        let memory = self.used_bytes.zip(self.total_bytes);
        let memory = memory.map(|(used, total)| format!("{} of {}", Size(used), Size(total)));
        let process = self.process_bytes.map(|bytes| format!("{} of this process", Size(bytes)));
        let facts: Vec<_> = [utilization, memory, process].into_iter().flatten().collect();
        format!("GPU {} {}", self.index, facts.join(", ")).trim_end().to_owned()
    }
}

/// Reads the GPUs. There are none without NVML.
pub(super) struct Devices {
    nvml: Option<Nvml>,
}

impl Devices {
    /// Loads NVML, if the machine has it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the process is our own, or Python holds the GIL"
    )]
    pub(super) fn open() -> Self {
        let path = std::env::var_os(env::NVML_LIB).filter(|path| !path.is_empty());
        let path = path.unwrap_or_else(|| DEFAULT_LIBRARY.into());
        Self { nvml: Nvml::builder().lib_path(&path).init().ok() }
    }

    /// Reads the GPUs that a process uses. Returns all GPUs if NVML lists the process on none.
    pub(super) fn read(&self, pid: u32) -> Vec<DeviceLoad> {
        let Some(nvml) = &self.nvml else { return Vec::new() };
        let indexes = 0..nvml.device_count().unwrap_or(0);
        let mut devices: Vec<_> = indexes.filter_map(|index| read(nvml, index, pid)).collect();
        if devices.iter().any(|device| device.has_process) {
            devices.retain(|device| device.has_process);
        }
        devices
    }
}

/// Reads one GPU. Returns `None` if it cannot be reached.
fn read(nvml: &Nvml, index: u32, pid: u32) -> Option<DeviceLoad> {
    let device = nvml.device_by_index(index).ok()?;
    let memory = device.memory_info().ok();
    let process = process_memory(&device, pid);
    Some(DeviceLoad {
        index,
        utilization_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
        used_bytes: memory.as_ref().map(|memory| memory.used),
        total_bytes: memory.as_ref().map(|memory| memory.total),
        has_process: process.is_some(),
        process_bytes: match process {
            Some(UsedGpuMemory::Used(bytes)) => Some(bytes),
            Some(UsedGpuMemory::Unavailable) | None => None,
        },
    })
}

/// Returns the memory of a process on a device, which NVML may withhold. `None` if the process does
/// not use the device.
fn process_memory(device: &Device, pid: u32) -> Option<UsedGpuMemory> {
    let processes = device.running_compute_processes().ok()?;
    let process = processes.into_iter().find(|process| process.pid == pid)?;
    Some(process.used_gpu_memory)
}
