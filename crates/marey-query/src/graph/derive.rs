//! Metrics that are computed from metrics. `docs/viewer.md` has the formulas.

use std::collections::HashMap;

use marey_model::metric::MetricValue;
use marey_model::profile::Device;

use super::Graph;
use super::column::{Cells, INCLUSIVE};
use super::find::{Found, MetricError};
use super::sum::sum;
use crate::peaks;

/// Names of time units and their length in seconds.
const SECONDS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];

/// Prefixes of rates.
const SCALES: [(&str, f64); 3] = [("", 1.0), ("g", 1e9), ("t", 1e12)];

/// Widths of floating-point operations in bits.
const WIDTHS: [u32; 4] = [8, 16, 32, 64];

const DEVICE_ID: &str = "device_id";
const DEVICE_TYPE: &str = "device_type";
const UTIL: &str = "util";

/// What [`Graph::derive`] made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derived {
    /// Label of the column of each metric asked for.
    pub labels: Vec<String>,
    /// What should be known about the figures, each in a line.
    pub notes: Vec<String>,
}

/// On which device a node's work ran.
#[derive(Clone, Copy, PartialEq)]
enum RanOn {
    /// On none.
    Nothing,
    /// On one that the profile does not describe.
    Unlisted,
    /// On the one at this position.
    Listed(usize),
}

/// A metric as a user asks for it.
enum Asked<'a> {
    /// Share of the devices' peak rates.
    Util,
    /// Amount per second of kernel time, in units of `scale`.
    Rate { amount: String, scale: f64 },
    /// Time in units of so many seconds, per launch if averaged.
    Time { metric: &'static str, unit_secs: f64, is_average: bool },
    /// A metric, with a unit or `%` behind a slash.
    Plain { metric: &'a str, unit: Option<&'a str> },
}

impl<'a> Asked<'a> {
    fn parse(asked: &'a str) -> Self {
        let lower = asked.to_lowercase();
        if lower == UTIL {
            return Self::Util;
        }
        let split = asked.rsplit_once('/');
        let plain = Self::Plain {
            metric: split.map_or(asked, |(metric, _)| metric),
            unit: split.map(|(_, unit)| unit),
        };
        let Some((name, unit)) = lower.rsplit_once('/') else { return plain };
        if unit == "s"
            && let Some((amount, scale)) = rate(name)
        {
            return Self::Rate { amount, scale };
        }
        let averaged = name.strip_prefix("avg_");
        let is_average = averaged.is_some();
        let metric = match averaged.unwrap_or(name) {
            "time" => "time",
            "cpu_time" => "cpu_time",
            _ => return plain,
        };
        match seconds(unit) {
            Some(unit_secs) => Self::Time { metric, unit_secs, is_average },
            None => plain,
        }
    }
}

/// The amount and the scale of `tflop16` and the like.
fn rate(name: &str) -> Option<(String, f64)> {
    let amount = |name: &str| match name {
        "byte" => Some("bytes".to_owned()),
        "flop" => Some("flops".to_owned()),
        _ => WIDTHS.iter().find(|w| name == format!("flop{w}")).map(|w| format!("flops{w}")),
    };
    SCALES.iter().find_map(|(prefix, scale)| Some((amount(name.strip_prefix(prefix)?)?, *scale)))
}

fn seconds(unit: &str) -> Option<f64> {
    let unit = if unit == "µs" { "us" } else { unit };
    SECONDS.iter().find(|(name, _)| *name == unit).map(|&(_, secs)| secs)
}

/// Every derived metric that Proton's viewer names.
pub(super) fn names() -> impl Iterator<Item = String> {
    let times = ["time", "avg_time", "cpu_time", "avg_cpu_time"];
    let times =
        times.into_iter().flat_map(|name| SECONDS.map(|(unit, _)| format!("{name}/{unit}")));
    let amounts = ["flop", "flop8", "flop16", "flop32", "flop64", "byte"];
    let rates =
        amounts.into_iter().flat_map(|name| SCALES.map(|(scale, _)| format!("{scale}{name}/s")));
    times.chain(rates).chain([UTIL.to_owned(), "time/%".to_owned()])
}

impl Graph {
    /// Makes a column for each metric asked for: one of the profile's, or one derived from them.
    ///
    /// # Errors
    /// The first metric that cannot be shown.
    pub fn derive<M: AsRef<str>>(&mut self, metrics: &[M]) -> Result<Derived, MetricError> {
        let mut derived = Derived::default();
        for asked in metrics {
            let asked = asked.as_ref().trim();
            let label = match self.find_exact(asked) {
                // The file's own metric of a name that nothing can be derived for.
                Some(found) if !self.can_derive(asked) => found.label,
                _ => self
                    .derive_one(asked, &mut derived.notes)
                    .map_err(|error| wanted_for(asked, error))?,
            };
            derived.labels.push(label);
        }
        Ok(derived)
    }

