//! Peak rates of devices by the name that the driver reports. Traces have the name of a device but
//! not its maximum clock, which [`max_flops`](super::max_flops) needs.
//!
//! The rates are for dense matrices and come from the vendors' data sheets. If a data sheet has
//! only rates with sparsity, half of these are listed.

/// The peak rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DevicePeaks {
    /// 10^12 floating-point operations per second for operands of 8, 16, 32 (TF32 if supported) and
    /// 64 bits. 0 if the device has no units for the width.
    tera_flops_per_sec: [f64; 4],
    /// 10^9 bytes per second to and from the device's memory.
    giga_bytes_per_sec: f64,
}

impl DevicePeaks {
    /// Floating-point operations per second for operands of `bits` bits.
    pub fn flops(self, bits: u32) -> Option<f64> {
        let index = super::WIDTHS_BITS.iter().position(|width| *width == bits)?;
        Some(1e12 * self.tera_flops_per_sec[index]).filter(|flops| *flops > 0.0)
    }

    /// Bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        1e9 * self.giga_bytes_per_sec
    }
}

/// The peak rates of the device with this name, if it is in the table.
pub fn device_peaks(name: &str) -> Option<DevicePeaks> {
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let is_word = |word: &&str| words.contains(word);
    DEVICES
        .iter()
        .find(|(required_words, _, _)| required_words.split(' ').all(|word| is_word(&word)))
        .map(|&(_, tera_flops_per_sec, giga_bytes_per_sec)| DevicePeaks {
            tera_flops_per_sec,
            giga_bytes_per_sec,
        })
}

