//! The questions that a device is asked, and which counters each answers.

use marey_model::counter::DeviceCounter;
use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor,
};
use nvml_wrapper::error::NvmlError;

/// What takes the answers.
pub(super) type Tell<'a> = &'a mut dyn FnMut(DeviceCounter, f64);

/// A question to a device: one call, or a few that succeed or fail together.
#[derive(Debug)]
pub(super) struct Query {
    /// Whether it is asked once a second only: the answer hardly changes, or takes long.
    pub(super) is_slow: bool,
    pub(super) ask: fn(&Device<'_>, Tell<'_>) -> Result<(), NvmlError>,
}

/// What every device is asked.
pub(super) const QUERIES: &[Query] = &[
    Query { is_slow: false, ask: utilization },
    Query { is_slow: false, ask: memory },
    Query { is_slow: false, ask: power },
    Query { is_slow: false, ask: energy },
    Query { is_slow: false, ask: temperature },
    Query { is_slow: false, ask: sm_clock },
    Query { is_slow: false, ask: memory_clock },
    Query { is_slow: false, ask: throttle_reasons },
    Query { is_slow: true, ask: memory_total },
    Query { is_slow: true, ask: power_limit },
    Query { is_slow: true, ask: ecc_errors },
    Query { is_slow: true, ask: pcie_link },
];

/// What a device without GPM is asked besides. NVML measures for 20 ms each way, in the call.
pub(super) const PCIE_THROUGHPUT: Query = Query { is_slow: true, ask: pcie_throughput };

fn utilization(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    let rates = device.utilization_rates()?;
    tell(DeviceCounter::Utilization, rates.gpu.into());
    tell(DeviceCounter::MemoryUtilization, rates.memory.into());
    Ok(())
}

fn memory(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    let memory = device.memory_info()?;
    tell(DeviceCounter::MemoryUsed, memory.used as f64);
    tell(DeviceCounter::MemoryFree, memory.free as f64);
    Ok(())
}

fn memory_total(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    tell(DeviceCounter::MemoryTotal, device.memory_info()?.total as f64);
    Ok(())
}

/// Milliwatts as watts, and millijoules as joules.
const MILLI: f64 = 1e3;

fn power(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    tell(DeviceCounter::Power, f64::from(device.power_usage()?) / MILLI);
    Ok(())
}

fn power_limit(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    tell(DeviceCounter::PowerLimit, f64::from(device.enforced_power_limit()?) / MILLI);
    Ok(())
}

fn energy(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    tell(DeviceCounter::Energy, device.total_energy_consumption()? as f64 / MILLI);
    Ok(())
}

fn temperature(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    tell(DeviceCounter::Temperature, device.temperature(TemperatureSensor::Gpu)?.into());
    Ok(())
}

fn sm_clock(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    tell(DeviceCounter::SmClock, device.clock_info(Clock::SM)?.into());
    Ok(())
}

fn memory_clock(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    tell(DeviceCounter::MemoryClock, device.clock_info(Clock::Memory)?.into());
    Ok(())
}

/// Each reason has a counter of its own, so that an average is a share of time.
const THROTTLE_REASONS: [(ThrottleReasons, DeviceCounter); 9] = [
    (ThrottleReasons::GPU_IDLE, DeviceCounter::ThrottleIdle),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, DeviceCounter::ThrottleApplicationClocks),
    (ThrottleReasons::SW_POWER_CAP, DeviceCounter::ThrottleSwPowerCap),
    (ThrottleReasons::HW_SLOWDOWN, DeviceCounter::ThrottleHwSlowdown),
    (ThrottleReasons::SYNC_BOOST, DeviceCounter::ThrottleSyncBoost),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, DeviceCounter::ThrottleSwThermal),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, DeviceCounter::ThrottleHwThermal),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, DeviceCounter::ThrottleHwPowerBrake),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, DeviceCounter::ThrottleDisplayClocks),
];

fn throttle_reasons(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    let reasons = device.current_throttle_reasons()?;
    for (reason, counter) in THROTTLE_REASONS {
        tell(counter, f64::from(u8::from(reasons.contains(reason))));
    }
    Ok(())
}

fn ecc_errors(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    let errors = |kind| device.total_ecc_errors(kind, EccCounter::Volatile);
    tell(DeviceCounter::EccCorrected, errors(MemoryError::Corrected)? as f64);
    tell(DeviceCounter::EccUncorrected, errors(MemoryError::Uncorrected)? as f64);
    Ok(())
}

fn pcie_link(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    tell(DeviceCounter::PcieGeneration, device.current_pcie_link_gen()?.into());
    tell(DeviceCounter::PcieWidth, device.current_pcie_link_width()?.into());
    Ok(())
}

fn pcie_throughput(device: &Device<'_>, tell: Tell<'_>) -> Result<(), NvmlError> {
    const BYTES_PER_KILOBYTE: f64 = 1e3;
    let bytes =
        |way| Ok::<_, NvmlError>(f64::from(device.pcie_throughput(way)?) * BYTES_PER_KILOBYTE);
    tell(DeviceCounter::PcieReceived, bytes(PcieUtilCounter::Receive)?);
    tell(DeviceCounter::PcieSent, bytes(PcieUtilCounter::Send)?);
    Ok(())
}

/// What an error means for what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The device or its driver does not have it, and never will.
    NotThere,
    /// This process may not know.
    Forbidden,
    /// The device answers nothing any more.
    Lost,
    /// There is no answer this time.
    ThisTime,
}

// Codes that nvml-wrapper has no names for.
const ARGUMENT_VERSION_MISMATCH: u32 = 25;
const DEPRECATED: u32 = 26;
const GPU_NOT_FOUND: u32 = 28;

impl From<&NvmlError> for Refusal {
    fn from(error: &NvmlError) -> Self {
        match error {
            NvmlError::NotSupported
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::InvalidArg
            | NvmlError::UnexpectedVariant(ARGUMENT_VERSION_MISMATCH | DEPRECATED) => {
                Self::NotThere
            }
            NvmlError::NoPermission => Self::Forbidden,
            NvmlError::GpuLost
            | NvmlError::ResetRequired
            | NvmlError::UnexpectedVariant(GPU_NOT_FOUND)
            | NvmlError::Uninitialized => Self::Lost,
            _ => Self::ThisTime,
        }
    }
}
