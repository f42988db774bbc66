//! Peak rates of devices in floating-point operations and bytes per second, by architecture. They
//! are the denominators of utilization.
//!
//! Start reading at [`max_flops`] and [`max_bps`]. `table` has the figures and their sources. For
//! the seven architectures that Triton 3.9 supports, the results equal Triton's to the last bit.

use thiserror::Error;

mod device;
mod table;

pub use device::{DevicePeaks, device_peaks};

/// Operand widths that have a peak, in bits.
pub const WIDTHS_BITS: [u32; 4] = [8, 16, 32, 64];

/// The peak rates of an architecture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Architecture {
    /// The programming platform: `"CUDA"` or `"HIP"`.
    pub family: &'static str,
    /// `"90"` for CUDA's `sm_90`, `"gfx942"` for HIP.
    pub name: &'static str,
    /// The rule for floating-point operations.
    pub flops: FlopsRule,
    /// The rule for memory traffic.
    pub memory: BandwidthRule,
    /// The unit of the hardware that each width refers to, and the published figures behind the
    /// numbers.
    pub doc: &'static str,
}

/// The rule by which floating-point operations per second follow from a device's size and clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlopsRule {
    /// Operations per multiprocessor and clock, for each of [`WIDTHS_BITS`].
    PerClock([f64; 4]),
    /// Operations per multiprocessor and clock at 8 bits, halved with each doubling of the width.
    /// Triton converts the clock to MHz in this rule, which changes the rounding.
    PerClockInMegahertz(f64),
    /// The rate of a reference device, scaled by the number of multiprocessors and the clock.
    LikeDevice {
        /// 10^12 operations per second at 8 bits, halved with each doubling of the width.
        tera_flops: f64,
        /// Multiprocessors of the reference device.
        num_sms: f64,
        /// Clock of the reference device.
        clock_khz: f64,
    },
    /// Operations per second at 8 bits, halved with each doubling of the width. The device's size
    /// and clock are ignored.
    PerDevice(f64),
}

/// The rule by which bytes per second follow from a device's memory bus and clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BandwidthRule {
    /// Transfers of the whole bus width per cycle of the reported clock.
    TransfersPerClock(f64),
    /// System memory. LPDDR5 reports an eighth of its data rate as the clock, DDR5 reports half.
    System,
    /// Bytes per second. The bus and the clock are ignored.
    PerDevice(f64),
}

/// The reason why there is no peak.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NoPeak {
    /// The family is neither CUDA nor HIP.
    #[error("the peak tables know CUDA and HIP, not device type {family:?}")]
    UnknownFamily {
        /// The family as given.
        family: String,
    },
    /// The architecture is not in the tables.
    #[error("the peak tables know {family} architectures {known}, not {arch:?}")]
    UnknownArchitecture {
        /// `"CUDA"` or `"HIP"`.
        family: &'static str,
        /// The architecture as given.
        arch: String,
        /// The names in the tables.
        known: String,
    },
    /// The width is not one of [`WIDTHS_BITS`].
    #[error("the peak tables know operands of 8, 16, 32 and 64 bits, not of {width_bits}")]
    UnknownWidth {
        /// The width as given.
        width_bits: u32,
    },
    /// The clock is plausible neither in GHz nor in kHz.
    #[error("a clock of {value:?} is neither GHz (above 0, below 100) nor kHz (1e5 to 1e8)")]
    BadClock {
        /// The clock as given.
        value: f64,
    },
    /// A count or a width is not positive.
    #[error("{what} is {value:?}, not a positive number")]
    BadSize {
        /// The name of the argument.
        what: &'static str,
        /// The value as given.
        value: f64,
    },
}

/// Returns the peak in floating-point operations per second, without sparsity.
///
/// `family` is `"CUDA"` or `"HIP"`. `arch` is an architecture, for example `"90"`, `"sm_90a"` or
/// `"gfx942:sramecc+:xnack-"`. Case does not matter. `num_sms` is the number of multiprocessors as
/// the driver counts them: compute units on AMD Instinct, pairs of compute units on Radeon.
/// `clock_khz_or_ghz` is the clock of a multiprocessor in kHz or GHz.
pub fn max_flops(
    family: &str,
    arch: &str,
    width_bits: u32,
    num_sms: f64,
    clock_khz_or_ghz: f64,
) -> Result<f64, NoPeak> {
    let architecture = find_architecture(parse_family(family)?, arch)?;
    let width_index = WIDTHS_BITS
        .iter()
        .position(|&known| known == width_bits)
        .ok_or(NoPeak::UnknownWidth { width_bits })?;
    let bytes_wide = f64::from(width_bits) / 8.0;
    let num_sms = || require_positive("the number of multiprocessors", num_sms);
    // The factors are multiplied in Triton's order. Any other order rounds differently.
    Ok(match architecture.flops {
        FlopsRule::PerClock(flops) => {
            flops[width_index] * num_sms()? * clock_khz(clock_khz_or_ghz)? * 1e3
        }
        FlopsRule::PerClockInMegahertz(flops) => {
            num_sms()? * flops * (clock_khz(clock_khz_or_ghz)? / 1e3) * 1e6 / bytes_wide
        }
        FlopsRule::LikeDevice { tera_flops, num_sms: reference_sms, clock_khz: reference_khz } => {
            num_sms()? / reference_sms * clock_khz(clock_khz_or_ghz)? / reference_khz
                * tera_flops
                * 1e12
                / bytes_wide
        }
        FlopsRule::PerDevice(flops) => flops / bytes_wide,
    })
}

