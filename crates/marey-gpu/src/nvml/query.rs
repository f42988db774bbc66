//! The NVML queries that a reading makes to a device, and the counters that each reports.

use marey_model::counter::DeviceCounter;
use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor,
};
use nvml_wrapper::error::NvmlError;

/// The receiver of counters and their values.
pub(super) type Report<'a> = &'a mut dyn FnMut(DeviceCounter, f64);

/// A query: one or a few NVML calls that succeed or fail together.
#[derive(Debug)]
pub(super) struct Query {
    /// Whether the query runs only once a second, because its result rarely changes or it takes
    /// long.
    pub(super) is_slow: bool,
    pub(super) run: fn(&Device<'_>, Report<'_>) -> Result<(), NvmlError>,
}

/// Queries to every device.
pub(super) const QUERIES: &[Query] = &[
    Query { is_slow: false, run: utilization },
    Query { is_slow: false, run: memory },
    Query { is_slow: false, run: power },
    Query { is_slow: false, run: energy },
    Query { is_slow: false, run: temperature },
    Query { is_slow: false, run: sm_clock },
    Query { is_slow: false, run: memory_clock },
    Query { is_slow: false, run: throttle_reasons },
    Query { is_slow: true, run: memory_total },
    Query { is_slow: true, run: power_limit },
    Query { is_slow: true, run: ecc_errors },
    Query { is_slow: true, run: pcie_link },
];

/// An additional query to a device without GPM. NVML measures for 20 ms in each direction, within
/// the call.
pub(super) const PCIE_THROUGHPUT: Query = Query { is_slow: true, run: pcie_throughput };

fn utilization(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    let rates = device.utilization_rates()?;
    report(DeviceCounter::Utilization, rates.gpu.into());
    report(DeviceCounter::MemoryUtilization, rates.memory.into());
    Ok(())
}

fn memory(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    let memory = device.memory_info()?;
    report(DeviceCounter::MemoryUsed, memory.used as f64);
    report(DeviceCounter::MemoryFree, memory.free as f64);
    Ok(())
}

fn memory_total(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    report(DeviceCounter::MemoryTotal, device.memory_info()?.total as f64);
    Ok(())
}

/// The divisor from milliwatts to watts, and from millijoules to joules.
const MILLI: f64 = 1e3;

fn power(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    report(DeviceCounter::Power, f64::from(device.power_usage()?) / MILLI);
    Ok(())
}

fn power_limit(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    report(DeviceCounter::PowerLimit, f64::from(device.enforced_power_limit()?) / MILLI);
    Ok(())
}

fn energy(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    report(DeviceCounter::Energy, device.total_energy_consumption()? as f64 / MILLI);
    Ok(())
}

fn temperature(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    report(DeviceCounter::Temperature, device.temperature(TemperatureSensor::Gpu)?.into());
    Ok(())
}

fn sm_clock(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    report(DeviceCounter::SmClock, device.clock_info(Clock::SM)?.into());
    Ok(())
}

fn memory_clock(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    report(DeviceCounter::MemoryClock, device.clock_info(Clock::Memory)?.into());
    Ok(())
}

/// Each reason is a counter of its own, so that an average is a share of time.
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

fn throttle_reasons(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    let reasons = device.current_throttle_reasons()?;
    for (reason, counter) in THROTTLE_REASONS {
        report(counter, f64::from(u8::from(reasons.contains(reason))));
    }
    Ok(())
}

fn ecc_errors(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    let errors = |kind| device.total_ecc_errors(kind, EccCounter::Volatile);
    report(DeviceCounter::EccCorrected, errors(MemoryError::Corrected)? as f64);
    report(DeviceCounter::EccUncorrected, errors(MemoryError::Uncorrected)? as f64);
    Ok(())
}

fn pcie_link(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    report(DeviceCounter::PcieGeneration, device.current_pcie_link_gen()?.into());
    report(DeviceCounter::PcieWidth, device.current_pcie_link_width()?.into());
    Ok(())
}

fn pcie_throughput(device: &Device<'_>, report: Report<'_>) -> Result<(), NvmlError> {
    const BYTES_PER_KILOBYTE: f64 = 1e3;
    let bytes = |direction| {
        Ok::<_, NvmlError>(f64::from(device.pcie_throughput(direction)?) * BYTES_PER_KILOBYTE)
    };
    report(DeviceCounter::PcieReceived, bytes(PcieUtilCounter::Receive)?);
    report(DeviceCounter::PcieSent, bytes(PcieUtilCounter::Send)?);
    Ok(())
}

/// The meaning of an error for the query that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryFailure {
    /// The device or its driver does not support the query.
    Unsupported,
    /// The process lacks the permission.
    Forbidden,
    /// The device no longer responds.
    DeviceLost,
    /// The query failed this time.
    Temporary,
}

// Codes that have no name in nvml-wrapper.
const ARGUMENT_VERSION_MISMATCH: u32 = 25;
const DEPRECATED: u32 = 26;
const GPU_NOT_FOUND: u32 = 28;

impl From<&NvmlError> for QueryFailure {
    fn from(error: &NvmlError) -> Self {
        match error {
            NvmlError::NotSupported
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::InvalidArg
            | NvmlError::UnexpectedVariant(ARGUMENT_VERSION_MISMATCH | DEPRECATED) => {
                Self::Unsupported
            }
            NvmlError::NoPermission => Self::Forbidden,
            NvmlError::GpuLost
            | NvmlError::ResetRequired
            | NvmlError::UnexpectedVariant(GPU_NOT_FOUND)
            | NvmlError::Uninitialized => Self::DeviceLost,
            _ => Self::Temporary,
        }
    }
}
