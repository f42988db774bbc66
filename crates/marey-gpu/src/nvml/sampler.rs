//! The readings: each device is asked what it has, and what it has not is left out.

use super::error::Unavailable;
use super::gpm::Gpm;
use super::library;
use super::nvlink::Links;
use super::query::{PCIE_THROUGHPUT, QUERIES, Query, Refusal, Tell};
use super::visible::{self, Visible};
use marey_model::counter::DeviceCounter;
use marey_model::loss::LossCause;
use marey_record::api::{self, Counter};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::time::Duration;

/// How often slow questions are asked.
const SLOW_PERIOD: Duration = Duration::from_secs(1);

/// Reads the counters of the devices that the process uses.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The process, whose child has devices of its own.
    pid: u32,
    nvml: &'static Nvml,
    devices: Vec<Sampled>,
    /// UUIDs of those that were lost: they are not asked again.
    lost: Vec<String>,
    /// The number of each counter's name.
    names: Vec<u32>,
    /// Readings until slow questions are due.
    until_slow: u32,
    slow_every: u32,
    /// The room for the values of a reading.
    values: Vec<Counter>,
}

/// A device, and what it has not refused.
#[derive(Debug)]
struct Sampled {
    /// CUDA's number.
    number: u32,
    uuid: String,
    device: Device<'static>,
    queries: Vec<&'static Query>,
    gpm: Option<Gpm>,
    links: Option<Links>,
    is_lost: bool,
}

impl Sampler {
    /// Finds the devices, which are to be read every `period`.
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

    /// Whether it is of this process.
    pub(super) fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Devices that answer.
    pub(super) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Finds the devices again: the program may have begun to use some.
    fn look_again(&mut self) {
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
            self.look_again();
        }
        let Self { devices, lost, names, until_slow, slow_every, values, .. } = self;
        let is_slow_due = *until_slow == 0;
        *until_slow = if is_slow_due { *slow_every - 1 } else { *until_slow - 1 };
        let time_ticks = api::now_ticks();
        for device in devices.iter_mut() {
            let number = Some(device.number);
            device.read(is_slow_due, &mut |counter, value| {
                let name = names[counter as usize];
                values.push(Counter { name, device: number, time_ticks, value });
            });
        }
        api::counters(values);
        values.clear();
        let ended = devices.extract_if(.., |device| device.is_lost).map(|device| device.uuid);
        let known = lost.len();
        lost.extend(ended);
        api::count_losses(LossCause::CountersEnded, (lost.len() - known) as u64);
    }
}

impl Sampled {
    fn new(Visible { number, uuid, device }: Visible) -> Self {
        let mut sampled = Self {
            number,
            uuid,
            gpm: Gpm::of(&device),
            device,
            queries: QUERIES.iter().collect(),
            links: None,
            is_lost: false,
        };
        if sampled.gpm.is_none() {
            sampled.do_without_gpm();
        }
        sampled
    }

    /// Asks in other ways for what GPM would tell.
    fn do_without_gpm(&mut self) {
        self.gpm = None;
        self.queries.push(&PCIE_THROUGHPUT);
        self.links = Some(Links::default());
    }

    fn read(&mut self, is_slow_due: bool, tell: Tell<'_>) {
        let Self { device, queries, gpm, links, is_lost, .. } = self;
        let has_gpm = gpm.is_some();
        // First, so that what takes long does not come between two samples.
        if let Some(own) = gpm
            && !is_there(own.read(device, tell), is_lost)
        {
            *gpm = None;
        }
        if let Some(own) = links
            && !is_there(own.read(device, tell), is_lost)
        {
            *links = None;
        }
        queries.retain(|query| {
            let is_due = !*is_lost && (is_slow_due || !query.is_slow);
            !is_due || is_there((query.ask)(device, tell), is_lost)
        });
        if has_gpm && self.gpm.is_none() && !self.is_lost {
            self.do_without_gpm();
        }
    }
}

/// Whether what was asked shall be asked again; a device may turn out to be lost.
fn is_there(answer: Result<(), NvmlError>, is_lost: &mut bool) -> bool {
    let Err(error) = answer else { return true };
    match Refusal::from(&error) {
        Refusal::NotThere => false,
        Refusal::Forbidden => {
            api::count_losses(LossCause::CountersEnded, 1);
            false
        }
        Refusal::Lost => {
            *is_lost = true;
            true
        }
        Refusal::ThisTime => true,
    }
}