/// Returns the peak memory bandwidth of a device in bytes per second.
///
/// `bus_width_bits` and `memory_clock_khz_or_ghz` (in kHz or GHz) are the values that the device's
/// driver reports. Both are ignored if `memory` of the [`Architecture`] is a constant. All CUDA
/// devices report them in the same way, so one rule serves them all and `arch` is ignored.
pub fn max_bps(
    family: &str,
    arch: &str,
    bus_width_bits: f64,
    memory_clock_khz_or_ghz: f64,
) -> Result<f64, NoPeak> {
    let memory = match parse_family(family)? {
        "CUDA" => table::CUDA_MEMORY,
        family => find_architecture(family, arch)?.memory,
    };
    let transfers_per_clock = match memory {
        BandwidthRule::PerDevice(bytes_per_sec) => return Ok(bytes_per_sec),
        BandwidthRule::TransfersPerClock(transfers) => transfers,
        BandwidthRule::System if clock_khz(memory_clock_khz_or_ghz)? < table::SLOWEST_DDR5_KHZ => {
            8.0
        }
        BandwidthRule::System => 2.0,
    };
    let bus_width_bits = require_positive("the width of the memory bus", bus_width_bits)?;
    Ok(transfers_per_clock * bus_width_bits * clock_khz(memory_clock_khz_or_ghz)? * 1e3 / 8.0)
}

/// All architectures in the tables, CUDA first, the oldest of each family first.
pub fn architectures() -> impl Iterator<Item = &'static Architecture> {
    table::ARCHITECTURES.iter()
}

fn parse_family(family: &str) -> Result<&'static str, NoPeak> {
    ["CUDA", "HIP"]
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(family))
        .ok_or_else(|| NoPeak::UnknownFamily { family: family.to_owned() })
}

fn find_architecture(family: &'static str, arch: &str) -> Result<&'static Architecture, NoPeak> {
    let name = match family {
        "CUDA" => cuda_name(arch),
        _ => hip_name(arch),
    };
    let family_architectures =
        || architectures().filter(|architecture| architecture.family == family);
    // Proton's files cut HIP names to six characters, which are still enough to find the figures.
    let is_truncated =
        |architecture: &&Architecture| name.len() == 6 && architecture.name.starts_with(&name);
    family_architectures()
        .find(|architecture| architecture.name == name)
        .or_else(|| family_architectures().find(is_truncated))
        .ok_or_else(|| NoPeak::UnknownArchitecture {
            family,
            arch: arch.to_owned(),
            known: family_architectures()
                .map(|architecture| architecture.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

/// The name without prefix and suffix: `"90"` for `"sm_90a"`.
fn cuda_name(arch: &str) -> String {
    let arch = arch.trim().to_ascii_lowercase();
    let number = arch.strip_prefix("sm").unwrap_or(&arch);
    let number = number.strip_prefix('_').unwrap_or(number);
    // sm_90a and sm_100f are instruction sets of the same device.
    number.strip_suffix(['a', 'f']).unwrap_or(number).to_owned()
}

/// The name without features: `"gfx942"` for `"gfx942:sramecc+:xnack-"`.
fn hip_name(arch: &str) -> String {
    let name = arch.split_once(':').map_or(arch, |(name, _features)| name);
    name.trim().to_ascii_lowercase()
}

/// Returns the clock in kHz. A clock in GHz is rounded to the hertz, so that 2.3 is exactly
/// 2,300,000.
fn clock_khz(clock_khz_or_ghz: f64) -> Result<f64, NoPeak> {
    if (1e5..1e8).contains(&clock_khz_or_ghz) {
        Ok(clock_khz_or_ghz)
    } else if clock_khz_or_ghz > 0.0 && clock_khz_or_ghz < 100.0 {
        Ok((clock_khz_or_ghz * 1e9).round() / 1e3)
    } else {
        Err(NoPeak::BadClock { value: clock_khz_or_ghz })
    }
}

fn require_positive(what: &'static str, value: f64) -> Result<f64, NoPeak> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(NoPeak::BadSize { what, value }) }
}

#[cfg(test)]
mod tests;
