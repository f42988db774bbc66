//! Readings of the counters of devices, without the queries that they reject.

use super::error::Unavailable;
use super::gpm::Gpm;
use super::library;
use super::nvlink::Links;
use super::query::{PCIE_THROUGHPUT, QUERIES, Query, Refusal, Report};
use super::visible::{self, Visible};
use marey_model::counter::DeviceCounter;
use marey_model::loss::LossCause;
use marey_record::api::{self, CounterSample};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::time::Duration;

/// Period of slow queries.
const SLOW_PERIOD: Duration = Duration::from_secs(1);

/// Reads the counters of the devices that the process uses.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The process; the child of a fork has its own device handles.
    pid: u32,
    nvml: &'static Nvml,
    devices: Vec<Sampled>,
    /// UUIDs of lost devices, which are not read again.
    lost: Vec<String>,
    /// Name ids of the counters.
    names: Vec<u32>,
    /// Number of readings until slow queries are due.
    until_slow: u32,
    slow_every: u32,
    /// Buffer for the values of a reading.
    values: Vec<CounterSample>,
}

/// A device, with the queries that it has not rejected.
#[derive(Debug)]
struct Sampled {
    /// CUDA device number.
    number: u32,
    uuid: String,
    device: Device<'static>,
    queries: Vec<&'static Query>,
    gpm: Option<Gpm>,
    links: Option<Links>,
    is_lost: bool,
}

impl Sampler {
    /// Finds the devices; slow queries are scheduled for readings every `period`.
    pub(super) fn open(period: Duration) -> Result<Self, Unavailable> {
        let nvml = library::open()?;
        let count = nvml
            .device_count()
            .map_err(|error| Unavailable::not_started(&library::name(), &error))?;
        let devices: Vec<_> = visible::devices(nvml).into_iter().map(Sampled::new).collect();
        if devices.is_empty() {
            let library = library::name();
            return Err(match count {
                0 => Unavailable::NoDevice { library },
                _ => Unavailable::Hidden { library },
            });
        }
        let names = DeviceCounter::ALL.iter().map(|counter| api::intern(counter.name())).collect();
        let slow_every = (SLOW_PERIOD.as_millis() / period.as_millis().max(1)).max(1) as u32;
        let pid = std::process::id();
        let (lost, values) = (Vec::new(), Vec::new());
        Ok(Self { pid, nvml, devices, lost, names, until_slow: 0, slow_every, values })
    }

    /// Whether the sampler belongs to this process, not to its parent.
    pub(super) fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Returns the number of devices that respond.
    pub(super) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Finds the devices again, because the program may have begun to use others.
    fn find_devices(&mut self) {
        let mut known = std::mem::take(&mut self.devices);
        for visible in visible::devices(self.nvml) {
            let at = known.iter().position(|device| device.uuid == visible.uuid);
            if let Some(device) = at.map(|at| known.swap_remove(at)) {
                self.devices.push(Sampled { number: visible.number, ..device });
            } else if !self.lost.contains(&visible.uuid) {
                self.devices.push(Sampled::new(visible));
            }
        }
    }

    /// Reads every device once.
    pub(super) fn read(&mut self) {
        if self.until_slow == 0 {
            self.find_devices();
        }
        let Self { devices, lost, names, until_slow, slow_every, values, .. } = self;
        let is_slow_due = *until_slow == 0;
        *until_slow = if is_slow_due { *slow_every - 1 } else { *until_slow - 1 };
        let time_ticks = api::now_ticks();
        for device in devices.iter_mut() {
            let number = Some(device.number);
            device.read(is_slow_due, &mut |counter, value| {
                let name = names[counter as usize];
                values.push(CounterSample { name, device: number, time_ticks, value });
            });
        }
        api::record_counters(values);
        values.clear();
        let lost_now = devices.extract_if(.., |device| device.is_lost).map(|device| device.uuid);
        let known = lost.len();
        lost.extend(lost_now);
        api::count_losses(LossCause::CountersEnded, (lost.len() - known) as u64);
    }
}

impl Sampled {
    fn new(Visible { number, uuid, device }: Visible) -> Self {
        let mut sampled = Self {
            number,
            uuid,
            gpm: Gpm::of_device(&device),
            device,
            queries: QUERIES.iter().collect(),
            links: None,
            is_lost: false,
        };
        if sampled.gpm.is_none() {
            sampled.replace_gpm();
        }
        sampled
    }

    /// Replaces GPM by other queries.
    fn replace_gpm(&mut self) {
        self.gpm = None;
        self.queries.push(&PCIE_THROUGHPUT);
        self.links = Some(Links::default());
    }

    fn read(&mut self, is_slow_due: bool, report: Report<'_>) {
        let Self { device, queries, gpm, links, is_lost, .. } = self;
        let has_gpm = gpm.is_some();
        // First, so that slow queries do not shift GPM's samples.
        if let Some(source) = gpm
            && !is_to_repeat(source.read(device, report), is_lost)
        {
            *gpm = None;
        }
        if let Some(source) = links
            && !is_to_repeat(source.read(device, report), is_lost)
        {
            *links = None;
        }
        queries.retain(|query| {
            let is_due = !*is_lost && (is_slow_due || !query.is_slow);
            !is_due || is_to_repeat((query.run)(device, report), is_lost)
        });
        if has_gpm && self.gpm.is_none() && !self.is_lost {
            self.replace_gpm();
        }
    }
}

/// Whether to repeat a query after this result. Sets `is_lost` if the device is lost.
fn is_to_repeat(result: Result<(), NvmlError>, is_lost: &mut bool) -> bool {
    let Err(error) = result else { return true };
    match Refusal::from(&error) {
        Refusal::Unsupported => false,
        Refusal::Forbidden => {
            api::count_losses(LossCause::CountersEnded, 1);
            false
        }
        Refusal::Lost => {
            *is_lost = true;
            true
        }
        Refusal::Temporary => true,
    }
}
