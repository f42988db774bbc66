//! The binary interface of CUPTI, as facts: numbers, names, offsets and sizes.
//!
//! The library writes records whose layout grows at the end from version to version, so one table
//! with a first version beside each field serves libcupti 12.0 to 13.5 and what follows.
//! `cargo xtask layout` compares every number here with the vendor's headers of each version.
//!
//! [`layout`]: where the fields of records are. [`record`]: reading them. [`constants`]: kinds, domains
//! and the like. [`calls`]: the calls that callbacks are asked for. [`result`]: what codes mean.

pub mod calls;
pub mod constants;
pub mod layout;
pub mod record;
pub mod result;

/// The oldest API version whose layouts are in these tables: that of CUDA 12.0.
pub const OLDEST_API: u32 = 18;

/// The CUDA major version that a library of this API version belongs to. Libraries count from 1 to 28
/// up to CUDA 12.9; from 13.0 on the number is major, minor and update, two digits each.
pub const fn cuda_major(api_version: u32) -> u32 {
    match api_version {
        100_000.. => api_version / 10_000,
        OLDEST_API.. => 12,
        _ => 11,
    }
}
