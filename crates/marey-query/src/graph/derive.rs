//! Derives the metrics that a user requests, such as `time/ms`, `flop16/s` or `util`, from the
//! metrics of a profile. The requests are those of Proton's viewer. `docs/viewer.md` has the
//! formulas.

use std::collections::HashMap;

use marey_model::metric::MetricValue;
use marey_model::profile::Device;

use super::Graph;
use super::column::{Cells, INCLUSIVE};
use super::find::{FoundMetric, MetricError};
use super::sum::sum;
use crate::peaks;

/// Time units with their length in seconds.
const TIME_UNITS_SECS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];

/// Prefixes of rates with their factors.
const RATE_PREFIXES: [(&str, f64); 3] = [("", 1.0), ("g", 1e9), ("t", 1e12)];

/// Widths of floating-point operations in bits.
const WIDTHS_BITS: [u32; 4] = [8, 16, 32, 64];

const DEVICE_ID: &str = "device_id";
const DEVICE_TYPE: &str = "device_type";
const UTIL: &str = "util";

/// The result of [`Graph::derive`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derived {
    /// The label of the column for each requested metric.
    pub labels: Vec<String>,
    /// Notes about the figures, a line each.
    pub notes: Vec<String>,
}

/// The device that executed a node's work.
#[derive(Clone, Copy, PartialEq)]
enum WorkDevice {
    /// No device.
    NoDevice,
    /// A device that the profile does not describe.
    Unlisted,
    /// The device at this index.
    Listed(usize),
}

/// A metric as a user requests it.
enum MetricRequest<'a> {
    /// Utilization: the share of the devices' peak rates.
    Util,
    /// Amount per second of kernel time, in units of `scale`.
    Rate { amount: String, scale: f64 },
    /// Time in units of `unit_secs`, per launch if averaged.
    Time { metric: &'static str, unit_secs: f64, is_average: bool },
    /// A metric, optionally with a unit or `%` after a slash.
    Plain { metric: &'a str, unit: Option<&'a str> },
}

impl<'a> MetricRequest<'a> {
    fn parse(request: &'a str) -> Self {
        let lowercase = request.to_lowercase();
        if lowercase == UTIL {
            return Self::Util;
        }
        let metric_and_unit = request.rsplit_once('/');
        let plain = Self::Plain {
            metric: metric_and_unit.map_or(request, |(metric, _)| metric),
            unit: metric_and_unit.map(|(_, unit)| unit),
        };
        let Some((name, unit)) = lowercase.rsplit_once('/') else { return plain };
        if unit == "s"
            && let Some((amount, scale)) = parse_rate(name)
        {
            return Self::Rate { amount, scale };
        }
        let name_after_avg = name.strip_prefix("avg_");
        let is_average = name_after_avg.is_some();
        let metric = match name_after_avg.unwrap_or(name) {
            "time" => "time",
            "cpu_time" => "cpu_time",
            _ => return plain,
        };
        match parse_time_unit_secs(unit) {
            Some(unit_secs) => Self::Time { metric, unit_secs, is_average },
            None => plain,
        }
    }
}

/// Returns the amount and the scale of a rate such as `tflop16`.
fn parse_rate(name: &str) -> Option<(String, f64)> {
    let amount = |name: &str| match name {
        "byte" => Some("bytes".to_owned()),
        "flop" => Some("flops".to_owned()),
        _ => WIDTHS_BITS
            .iter()
            .find(|width| name == format!("flop{width}"))
            .map(|width| format!("flops{width}")),
    };
    RATE_PREFIXES
        .iter()
        .find_map(|(prefix, scale)| Some((amount(name.strip_prefix(prefix)?)?, *scale)))
}

fn parse_time_unit_secs(unit: &str) -> Option<f64> {
    let unit = if unit == "µs" { "us" } else { unit };
    TIME_UNITS_SECS.iter().find(|(name, _)| *name == unit).map(|&(_, secs)| secs)
}

