//! How fast devices can be: floating-point operations and bytes in a second, by architecture.
//!
//! Start reading at [`max_flops`] and [`max_bps`]; the figures and their sources are in `table`.
//! For the seven architectures that Triton 3.9 knows, the results are Triton's to the last bit.

use thiserror::Error;

mod device;
mod table;

pub use device::{DevicePeaks, of_device};

/// Widths of operands, in bits, that have a peak.
pub const WIDTHS: [u32; 4] = [8, 16, 32, 64];

/// What is known of the devices of one architecture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Architecture {
    /// Who programs it: `"CUDA"` or `"HIP"`.
    pub family: &'static str,
    /// `"90"` for CUDA's `sm_90`, `"gfx942"` for HIP.
    pub name: &'static str,
    /// Floating-point operations.
    pub flops: Flops,
    /// Memory traffic.
    pub memory: Memory,
    /// What each width counts, and the published figures that this comes from.
    pub doc: &'static str,
}

/// How floating-point operations in a second follow from a device's size and clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flops {
    /// Operations of one multiprocessor in one clock, for each of [`WIDTHS`].
    PerClock([f64; 4]),
    /// The same at 8 bits, halved with each doubling of the width. Triton goes through MHz here,
    /// which rounds differently.
    PerClockInMegahertz(f64),
    /// Operations in a second at 8 bits, halved likewise, of a device with so many multiprocessors
    /// and such a clock; others in proportion.
    LikeDevice {
        /// 10^12 operations in a second.
        tera: f64,
        /// Multiprocessors of the device.
        num_sms: f64,
        /// Clock of the device.
        clock_khz: f64,
    },
    /// Operations in a second at 8 bits, halved likewise, whatever the device's size and clock.
    PerDevice(f64),
}

/// How bytes in a second follow from a device's memory bus and clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    /// The bus moves its width so often in each reported clock.
    TransfersPerClock(f64),
    /// System memory: LPDDR5 reports an eighth of its data rate as the clock, DDR5 a half.
    System,
    /// Bytes in a second of any device, whatever its bus and clock.
    PerDevice(f64),
}

/// Why there is no peak.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NoPeak {
    /// Neither CUDA nor HIP.
    #[error("the peak tables know CUDA and HIP, not device type {family:?}")]
    UnknownFamily {
        /// What was given.
        family: String,
    },
    /// Nobody has added this architecture.
    #[error("the peak tables know {family} architectures {known}, not {arch:?}")]
    UnknownArchitecture {
        /// `"CUDA"` or `"HIP"`.
        family: &'static str,
        /// What was given.
        arch: String,
        /// Names of those that there are.
        known: String,
    },
    /// Operands are never this wide.
    #[error("the peak tables know operands of 8, 16, 32 and 64 bits, not of {width_bits}")]
    UnknownWidth {
        /// What was given.
        width_bits: u32,
    },
    /// Neither unit makes sense of this clock.
    #[error("a clock of {value:?} is neither GHz (above 0, below 100) nor kHz (1e5 to 1e8)")]
    BadClock {
        /// What was given.
        value: f64,
    },
    /// A count or a width is not positive.
    #[error("{what} is {value:?}, not a positive number")]
    BadSize {
        /// Which of them.
        what: &'static str,
        /// What was given.
        value: f64,
    },
}

/// The most floating-point operations in a second, without sparsity.
///
/// `family` is `"CUDA"` or `"HIP"`; `arch` is an architecture as in `"90"`, `"sm_90a"` or
/// `"gfx942:sramecc+:xnack-"`; case does not matter. `num_sms` counts multiprocessors as the driver
/// does: compute units on AMD Instinct, pairs of them on Radeon. `clock` is the clock of a
/// multiprocessor in kHz or GHz.
pub fn max_flops(
    family: &str,
    arch: &str,
    width_bits: u32,
    num_sms: f64,
    clock: f64,
) -> Result<f64, NoPeak> {
    let architecture = find(known_family(family)?, arch)?;
    let width = WIDTHS
        .iter()
        .position(|&known| known == width_bits)
        .ok_or(NoPeak::UnknownWidth { width_bits })?;
    let bytes_wide = f64::from(width_bits) / 8.0;
    let num_sms = || positive("the number of multiprocessors", num_sms);
    // The order of the factors is Triton's: another one rounds to other last bits.
    Ok(match architecture.flops {
        Flops::PerClock(flops) => flops[width] * num_sms()? * clock_khz(clock)? * 1e3,
        Flops::PerClockInMegahertz(flops) => {
            num_sms()? * flops * (clock_khz(clock)? / 1e3) * 1e6 / bytes_wide
        }
        Flops::LikeDevice { tera, num_sms: its_sms, clock_khz: its_khz } => {
            num_sms()? / its_sms * clock_khz(clock)? / its_khz * tera * 1e12 / bytes_wide
        }
        Flops::PerDevice(flops) => flops / bytes_wide,
    })
}

