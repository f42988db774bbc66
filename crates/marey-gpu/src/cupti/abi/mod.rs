//! The binary interface of CUPTI: constants, names, offsets and sizes.
//!
//! Records only grow at the end from version to version. So one table, with a first version for
//! each field, covers libcupti 12.0 to 13.5 and later. `cargo xtask layout` compares every number
//! with the vendor's headers of each version.
//!
//! [`layout`] has the offsets of record fields and [`record`] the access to them. [`constants`] has
//! the activity kinds, domains and other enumerations, [`calls`] the callback ids, and [`result`]
//! the result codes.

pub mod calls;
pub mod constants;
pub mod layout;
pub mod record;
pub mod result;

/// Oldest supported API version, in CUDA 12.0.
pub const OLDEST_API: u32 = 18;

/// Returns the major CUDA version of an API version. API versions are 1 to 28 up to CUDA 12.9; from
/// 13.0 on they consist of major, minor and update number, two digits each.
pub const fn cuda_major(api_version: u32) -> u32 {
    match api_version {
        100_000.. => api_version / 10_000,
        OLDEST_API.. => 12,
        _ => 11,
    }
}
