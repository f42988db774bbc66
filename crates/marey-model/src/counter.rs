//! The device counters that marey reads through NVML, declared once. The reference page is
//! generated from this table.

/// Declares the counters: variant, name with its unit, and description.
macro_rules! counters {
    ($($variant:ident $name:literal $doc:literal,)+) => {
        /// A counter of a device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DeviceCounter {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl DeviceCounter {
            /// Every counter, in the order of the reference page.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the name in the table `counters`, with its unit; counts and flags have none.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns the description for the reference page.
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)+ }
            }
        }
    };
}

counters! {
    Utilization "gpu_utilization (%)" "Share of the driver's last sampling period with a kernel running.",
    MemoryUtilization "gpu_memory_utilization (%)" "Share of the driver's last sampling period with device memory being read or written.",
    MemoryUsed "gpu_memory_used (bytes)" "Device memory allocated by all processes, without memory reserved by the driver if the driver reports it separately.",
    MemoryFree "gpu_memory_free (bytes)" "Device memory available for allocation.",
    MemoryTotal "gpu_memory_total (bytes)" "Total device memory; read once a second.",
    Power "gpu_power (W)" "Power draw of the board; most devices average it over one second.",
    PowerLimit "gpu_power_limit (W)" "Enforced power limit; read once a second.",
    Energy "gpu_energy (J)" "Energy used since the driver was loaded; subtract two rows to get the energy used between them.",
    Temperature "gpu_temperature (C)" "Temperature of the chip.",
    SmClock "gpu_sm_clock (MHz)" "Clock rate of the multiprocessors.",
    MemoryClock "gpu_memory_clock (MHz)" "Clock rate of the memory.",
    ThrottleIdle "gpu_throttle_idle" "1 while clocks are low because the GPU is idle, else 0.",
    ThrottleApplicationClocks "gpu_throttle_application_clocks" "1 while clocks are limited by the application clocks setting.",
    ThrottleSwPowerCap "gpu_throttle_sw_power_cap" "1 while the driver lowers clocks to stay within the power limit.",
    ThrottleHwSlowdown "gpu_throttle_hw_slowdown" "1 while the hardware reduces clocks by a factor of two or more, because of temperature, power brake or power draw.",
    ThrottleSyncBoost "gpu_throttle_sync_boost" "1 while clocks follow another device of the sync boost group.",
    ThrottleSwThermal "gpu_throttle_sw_thermal" "1 while the driver lowers clocks because of temperature.",
    ThrottleHwThermal "gpu_throttle_hw_thermal" "1 while the hardware lowers clocks because of temperature.",
    ThrottleHwPowerBrake "gpu_throttle_hw_power_brake" "1 while the external power brake signal makes the hardware lower clocks.",
    ThrottleDisplayClocks "gpu_throttle_display_clocks" "1 while clocks are limited by the display clocks setting.",
    EccCorrected "gpu_ecc_corrected" "Corrected memory errors since the driver was loaded; read once a second.",
    EccUncorrected "gpu_ecc_uncorrected" "Uncorrected memory errors since the driver was loaded; read once a second.",
    PcieGeneration "gpu_pcie_generation" "Current generation of the PCIe link; read once a second.",
    PcieWidth "gpu_pcie_width" "Current number of lanes of the PCIe link; read once a second.",
    PcieReceived "gpu_pcie_rx (bytes/s)" "PCIe receive throughput: over the whole period on devices with GPM, else over 20 ms once a second.",
    PcieSent "gpu_pcie_tx (bytes/s)" "PCIe transmit throughput, measured like `gpu_pcie_rx (bytes/s)`.",
    NvlinkReceived "gpu_nvlink_rx (bytes/s)" "Receive throughput of all NVLinks over the period.",
    NvlinkSent "gpu_nvlink_tx (bytes/s)" "Transmit throughput of all NVLinks over the period.",
    GraphicsActive "gpu_graphics_active (%)" "Share of the period with any graphics or compute engine busy (GPM).",
    SmActive "gpu_sm_active (%)" "Share of multiprocessors that were busy over the period (GPM).",
    SmOccupancy "gpu_sm_occupancy (%)" "Resident warps in percent of the maximum over the period (GPM).",
    IntegerActive "gpu_integer_active (%)" "Utilisation of the integer pipes (GPM).",
    TensorActive "gpu_tensor_active (%)" "Utilisation of the tensor cores, for all types (GPM).",
    TensorFp64Active "gpu_tensor_fp64_active (%)" "Utilisation of the tensor cores by double precision (GPM).",
    TensorFp16Active "gpu_tensor_fp16_active (%)" "Utilisation of the tensor cores by half precision (GPM).",
    TensorIntegerActive "gpu_tensor_integer_active (%)" "Utilisation of the tensor cores by integers (GPM).",
    DramActive "gpu_dram_active (%)" "Bandwidth of device memory in percent of the peak (GPM).",
    Fp64Active "gpu_fp64_active (%)" "Utilisation of the double-precision pipes (GPM).",
    Fp32Active "gpu_fp32_active (%)" "Utilisation of the single-precision pipes (GPM).",
    Fp16Active "gpu_fp16_active (%)" "Utilisation of the half-precision pipes, without tensor cores (GPM).",
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_in_order() {
        let names: HashSet<_> = DeviceCounter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), DeviceCounter::ALL.len());
        for (number, counter) in DeviceCounter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, number);
            assert!(counter.name().starts_with("gpu_") && counter.doc().ends_with('.'));
        }
    }
}
