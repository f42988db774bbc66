//! The Python functions for peak rates of devices.

use marey_query::peaks::{self, NoPeak};
use pyo3::prelude::*;

/// The peak in floating-point operations per second. If it is unknown, NaN and the reason.
#[pyfunction]
pub(crate) fn max_flops(
    family: &str,
    arch: &str,
    width: u32,
    num_sms: f64,
    clock: f64,
) -> (f64, Option<String>) {
    with_note(peaks::max_flops(family, arch, width, num_sms, clock))
}

/// The peak memory bandwidth in bytes per second. If it is unknown, NaN and the reason.
#[pyfunction]
pub(crate) fn max_bps(
    family: &str,
    arch: &str,
    bus_width: f64,
    clock: f64,
) -> (f64, Option<String>) {
    with_note(peaks::max_bps(family, arch, bus_width, clock))
}

/// Family, name and sources of every architecture in the tables.
#[pyfunction]
pub(crate) fn architectures() -> Vec<(&'static str, &'static str, &'static str)> {
    peaks::architectures()
        .map(|architecture| (architecture.family, architecture.name, architecture.doc))
        .collect()
}

fn with_note(peak: Result<f64, NoPeak>) -> (f64, Option<String>) {
    match peak {
        Ok(rate) => (rate, None),
        Err(reason) => (f64::NAN, Some(reason.to_string())),
    }
}