/// For each device the words that its name must contain, the rates in 10^12 operations per second
/// at 8, 16, 32 and 64 bits, and the bandwidth in 10^9 bytes per second. The first match counts, so
/// more specific names come first.
const DEVICES: [(&str, [f64; 4], f64); 34] = [
    // NVIDIA Blackwell architecture technical brief: HGX B200.
    ("B200", [4_500.0, 2_250.0, 1_125.0, 37.0], 8_000.0),
    // NVIDIA H200 Tensor Core GPU data sheet, SXM.
    ("H200 NVL", [1_671.0, 835.5, 417.5, 60.0], 4_800.0),
    ("H200", [1_979.0, 989.5, 494.5, 67.0], 4_800.0),
    // NVIDIA GH200 Grace Hopper Superchip data sheet, 96 GB of HBM3.
    ("GH200", [1_979.0, 989.5, 494.5, 67.0], 4_000.0),
    // NVIDIA H100 Tensor Core GPU data sheet: NVL, PCIe and SXM.
    ("H100 NVL", [1_671.0, 835.5, 417.5, 60.0], 3_900.0),
    ("H100 PCIE", [1_513.0, 756.5, 378.0, 51.0], 2_000.0),
    ("H100", [1_979.0, 989.5, 494.5, 67.0], 3_350.0),
    ("H800", [1_979.0, 989.5, 494.5, 1.0], 3_350.0),
    ("H20", [296.0, 148.0, 74.0, 1.0], 4_000.0),
    // NVIDIA A100 Tensor Core GPU data sheet. Names with PG509 are SXM4 with 40 GB.
    ("A100 SXM4 80GB", [624.0, 312.0, 156.0, 19.5], 2_039.0),
    ("A100 SXM 80GB", [624.0, 312.0, 156.0, 19.5], 2_039.0),
    ("A100 80GB PCIE", [624.0, 312.0, 156.0, 19.5], 1_935.0),
    ("A100", [624.0, 312.0, 156.0, 19.5], 1_555.0),
    ("A800 SXM4 80GB", [624.0, 312.0, 156.0, 19.5], 2_039.0),
    // NVIDIA A30, A40, A10 and A10G data sheets.
    ("A30", [330.0, 165.0, 82.0, 10.3], 933.0),
    ("A40", [299.3, 149.7, 74.8, 0.0], 696.0),
    ("A10", [250.0, 125.0, 62.5, 0.0], 600.0),
    ("A10G", [140.0, 70.0, 35.0, 0.0], 600.0),
    // NVIDIA L40S, L40 and L4 data sheets.
    ("L40S", [733.0, 362.0, 183.0, 0.0], 864.0),
    ("L40", [362.0, 181.0, 90.5, 0.0], 864.0),
    ("L4", [242.5, 121.0, 60.0, 0.0], 300.0),
    // NVIDIA Ada and Ampere GA102 architecture white papers, accumulating in 32 bits.
    ("RTX 4090", [330.3, 165.2, 82.6, 1.3], 1_008.0),
    ("RTX 3090", [284.0, 71.0, 35.6, 0.6], 936.0),
    // NVIDIA V100 and T4 data sheets. V100 has no tensor cores at 8 and 32 bits, T4 none at 32
    // bits.
    ("V100 PCIE", [0.0, 112.0, 14.0, 7.0], 900.0),
    ("V100S PCIE", [0.0, 130.0, 16.4, 8.2], 1_134.0),
    ("V100", [0.0, 125.0, 15.7, 7.8], 900.0),
    ("T4", [130.0, 65.0, 8.1, 0.0], 300.0),
    // NVIDIA P100 data sheet, SXM2.
    ("P100", [0.0, 21.2, 10.6, 5.3], 732.0),
    // AMD Instinct data sheets. Each of the two dies of an MI250 or MI250X is a device.
    ("MI325X", [2_614.9, 1_307.4, 653.7, 163.4], 6_000.0),
    ("MI300X", [2_614.9, 1_307.4, 653.7, 163.4], 5_300.0),
    ("MI250X", [191.5, 191.5, 47.9, 47.9], 1_638.4),
    ("MI250", [181.0, 181.0, 45.3, 45.3], 1_638.4),
    ("MI210", [181.0, 181.0, 45.3, 45.3], 1_638.4),
    ("MI100", [184.6, 184.6, 46.1, 11.5], 1_228.8),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_names_are_found() {
        for (name, tera_at_16_bits, giga_bytes_per_sec) in [
            ("NVIDIA A100-PG509-200", 312.0, 1_555.0),
            ("NVIDIA A100-SXM4-80GB", 312.0, 2_039.0),
            ("NVIDIA A100 80GB PCIe", 312.0, 1_935.0),
            ("NVIDIA A10G", 70.0, 600.0),
            ("Tesla V100-SXM2-32GB", 125.0, 900.0),
            ("NVIDIA H100 80GB HBM3", 989.5, 3_350.0),
            ("NVIDIA H100 PCIe", 756.5, 2_000.0),
            ("NVIDIA H200", 989.5, 4_800.0),
            ("NVIDIA L4", 121.0, 300.0),
            ("Tesla T4", 65.0, 300.0),
            ("AMD Instinct MI250X", 191.5, 1_638.4),
            ("NVIDIA GeForce RTX 4090", 165.2, 1_008.0),
        ] {
            let peaks = device_peaks(name).unwrap();
            let found = (peaks.flops(16), peaks.bytes_per_second());
            assert_eq!(found, (Some(1e12 * tera_at_16_bits), 1e9 * giga_bytes_per_sec), "{name}");
        }
        for unknown in ["", "NVIDIA", "NVIDIA A1000", "Radeon RX 580", "L400"] {
            assert_eq!(device_peaks(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn unsupported_widths_have_no_peak() {
        assert_eq!(device_peaks("Tesla V100-SXM2-16GB").unwrap().flops(8), None);
        assert_eq!(device_peaks("NVIDIA H200").unwrap().flops(12), None);
    }

    #[test]
    fn no_entry_hides_a_later_one() {
        for (index, (words, tera_flops_per_sec, giga_bytes_per_sec)) in DEVICES.iter().enumerate() {
            let found = device_peaks(words).unwrap();
            assert_eq!(
                (found.tera_flops_per_sec, found.giga_bytes_per_sec),
                (*tera_flops_per_sec, *giga_bytes_per_sec),
                "{index}: {words}"
            );
        }
    }
}