/// Returns the names of all derived metrics that Proton's viewer documents.
pub(super) fn documented_names() -> impl Iterator<Item = String> {
    let times = ["time", "avg_time", "cpu_time", "avg_cpu_time"];
    let times = times
        .into_iter()
        .flat_map(|name| TIME_UNITS_SECS.map(|(unit, _)| format!("{name}/{unit}")));
    let amounts = ["flop", "flop8", "flop16", "flop32", "flop64", "byte"];
    let rates = amounts
        .into_iter()
        .flat_map(|name| RATE_PREFIXES.map(|(scale, _)| format!("{scale}{name}/s")));
    times.chain(rates).chain([UTIL.to_owned(), "time/%".to_owned()])
}

impl Graph {
    /// Adds a column for each requested metric: one of the profile's, or one derived from them.
    ///
    /// # Errors
    /// The first metric that cannot be shown.
    pub fn derive<M: AsRef<str>>(&mut self, metrics: &[M]) -> Result<Derived, MetricError> {
        let mut derived = Derived::default();
        for request in metrics {
            let request = request.as_ref().trim();
            let label = match self.find_exact(request) {
                // The file has a metric with this very name, and nothing can be derived from the
                // name.
                Some(found_metric) if !self.can_derive(request) => found_metric.label,
                _ => self
                    .derive_metric(request, &mut derived.notes)
                    .map_err(|error| add_needed_by(request, error))?,
            };
            derived.labels.push(label);
        }
        Ok(derived)
    }

    pub(super) fn can_derive(&self, metric: &str) -> bool {
        let has_metric = |name: &str| self.find(name).is_some();
        match MetricRequest::parse(metric) {
            MetricRequest::Util => has_metric(DEVICE_ID) && has_metric("time"),
            MetricRequest::Rate { amount, .. } => has_metric(&amount) && has_metric("time"),
            MetricRequest::Time { metric, is_average, .. } => {
                has_metric(metric) && (!is_average || has_metric("count"))
            }
            MetricRequest::Plain { metric, .. } => has_metric(metric),
        }
    }

    fn derive_metric(
        &mut self,
        request: &str,
        notes: &mut Vec<String>,
    ) -> Result<String, MetricError> {
        let (label, values) = match MetricRequest::parse(request) {
            MetricRequest::Util => (UTIL.to_owned(), self.util(notes)?),
            MetricRequest::Rate { amount, scale } => {
                let amounts = self.required_numbers(&amount)?;
                let time_secs = self.time_secs("time")?;
                let rates =
                    amounts.iter().zip(time_secs).map(|(amount, secs)| amount / secs / scale);
                (format!("{}{INCLUSIVE}", request.to_lowercase()), rates.collect())
            }
            MetricRequest::Time { metric, unit_secs, is_average } => {
                let mut time_secs = self.time_secs(metric)?;
                if is_average {
                    let counts = self.required_numbers("count")?;
                    time_secs.iter_mut().zip(counts).for_each(|(secs, count)| *secs /= count);
                }
                let values = time_secs.iter().map(|secs| secs / unit_secs).collect();
                (format!("{}{INCLUSIVE}", request.to_lowercase()), values)
            }
            MetricRequest::Plain { metric, unit } => {
                // The slash may be part of a metric's name, which takes precedence.
                if let Some(found_metric) = self.find(request) {
                    return Ok(found_metric.label);
                }
                let found_metric = self.find_required(metric)?;
                let suffix = if found_metric.is_inclusive { INCLUSIVE } else { "" };
                (
                    format!("{request}{suffix}"),
                    self.convert_unit(&found_metric, unit.unwrap_or_default())?,
                )
            }
        };
        self.set_extra_column(label.as_str().into(), Cells::from_floats(values));
        Ok(label)
    }

    fn find_required(&self, metric: &str) -> Result<FoundMetric, MetricError> {
        self.find(metric).ok_or_else(|| self.unknown_metric(metric))
    }

    fn required_numbers(&self, metric: &str) -> Result<Vec<f64>, MetricError> {
        self.numbers(&self.find_required(metric)?.label)
    }

