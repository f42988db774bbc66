//! Reads the counters of the devices that the process uses, and remembers which queries each device
//! rejects.

use super::error::Unavailable;
use super::gpm::Gpm;
use super::library;
use super::nvlink::Links;
use super::query::{PCIE_THROUGHPUT, QUERIES, Query, QueryFailure, Report};
use super::visible::{self, VisibleDevice};
use marey_model::counter::DeviceCounter;
use marey_model::loss::LossCause;
use marey_record::api::{self, CounterSample};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::time::Duration;

/// The time between two runs of the slow queries.
const SLOW_PERIOD: Duration = Duration::from_secs(1);

/// Reads the counters of the devices that the process uses.
#[derive(Debug)]
pub(super) struct NvmlSampler {
    /// The id of the sampled process. The child of a fork has its own device handles.
    pid: u32,
    nvml: &'static Nvml,
    devices: Vec<SampledDevice>,
    /// The UUIDs of lost devices, which are not read again.
    lost_uuids: Vec<String>,
    /// The interned name ids of the counters.
    name_ids: Vec<u32>,
    /// The number of readings until the slow queries are due.
    readings_until_slow: u32,
    readings_per_slow: u32,
    /// A buffer for the values of one reading.
    values: Vec<CounterSample>,
}

/// A device, with the queries that it has not rejected.
#[derive(Debug)]
struct SampledDevice {
    /// CUDA device number.
    number: u32,
    uuid: String,
    device: Device<'static>,
    queries: Vec<&'static Query>,
    gpm: Option<Gpm>,
    links: Option<Links>,
    is_lost: bool,
}

impl NvmlSampler {
    /// Finds the devices. `period` is the time between readings, from which the schedule of slow
    /// queries follows.
    pub(super) fn open(period: Duration) -> Result<Self, Unavailable> {
        let nvml = library::open()?;
        let count = nvml
            .device_count()
            .map_err(|error| Unavailable::not_started(&library::name(), &error))?;
        let devices: Vec<_> = visible::devices(nvml).into_iter().map(SampledDevice::new).collect();
        if devices.is_empty() {
            let reason = if count == 0 { Unavailable::NoDevice } else { Unavailable::Hidden };
            return Err(reason(library::name()));
        }
        let name_ids =
            DeviceCounter::ALL.iter().map(|counter| api::intern(counter.name())).collect();
        let readings_per_slow = (SLOW_PERIOD.as_millis() / period.as_millis().max(1)).max(1) as u32;
        Ok(Self {
            pid: std::process::id(),
            nvml,
            devices,
            lost_uuids: Vec::new(),
            name_ids,
            readings_until_slow: 0,
            readings_per_slow,
            values: Vec::new(),
        })
    }

    /// Whether the sampler belongs to this process, not to its parent.
    pub(super) fn belongs_to_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Returns the number of devices that respond.
    pub(super) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Finds the devices again, because the program may have begun to use others.
    fn find_devices(&mut self) {
        let mut earlier_devices = std::mem::take(&mut self.devices);
        for visible in visible::devices(self.nvml) {
            let index = earlier_devices.iter().position(|device| device.uuid == visible.uuid);
            if let Some(device) = index.map(|index| earlier_devices.swap_remove(index)) {
                self.devices.push(SampledDevice { number: visible.number, ..device });
            } else if !self.lost_uuids.contains(&visible.uuid) {
                self.devices.push(SampledDevice::new(visible));
            }
        }
    }

    /// Reads every device once.
    pub(super) fn read(&mut self) {
        let is_slow_due = self.readings_until_slow == 0;
        if is_slow_due {
            self.find_devices();
            self.readings_until_slow = self.readings_per_slow;
        }
        self.readings_until_slow -= 1;
        let time_ticks = api::now_ticks();
        for device in &mut self.devices {
            let number = Some(device.number);
            device.read(is_slow_due, &mut |counter, value| {
                let name_id = self.name_ids[counter as usize];
                self.values.push(CounterSample { name_id, device: number, time_ticks, value });
            });
        }
        api::record_counters(&self.values);
        self.values.clear();
        let lost_before = self.lost_uuids.len();
        let newly_lost = self.devices.extract_if(.., |device| device.is_lost);
        self.lost_uuids.extend(newly_lost.map(|device| device.uuid));
        api::count_losses(LossCause::CountersEnded, (self.lost_uuids.len() - lost_before) as u64);
    }
}

impl SampledDevice {
    fn new(VisibleDevice { number, uuid, device }: VisibleDevice) -> Self {
        let mut sampled = Self {
            number,
            uuid,
            gpm: Gpm::for_device(&device),
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
        // Read GPM first, so that slow queries do not shift its samples.
        if let Some(source) = gpm
            && !should_repeat(source.read(device, report), is_lost)
        {
            *gpm = None;
        }
        if let Some(source) = links
            && !should_repeat(source.read(device, report), is_lost)
        {
            *links = None;
        }
        queries.retain(|query| {
            let is_due = !*is_lost && (is_slow_due || !query.is_slow);
            !is_due || should_repeat((query.run)(device, report), is_lost)
        });
        if has_gpm && self.gpm.is_none() && !self.is_lost {
            self.replace_gpm();
        }
    }
}

/// Whether to repeat a query that had this result. Sets `is_lost` if the device is lost.
fn should_repeat(result: Result<(), NvmlError>, is_lost: &mut bool) -> bool {
    let Err(error) = result else { return true };
    match QueryFailure::from(&error) {
        QueryFailure::Unsupported => false,
        QueryFailure::Forbidden => {
            api::count_losses(LossCause::CountersEnded, 1);
            false
        }
        QueryFailure::DeviceLost => {
            *is_lost = true;
            true
        }
        QueryFailure::Temporary => true,
    }
}
