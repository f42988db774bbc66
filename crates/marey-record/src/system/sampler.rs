//! Samples the counters of the process, as rates between two readings.

use super::proc_files::{self, Interface, IoBytes, Usage};
use super::threads::ThreadTimes;
use crate::api::CounterSample;
use crate::clock;
use crate::names;
use marey_model::counter::SystemCounter;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of interfaces that are recorded.
const MAX_INTERFACES: usize = 16;

/// The last reading, to which the next one is compared.
#[derive(Debug)]
pub(super) struct SystemSampler {
    /// The id of the sampled process. The child of a fork has counters of its own.
    pid: u32,
    read_ticks: u64,
    usage: Usage,
    io: Option<IoBytes>,
    interfaces: Vec<Interface>,
    /// The interfaces that had traffic, with the interned ids of their counters' names.
    recorded_interfaces: BTreeMap<String, [u32; 2]>,
    threads: ThreadTimes,
    samples: Vec<CounterSample>,
}

/// The samples of one reading.
struct CounterBatch<'a> {
    samples: &'a mut Vec<CounterSample>,
    time_ticks: u64,
    elapsed_secs: f64,
}

impl CounterBatch<'_> {
    fn push(&mut self, counter: SystemCounter, value: f64) {
        self.push_named(names::intern(counter.name()), value);
    }

    fn push_named(&mut self, name_id: u32, value: f64) {
        let time_ticks = self.time_ticks;
        self.samples.push(CounterSample { name_id, device: None, time_ticks, value });
    }

    /// Adds the growth of a total per second.
    fn push_rate(&mut self, counter: SystemCounter, current: u64, previous: u64) {
        self.push(counter, self.rate(current, previous));
    }

    fn rate(&self, current: u64, previous: u64) -> f64 {
        current.saturating_sub(previous) as f64 / self.elapsed_secs
    }
}

impl SystemSampler {
    /// Reads for the first time.
    pub(super) fn begin() -> Self {
        Self {
            pid: std::process::id(),
            read_ticks: clock::ticks(),
            usage: proc_files::usage(),
            io: proc_files::io(),
            interfaces: proc_files::interfaces(),
            recorded_interfaces: BTreeMap::new(),
            threads: ThreadTimes::now(),
            samples: Vec::new(),
        }
    }

    /// Whether the sampler belongs to this process, not to its parent.
    pub(super) fn belongs_to_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Returns the time since the last reading.
    pub(super) fn since_reading(&self) -> Duration {
        Duration::from_nanos(clock::nanos_since(self.read_ticks))
    }

    /// Reads all counters and passes the samples on.
    pub(super) fn read(&mut self, write: fn(&[CounterSample])) {
        let time_ticks = clock::ticks();
        let elapsed_nanos = clock::nanos(time_ticks.saturating_sub(self.read_ticks)).max(1) as f64;
        self.read_ticks = time_ticks;
        let mut samples = std::mem::take(&mut self.samples);
        samples.clear();
        let elapsed_secs = elapsed_nanos / 1e9;
        let mut batch = CounterBatch { samples: &mut samples, time_ticks, elapsed_secs };
        self.read_usage(&mut batch);
        self.read_memory_and_io(&mut batch);
        self.read_interfaces(&mut batch);
        for (source, percent) in self.threads.read(elapsed_nanos) {
            batch.push_named(names::intern(&SystemCounter::ThreadCpu.name_for(&source)), percent);
        }
        write(&samples);
        self.samples = samples;
    }

    fn read_usage(&mut self, batch: &mut CounterBatch<'_>) {
        let current = proc_files::usage();
        let previous = std::mem::replace(&mut self.usage, current);
        batch.push(
            SystemCounter::ProcessCpu,
            batch.rate(current.cpu_nanos, previous.cpu_nanos) / 1e7,
        );
        for (counter, current, previous) in [
            (SystemCounter::MinorFaults, current.minor_faults, previous.minor_faults),
            (SystemCounter::MajorFaults, current.major_faults, previous.major_faults),
            (
                SystemCounter::VoluntarySwitches,
                current.voluntary_switches,
                previous.voluntary_switches,
            ),
            (
                SystemCounter::InvoluntarySwitches,
                current.involuntary_switches,
                previous.involuntary_switches,
            ),
        ] {
            batch.push_rate(counter, current, previous);
        }
    }

    fn read_memory_and_io(&mut self, batch: &mut CounterBatch<'_>) {
        if let Some((virtual_bytes, resident_bytes)) = proc_files::memory_bytes() {
            batch.push(SystemCounter::ProcessRss, resident_bytes as f64);
            batch.push(SystemCounter::ProcessVms, virtual_bytes as f64);
        }
        let current = proc_files::io();
        let previous = std::mem::replace(&mut self.io, current);
        if let (Some(current), Some(previous)) = (current, previous) {
            batch.push_rate(SystemCounter::Read, current.read, previous.read);
            batch.push_rate(SystemCounter::Written, current.written, previous.written);
            batch.push_rate(
                SystemCounter::StorageRead,
                current.storage_read,
                previous.storage_read,
            );
            let storage_written = (current.storage_written, previous.storage_written);
            batch.push_rate(SystemCounter::StorageWritten, storage_written.0, storage_written.1);
        }
    }

    fn read_interfaces(&mut self, batch: &mut CounterBatch<'_>) {
        let current = proc_files::interfaces();
        let previous = std::mem::take(&mut self.interfaces);
        for interface in &current {
            let Some(previous) = previous.iter().find(|candidate| candidate.name == interface.name)
            else {
                continue;
            };
            let has_room = self.recorded_interfaces.len() < MAX_INTERFACES;
            let name_ids = match self.recorded_interfaces.get(&interface.name) {
                Some(&name_ids) => name_ids,
                None if has_room && previous != interface => {
                    let counters = [SystemCounter::NetworkReceived, SystemCounter::NetworkSent];
                    let name_ids =
                        counters.map(|counter| names::intern(&counter.name_for(&interface.name)));
                    self.recorded_interfaces.insert(interface.name.clone(), name_ids);
                    name_ids
                }
                None => continue,
            };
            batch.push_named(
                name_ids[0],
                batch.rate(interface.received_bytes, previous.received_bytes),
            );
            batch.push_named(name_ids[1], batch.rate(interface.sent_bytes, previous.sent_bytes));
        }
        self.interfaces = current;
    }
}