    /// Returns a time metric in seconds.
    fn time_secs(&self, metric: &str) -> Result<Vec<f64>, MetricError> {
        let found_metric = self.find_required(metric)?;
        let factor = unit_secs(&found_metric.key).ok_or_else(|| MetricError::Unit {
            metric: found_metric.key.clone(),
            unit: "none".into(),
        })?;
        Ok(self.numbers(&found_metric.label)?.iter().map(|time| time * factor).collect())
    }

    /// Returns a metric in per cent of its total, or a time in another unit.
    fn convert_unit(
        &self,
        found_metric: &FoundMetric,
        unit: &str,
    ) -> Result<Vec<f64>, MetricError> {
        let values = self.numbers(&found_metric.label)?;
        if unit == "%" {
            let total = if found_metric.is_short_name {
                self.total(&found_metric.label, &values)
            } else {
                proton_total(found_metric, &values)
            };
            return Ok(values.iter().map(|value| value / total * 100.0).collect());
        }
        match (unit_secs(&found_metric.key), parse_time_unit_secs(&unit.to_lowercase())) {
            (Some(from), Some(to)) => Ok(values.iter().map(|value| value * from / to).collect()),
            _ => Err(MetricError::Unit { metric: found_metric.key.clone(), unit: unit.into() }),
        }
    }
}

/// Returns the total as Proton's viewer defines it: the sum of the first root, or the sum over all
/// nodes if the metric is not summed into parents.
fn proton_total(found_metric: &FoundMetric, values: &[f64]) -> f64 {
    if found_metric.is_inclusive {
        return values.first().copied().unwrap_or(f64::NAN);
    }
    sum(&mut values.to_vec())
}

/// Adds the requested metric to the error about an unknown metric that it needs.
fn add_needed_by(request: &str, error: MetricError) -> MetricError {
    match error {
        MetricError::Unknown { metric, nearest, available, .. } => {
            let needed_by = Some(request.to_owned()).filter(|request| *request != metric);
            MetricError::Unknown { metric, needed_by, nearest, available }
        }
        other => other,
    }
}

/// Returns the length in seconds of the time unit that follows a metric's name in parentheses.
pub fn unit_secs(key: &str) -> Option<f64> {
    let (_, after_parenthesis) = key.split_once('(')?;
    parse_time_unit_secs(after_parenthesis.split(')').next()?.trim())
}

/// Utilization of devices.
impl Graph {
    /// Returns the utilization of the devices by each node: the least time that its work can take
    /// at the peak rates, divided by its actual time. The least time is the time of the arithmetic,
    /// in which each width has its own rate, or the time of the memory traffic, whichever is
    /// longer.
    ///
    /// The result is NaN for nodes that ran on no device.
    fn util(&self, notes: &mut Vec<String>) -> Result<Vec<f64>, MetricError> {
        let time_secs = self.time_secs("time")?;
        let node_devices = self.devices_of_nodes()?;
        let compute_secs = self.min_compute_secs(&node_devices, notes)?;
        let memory_secs = self.min_memory_secs(&node_devices, notes)?;
        let utilization = |node: usize| {
            if node_devices[node] == WorkDevice::NoDevice {
                return f64::NAN;
            }
            let (compute, memory) = (compute_secs[node], memory_secs[node]);
            // If a peak is unknown (NaN), the share is unknown too.
            let min_secs = if memory > compute || memory.is_nan() { memory } else { compute };
            min_secs / time_secs[node]
        };
        if node_devices.contains(&WorkDevice::Unlisted) {
            notes.push("util of devices that the profile does not describe is shown as 0".into());
        }
        Ok((0..self.nodes.len()).map(utilization).collect())
    }

