//! The counters that marey samples: those of devices through NVML, and those of the process from
//! the kernel. Each is declared once, and the reference page is generated from these tables.

/// Declares counters: variant, name with its unit, and description.
macro_rules! counters {
    ($(#[$meta:meta])* $counter:ident: $($variant:ident $name:literal $doc:literal,)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $counter {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl $counter {
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
    /// A counter of a device.
    DeviceCounter:
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

counters! {
    /// A counter of the process or of its machine. A part of the name in brackets stands for one of
    /// several sources.
    SystemCounter:
    ProcessCpu "process_cpu (%)" "CPU time of the process since the previous reading, in percent of one core: 250 is two and a half cores.",
    ThreadCpu "thread_cpu[THREAD] (%)" "The same for a thread, by its name and id in the kernel: the five busiest threads of each reading, if they used at least 1 %. At most 64 threads of a process are named; later ones are summed as `thread_cpu[others] (%)`. With more than 1,024 threads none is read.",
    ProcessRss "process_rss (bytes)" "Resident memory of the process.",
    ProcessVms "process_vms (bytes)" "Virtual memory of the process.",
    MinorFaults "process_minor_faults (1/s)" "Page faults that needed no I/O.",
    MajorFaults "process_major_faults (1/s)" "Page faults that read from storage.",
    VoluntarySwitches "process_voluntary_switches (1/s)" "Context switches because a thread of the process waited.",
    InvoluntarySwitches "process_involuntary_switches (1/s)" "Context switches because a thread of the process had to leave the processor.",
    Read "process_read (bytes/s)" "Bytes that the process read by system calls, from files, pipes and sockets, also from the page cache.",
    Written "process_written (bytes/s)" "Bytes that the process wrote by system calls.",
    StorageRead "process_storage_read (bytes/s)" "Bytes that were read from storage for the process.",
    StorageWritten "process_storage_written (bytes/s)" "Bytes that the process caused to be written to storage.",
    NetworkReceived "network_rx[INTERFACE] (bytes/s)" "Bytes that an interface received, for all processes of the network namespace. Interfaces have rows from their first traffic on, at most 16 of them.",
    NetworkSent "network_tx[INTERFACE] (bytes/s)" "Bytes that an interface sent, as above.",
}

impl SystemCounter {
    /// Returns the name for one of several sources, such as a thread or an interface.
    pub fn name_for(self, source: &str) -> String {
        let name = self.name();
        match (name.find('['), name.find(']')) {
            (Some(start), Some(end)) => format!("{}[{source}{}", &name[..start], &name[end..]),
            _ => name.to_owned(),
        }
    }
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

    #[test]
    fn names_of_the_system_are_unique_and_end_in_their_unit() {
        let names: HashSet<_> = SystemCounter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), SystemCounter::ALL.len());
        for (number, counter) in SystemCounter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, number);
            assert!(counter.name().ends_with(')') && counter.doc().ends_with('.'));
        }
        assert_eq!(SystemCounter::ProcessCpu.name_for("x"), "process_cpu (%)");
        assert_eq!(SystemCounter::NetworkSent.name_for("eth0"), "network_tx[eth0] (bytes/s)");
    }
}