/// The most bytes in a second between a device and its memory.
///
/// `bus_width_bits` and `memory_clock`, in kHz or GHz, are what the device's driver reports; where
/// `memory` of the [`Architecture`] is a constant, neither is looked at. CUDA reports both so that
/// one rule serves every device, and its `arch` is not looked at.
pub fn max_bps(
    family: &str,
    arch: &str,
    bus_width_bits: f64,
    memory_clock: f64,
) -> Result<f64, NoPeak> {
    let memory = match known_family(family)? {
        "CUDA" => table::CUDA_MEMORY,
        family => find(family, arch)?.memory,
    };
    let transfers_per_clock = match memory {
        Memory::PerDevice(bytes_per_sec) => return Ok(bytes_per_sec),
        Memory::TransfersPerClock(transfers) => transfers,
        Memory::System if clock_khz(memory_clock)? < table::SLOWEST_DDR5_KHZ => 8.0,
        Memory::System => 2.0,
    };
    let bus_width_bits = positive("the width of the memory bus", bus_width_bits)?;
    Ok(transfers_per_clock * bus_width_bits * clock_khz(memory_clock)? * 1e3 / 8.0)
}

/// Every architecture in the tables, CUDA's first, each family in the order of age.
pub fn architectures() -> impl Iterator<Item = &'static Architecture> {
    table::ARCHITECTURES.iter()
}

fn known_family(family: &str) -> Result<&'static str, NoPeak> {
    ["CUDA", "HIP"]
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(family))
        .ok_or_else(|| NoPeak::UnknownFamily { family: family.to_owned() })
}

fn find(family: &'static str, arch: &str) -> Result<&'static Architecture, NoPeak> {
    let name = match family {
        "CUDA" => cuda_name(arch),
        _ => hip_name(arch),
    };
    let of_family = || architectures().filter(|known| known.family == family);
    // Proton's files hold six characters of a HIP name, and six are enough to tell the figures.
    let is_cut = |known: &&Architecture| name.len() == 6 && known.name.starts_with(&name);
    of_family().find(|known| known.name == name).or_else(|| of_family().find(is_cut)).ok_or_else(
        || NoPeak::UnknownArchitecture {
            family,
            arch: arch.to_owned(),
            known: of_family().map(|known| known.name).collect::<Vec<_>>().join(", "),
        },
    )
}

/// `"90"` of `"sm_90a"`.
fn cuda_name(arch: &str) -> String {
    let arch = arch.trim().to_ascii_lowercase();
    let number = arch.strip_prefix("sm").unwrap_or(&arch);
    let number = number.strip_prefix('_').unwrap_or(number);
    // sm_90a and sm_100f are sets of instructions, not other devices.
    number.strip_suffix(['a', 'f']).unwrap_or(number).to_owned()
}

/// `"gfx942"` of `"gfx942:sramecc+:xnack-"`.
fn hip_name(arch: &str) -> String {
    let name = arch.split_once(':').map_or(arch, |(name, _features)| name);
    name.trim().to_ascii_lowercase()
}

/// A clock in kHz, unchanged; one in GHz to the nearest hertz, so that 2.3 is 2,300,000.
fn clock_khz(clock: f64) -> Result<f64, NoPeak> {
    if (1e5..1e8).contains(&clock) {
        Ok(clock)
    } else if clock > 0.0 && clock < 100.0 {
        Ok((clock * 1e9).round() / 1e3)
    } else {
        Err(NoPeak::BadClock { value: clock })
    }
}

fn positive(what: &'static str, value: f64) -> Result<f64, NoPeak> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(NoPeak::BadSize { what, value }) }
}

#[cfg(test)]
mod tests;