    fn devices_of_nodes(&self) -> Result<Vec<WorkDevice>, MetricError> {
        let ids = self.column(DEVICE_ID).ok_or_else(|| self.unknown_metric(DEVICE_ID))?;
        let families = self.column(DEVICE_TYPE);
        let mut positions_by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        for (position, device) in self.devices.iter().enumerate() {
            positions_by_id.entry(&device.id).or_default().push(position);
        }
        let device = |node: usize| {
            let Some(id) = ids.get(node) else { return WorkDevice::NoDevice };
            let id = as_text(&id);
            let family = families.as_ref().and_then(|families| families.get(node));
            let family = family.map(|family| as_text(&family));
            let candidates = positions_by_id.get(&*id).map_or(&[][..], Vec::as_slice);
            // Proton writes the family of some metrics as a number, which matches no device.
            let has_family =
                |index: &&usize| Some(&self.devices[**index].family) == family.as_ref();
            let best_match = candidates.iter().find(has_family).or(candidates.first());
            best_match.map_or(WorkDevice::Unlisted, |&position| WorkDevice::Listed(position))
        };
        Ok((0..self.nodes.len()).map(device).collect())
    }

    /// Returns the least time that each node's floating-point operations take at the peak rates, in
    /// seconds.
    fn min_compute_secs(
        &self,
        node_devices: &[WorkDevice],
        notes: &mut Vec<String>,
    ) -> Result<Vec<f64>, MetricError> {
        let mut min_secs = vec![0.0; self.nodes.len()];
        for width in WIDTHS_BITS {
            self.add_min_secs(
                &mut min_secs,
                &format!("flops{width}"),
                node_devices,
                notes,
                |device| {
                    let num_sms = device.num_sms.unwrap_or_default() as f64;
                    let clock_khz = device.clock_rate_khz.unwrap_or_default() as f64;
                    peaks::max_flops(&device.family, arch(device), width, num_sms, clock_khz)
                },
            )?;
        }
        Ok(min_secs)
    }

    /// Returns the least time that each node's memory traffic takes at the peak rate, in seconds.
    fn min_memory_secs(
        &self,
        node_devices: &[WorkDevice],
        notes: &mut Vec<String>,
    ) -> Result<Vec<f64>, MetricError> {
        let mut min_secs = vec![0.0; self.nodes.len()];
        self.add_min_secs(&mut min_secs, "bytes", node_devices, notes, |device| {
            let bus_bits = device.bus_width_bits.unwrap_or_default() as f64;
            let clock_khz = device.memory_clock_rate_khz.unwrap_or_default() as f64;
            peaks::max_bps(&device.family, arch(device), bus_bits, clock_khz)
        })?;
        Ok(min_secs)
    }

    /// Adds the time that each node's own amount of a metric takes at its device's peak rate. Nodes
    /// without an amount take no time, even if the peak is unknown.
    fn add_min_secs(
        &self,
        min_secs: &mut [f64],
        metric: &str,
        node_devices: &[WorkDevice],
        notes: &mut Vec<String>,
        peak: impl Fn(&Device) -> Result<f64, peaks::NoPeak>,
    ) -> Result<(), MetricError> {
        let Some(amounts) = self.numbers_if_present(metric)? else { return Ok(()) };
        let rates = self.peaks(notes, peak);
        for (node, secs) in min_secs.iter_mut().enumerate() {
            if let WorkDevice::Listed(device) = node_devices[node]
                && !amounts[node].is_nan()
                && amounts[node] != 0.0
            {
                *secs += amounts[node] / rates[device];
            }
        }
        Ok(())
    }

    /// Returns the peak rate of each device. An unknown rate is NaN, and adds a note.
    fn peaks(
        &self,
        notes: &mut Vec<String>,
        peak: impl Fn(&Device) -> Result<f64, peaks::NoPeak>,
    ) -> Vec<f64> {
        let peak_rate = |device: &Device| match peak(device) {
            Ok(peak_rate) => peak_rate,
            Err(no_peak) => {
                let note = format!("util of device {} is unknown: {no_peak}", device.id);
                if !notes.contains(&note) {
                    notes.push(note);
                }
                f64::NAN
            }
        };
        self.devices.iter().map(peak_rate).collect()
    }
}

fn arch(device: &Device) -> &str {
    device.arch.as_deref().unwrap_or_default()
}

fn as_text(value: &MetricValue) -> String {
    match value {
        MetricValue::Text(text) => text.to_string(),
        MetricValue::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