    pub(super) fn can_derive(&self, metric: &str) -> bool {
        let has = |name: &str| self.find(name).is_some();
        match Asked::parse(metric) {
            Asked::Util => has(DEVICE_ID) && has("time"),
            Asked::Rate { amount, .. } => has(&amount) && has("time"),
            Asked::Time { metric, is_average, .. } => has(metric) && (!is_average || has("count")),
            Asked::Plain { metric, .. } => has(metric),
        }
    }

    fn derive_one(&mut self, asked: &str, notes: &mut Vec<String>) -> Result<String, MetricError> {
        let (label, values) = match Asked::parse(asked) {
            Asked::Util => (UTIL.to_owned(), self.util(notes)?),
            Asked::Rate { amount, scale } => {
                let amounts = self.required_numbers(&amount)?;
                let time_secs = self.time_secs("time")?;
                let rates =
                    amounts.iter().zip(time_secs).map(|(amount, secs)| amount / secs / scale);
                (format!("{}{INCLUSIVE}", asked.to_lowercase()), rates.collect())
            }
            Asked::Time { metric, unit_secs, is_average } => {
                let mut time_secs = self.time_secs(metric)?;
                if is_average {
                    let counts = self.required_numbers("count")?;
                    time_secs.iter_mut().zip(counts).for_each(|(secs, count)| *secs /= count);
                }
                let values = time_secs.iter().map(|secs| secs / unit_secs).collect();
                (format!("{}{INCLUSIVE}", asked.to_lowercase()), values)
            }
            Asked::Plain { metric, unit } => {
                // A name with a slash in it is a name first.
                if let Some(found) = self.find(asked) {
                    return Ok(found.label);
                }
                let found = self.required(metric)?;
                let suffix = if found.is_inclusive { INCLUSIVE } else { "" };
                (format!("{asked}{suffix}"), self.in_unit(&found, unit.unwrap_or_default())?)
            }
        };
        self.put(label.as_str().into(), Cells::real(values));
        Ok(label)
    }

    fn required(&self, metric: &str) -> Result<Found, MetricError> {
        self.find(metric).ok_or_else(|| self.unknown(metric))
    }

    fn required_numbers(&self, metric: &str) -> Result<Vec<f64>, MetricError> {
        self.numbers(&self.required(metric)?.label)
    }

    /// A time metric in seconds.
    fn time_secs(&self, metric: &str) -> Result<Vec<f64>, MetricError> {
        let found = self.required(metric)?;
        let factor = unit_secs(&found.key)
            .ok_or_else(|| MetricError::Unit { metric: found.key.clone(), unit: "none".into() })?;
        Ok(self.numbers(&found.label)?.iter().map(|time| time * factor).collect())
    }

    /// A metric in per cent of the whole, or a time in another unit.
    fn in_unit(&self, found: &Found, unit: &str) -> Result<Vec<f64>, MetricError> {
        let values = self.numbers(&found.label)?;
        if unit == "%" {
            let whole = if found.is_word {
                self.whole(&found.label, &values)
            } else {
                whole(found, &values)
            };
            return Ok(values.iter().map(|value| value / whole * 100.0).collect());
        }
        match (unit_secs(&found.key), seconds(&unit.to_lowercase())) {
            (Some(from), Some(to)) => Ok(values.iter().map(|value| value * from / to).collect()),
            _ => Err(MetricError::Unit { metric: found.key.clone(), unit: unit.into() }),
        }
    }
}

/// What Proton's viewer takes for the whole: the first root's sum, or what all nodes have of a metric
/// that is not added up.
fn whole(found: &Found, values: &[f64]) -> f64 {
    if found.is_inclusive {
        return values.first().copied().unwrap_or(f64::NAN);
    }
    sum(&mut values.to_vec())
}

/// Says for what a metric was looked up that is not there.
fn wanted_for(asked: &str, error: MetricError) -> MetricError {
    match error {
        MetricError::Unknown { metric, nearest, available, .. } => {
            let wanted_for = Some(asked.to_owned()).filter(|asked| *asked != metric);
            MetricError::Unknown { metric, wanted_for, nearest, available }
        }
        other => other,
    }
}

/// The unit of time that stands in parentheses behind a metric's name, in seconds.
pub fn unit_secs(key: &str) -> Option<f64> {
    let (_, rest) = key.split_once('(')?;
    seconds(rest.split(')').next()?.trim())
}

