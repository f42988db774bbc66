//! The counters that marey reads of devices, declared once. The reference page is generated from this
//! table.

/// Declares the counters: the name with its unit, and what it means.
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

            /// Its name in the table `counters`, with its unit; one without a unit is a number or a flag.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// One sentence for the reference page.
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)+ }
            }
        }
    };
}

counters! {
    Utilization "gpu_utilization (%)" "Share of the driver's last sampling period in which a kernel ran.",
    MemoryUtilization "gpu_memory_utilization (%)" "Share of that period in which device memory was read or written.",
    MemoryUsed "gpu_memory_used (bytes)" "Device memory that is allocated, by all processes; without what the driver reserves where it tells the two apart.",
    MemoryFree "gpu_memory_free (bytes)" "Device memory that can be allocated.",
    MemoryTotal "gpu_memory_total (bytes)" "Device memory in all; read once a second.",
    Power "gpu_power (W)" "Power draw of the board, averaged over a second on most devices.",
    PowerLimit "gpu_power_limit (W)" "The limit that is enforced; read once a second.",
    Energy "gpu_energy (J)" "Energy since the driver was loaded; the difference of two rows is what was used between them.",
    Temperature "gpu_temperature (C)" "Temperature of the chip.",
    SmClock "gpu_sm_clock (MHz)" "Clock of the multiprocessors.",
    MemoryClock "gpu_memory_clock (MHz)" "Clock of the memory.",
    ThrottleIdle "gpu_throttle_idle" "1 while clocks are low because nothing runs, else 0.",
    ThrottleApplicationClocks "gpu_throttle_application_clocks" "1 while clocks are held down by the application clocks that were set.",
    ThrottleSwPowerCap "gpu_throttle_sw_power_cap" "1 while the driver lowers clocks to keep to the power limit.",
    ThrottleHwSlowdown "gpu_throttle_hw_slowdown" "1 while the hardware halves clocks or worse: heat, power brake or power draw.",
    ThrottleSyncBoost "gpu_throttle_sync_boost" "1 while clocks follow another device of a sync boost group.",
    ThrottleSwThermal "gpu_throttle_sw_thermal" "1 while the driver lowers clocks because of heat.",
    ThrottleHwThermal "gpu_throttle_hw_thermal" "1 while the hardware lowers clocks because of heat.",
    ThrottleHwPowerBrake "gpu_throttle_hw_power_brake" "1 while the power supply asks the hardware for lower clocks.",
    ThrottleDisplayClocks "gpu_throttle_display_clocks" "1 while clocks are held down by those of the display.",
    EccCorrected "gpu_ecc_corrected" "Memory errors that were corrected since the driver was loaded; read once a second.",
    EccUncorrected "gpu_ecc_uncorrected" "Memory errors that were not corrected since the driver was loaded; read once a second.",
    PcieGeneration "gpu_pcie_generation" "Generation of the PCIe link now; read once a second.",
    PcieWidth "gpu_pcie_width" "Lanes of the PCIe link now; read once a second.",
    PcieReceived "gpu_pcie_rx (bytes/s)" "What came over PCIe: of the whole period where the device has GPM, else of 20 ms once a second.",
    PcieSent "gpu_pcie_tx (bytes/s)" "What went over PCIe, in the same way.",
    NvlinkReceived "gpu_nvlink_rx (bytes/s)" "What came over all NVLinks, over the period.",
    NvlinkSent "gpu_nvlink_tx (bytes/s)" "What went over all NVLinks, over the period.",
    GraphicsActive "gpu_graphics_active (%)" "Share of the period in which any engine of graphics or compute was busy (GPM).",
    SmActive "gpu_sm_active (%)" "Share of multiprocessors that were busy, over the period (GPM).",
    SmOccupancy "gpu_sm_occupancy (%)" "Warps that were resident, of those that there could be, over the period (GPM).",
    IntegerActive "gpu_integer_active (%)" "How busy the pipes for whole numbers were (GPM).",
    TensorActive "gpu_tensor_active (%)" "How busy the tensor cores were, in any type (GPM).",
    TensorFp64Active "gpu_tensor_fp64_active (%)" "How busy the tensor cores were with double precision (GPM).",
    TensorFp16Active "gpu_tensor_fp16_active (%)" "How busy the tensor cores were with half precision (GPM).",
    TensorIntegerActive "gpu_tensor_integer_active (%)" "How busy the tensor cores were with whole numbers (GPM).",
    DramActive "gpu_dram_active (%)" "Bandwidth of device memory that was used, of what there is (GPM).",
    Fp64Active "gpu_fp64_active (%)" "How busy the pipes for double precision were (GPM).",
    Fp32Active "gpu_fp32_active (%)" "How busy the pipes for single precision were (GPM).",
    Fp16Active "gpu_fp16_active (%)" "How busy the pipes for half precision were, without tensor cores (GPM).",
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_stands_twice_and_each_is_at_its_number() {
        let names: HashSet<_> = DeviceCounter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), DeviceCounter::ALL.len());
        for (number, counter) in DeviceCounter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, number);
            assert!(counter.name().starts_with("gpu_") && counter.doc().ends_with('.'));
        }
    }
}
