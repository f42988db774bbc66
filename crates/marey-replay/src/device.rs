//! Properties of a device in libcuda and libcupti.

use crate::name::Name;
use crate::record::{DeviceRecord, kind};

/// A device of the script; an H200 by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub name: String,
    /// Compute capability, major times ten plus minor: 90.
    pub arch: u32,
    pub multiprocessors: u32,
    pub clock_khz: u32,
    pub memory_clock_khz: u32,
    pub bus_width_bits: u32,
    pub memory_bytes: u64,
    pub l2_bytes: u32,
    /// Last byte of the UUID; by default the device number.
    pub uuid: Option<u8>,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            name: "NVIDIA H200 (replayed)".to_owned(),
            arch: 90,
            multiprocessors: 132,
            clock_khz: 1_980_000,
            memory_clock_khz: 3_201_000,
            bus_width_bits: 6_144,
            memory_bytes: 150_754_820_096,
            l2_bytes: 62_914_560,
            uuid: None,
        }
    }
}

const SHARED_BYTES_PER_BLOCK: u32 = 49_152;
const SHARED_BYTES_PER_MULTIPROCESSOR: u32 = 233_472;
const SHARED_BYTES_PER_BLOCK_OPTIN: u32 = 232_448;
const REGISTERS_PER_MULTIPROCESSOR: u32 = 65_536;

impl Device {
    pub(crate) const fn major(&self) -> u32 {
        self.arch / 10
    }

    pub(crate) const fn minor(&self) -> u32 {
        self.arch % 10
    }

    /// Returns a `CUdevice_attribute`; 0 for attributes that no profiler queries.
    pub(crate) const fn attribute(&self, attribute: u32, index: u32) -> i32 {
        let value = match attribute {
            1..=3 => 1_024,
            4 => 64,
            5 => i32::MAX.cast_unsigned(),
            6 | 7 => 65_535,
            8 => SHARED_BYTES_PER_BLOCK,
            9 => 65_536,
            10 | 106 => 32,
            12 | 82 => REGISTERS_PER_MULTIPROCESSOR,
            13 => self.clock_khz,
            16 => self.multiprocessors,
            15 | 19 | 31 | 41 | 83 | 89 | 95 => 1,
            33 => index + 1,
            36 => self.memory_clock_khz,
            37 => self.bus_width_bits,
            38 => self.l2_bytes,
            39 => 2_048,
            40 => 3,
            75 => self.major(),
            76 => self.minor(),
            81 => SHARED_BYTES_PER_MULTIPROCESSOR,
            97 => SHARED_BYTES_PER_BLOCK_OPTIN,
            _ => 0,
        };
        value.cast_signed()
    }

    /// Returns the UUID, which the double of NVML generates in the same way.
    pub(crate) fn uuid(&self, index: u32) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid[15] = self.uuid.unwrap_or(index as u8);
        uuid
    }

    pub(crate) fn record(&self, index: u32) -> DeviceRecord {
        // Two transfers per clock; kHz times bits gives kilobytes per second.
        let kilobytes_per_sec =
            2 * u64::from(self.memory_clock_khz) * u64::from(self.bus_width_bits) / 8;
        DeviceRecord {
            kind: kind::DEVICE,
            memory_kilobytes_per_sec: kilobytes_per_sec,
            memory_bytes: self.memory_bytes,
            constant_bytes: 65_536,
            l2_bytes: self.l2_bytes,
            threads_per_warp: 32,
            clock_khz: self.clock_khz,
            copy_engines: 3,
            multiprocessors: self.multiprocessors,
            ipc: 4,
            warps_per_multiprocessor: 64,
            blocks_per_multiprocessor: 32,
            shared_bytes_per_multiprocessor: SHARED_BYTES_PER_MULTIPROCESSOR,
            registers_per_multiprocessor: REGISTERS_PER_MULTIPROCESSOR,
            registers_per_block: REGISTERS_PER_MULTIPROCESSOR,
            shared_bytes_per_block: SHARED_BYTES_PER_BLOCK,
            threads_per_block: 1_024,
            block: [1_024, 1_024, 64],
            grid: [i32::MAX.cast_unsigned(), 65_535, 65_535],
            major: self.major(),
            minor: self.minor(),
            id: index,
            has_ecc: 1,
            uuid: self.uuid(index),
            name: Name::copied(&self.name).address(),
            is_visible: 1,
            gpu_instance: u32::MAX,
            compute_instance: u32::MAX,
            texture_clusters: self.multiprocessors / 2,
            ..DeviceRecord::default()
        }
    }
}