/// How far devices were used.
impl Graph {
    /// The share of the time that the work would have taken at the peak rates: of the arithmetic,
    /// each width at its own rate, or of the memory traffic, whichever is larger.
    ///
    /// NaN for nodes that ran on no device.
    fn util(&self, notes: &mut Vec<String>) -> Result<Vec<f64>, MetricError> {
        let time_secs = self.time_secs("time")?;
        let ran_on = self.devices_of_nodes()?;
        let compute_secs = self.least_compute_secs(&ran_on, notes)?;
        let memory_secs = self.least_memory_secs(&ran_on, notes)?;
        let share = |at: usize| {
            if ran_on[at] == RanOn::Nothing {
                return f64::NAN;
            }
            let (compute, memory) = (compute_secs[at], memory_secs[at]);
            // An unknown peak makes the share unknown.
            let least = if memory > compute || memory.is_nan() { memory } else { compute };
            least / time_secs[at]
        };
        if ran_on.contains(&RanOn::Unlisted) {
            notes.push("util of devices that the profile does not describe is shown as 0".into());
        }
        Ok((0..self.nodes.len()).map(share).collect())
    }

    fn devices_of_nodes(&self) -> Result<Vec<RanOn>, MetricError> {
        let ids = self.column(DEVICE_ID).ok_or_else(|| self.unknown(DEVICE_ID))?;
        let families = self.column(DEVICE_TYPE);
        let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        for (position, device) in self.devices.iter().enumerate() {
            by_id.entry(&device.id).or_default().push(position);
        }
        let device = |at: usize| {
            let Some(id) = ids.get(at) else { return RanOn::Nothing };
            let id = shown(&id);
            let family = families.as_ref().and_then(|families| families.get(at));
            let family = family.map(|family| shown(&family));
            let of_id = by_id.get(&*id).map_or(&[][..], Vec::as_slice);
            // Proton writes the family of some metrics as a number.
            let is_its = |at: &&usize| Some(&self.devices[**at].family) == family.as_ref();
            let found = of_id.iter().find(is_its).or(of_id.first());
            found.map_or(RanOn::Unlisted, |&position| RanOn::Listed(position))
        };
        Ok((0..self.nodes.len()).map(device).collect())
    }

    /// Seconds that the floating-point operations take at the peak rates.
    fn least_compute_secs(
        &self,
        ran_on: &[RanOn],
        notes: &mut Vec<String>,
    ) -> Result<Vec<f64>, MetricError> {
        let mut least_secs = vec![0.0; self.nodes.len()];
        for width in WIDTHS {
            self.add_secs(&mut least_secs, &format!("flops{width}"), ran_on, notes, |device| {
                let num_sms = device.num_sms.unwrap_or_default() as f64;
                let clock_khz = device.clock_rate_khz.unwrap_or_default() as f64;
                peaks::max_flops(&device.family, arch(device), width, num_sms, clock_khz)
            })?;
        }
        Ok(least_secs)
    }

    /// Seconds that the memory traffic takes at the peak rate.
    fn least_memory_secs(
        &self,
        ran_on: &[RanOn],
        notes: &mut Vec<String>,
    ) -> Result<Vec<f64>, MetricError> {
        let mut least_secs = vec![0.0; self.nodes.len()];
        self.add_secs(&mut least_secs, "bytes", ran_on, notes, |device| {
            let bus_bits = device.bus_width_bits.unwrap_or_default() as f64;
            let clock_khz = device.memory_clock_rate_khz.unwrap_or_default() as f64;
            peaks::max_bps(&device.family, arch(device), bus_bits, clock_khz)
        })?;
        Ok(least_secs)
    }

    /// Adds what each node's own amount of a metric takes at its device's peak rate. Nodes without
    /// one take nothing, whatever is known of the device.
    fn add_secs(
        &self,
        least_secs: &mut [f64],
        metric: &str,
        ran_on: &[RanOn],
        notes: &mut Vec<String>,
        peak: impl Fn(&Device) -> Result<f64, peaks::NoPeak>,
    ) -> Result<(), MetricError> {
        let Some(amounts) = self.numbers_if_there(metric)? else { return Ok(()) };
        let rates = self.peaks(notes, peak);
        for (at, secs) in least_secs.iter_mut().enumerate() {
            if let RanOn::Listed(device) = ran_on[at]
                && !amounts[at].is_nan()
                && amounts[at] != 0.0
            {
                *secs += amounts[at] / rates[device];
            }
        }
        Ok(())
    }

    /// The peak rate of each device, NaN and a note where it is not known.
    fn peaks(
        &self,
        notes: &mut Vec<String>,
        peak: impl Fn(&Device) -> Result<f64, peaks::NoPeak>,
    ) -> Vec<f64> {
        let rate = |device: &Device| match peak(device) {
            Ok(rate) => rate,
            Err(unknown) => {
                let note = format!("util of device {} is unknown: {unknown}", device.id);
                if !notes.contains(&note) {
                    notes.push(note);
                }
                f64::NAN
            }
        };
        self.devices.iter().map(rate).collect()
    }
}

fn arch(device: &Device) -> &str {
    device.arch.as_deref().unwrap_or_default()
}

fn shown(value: &MetricValue) -> String {
    match value {
        MetricValue::Text(text) => text.to_string(),
        MetricValue::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
