//! Writes the scalars of training steps: their durations, and the times of devices and spans in
//! them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use marey_model::context::NodeKind;
use marey_store::row::{ActivityKind, GpuActivity, Span, Step};
use marey_store::{Reader, StoreError};

use super::event::Events;
use super::tag;
use crate::shared::export::{ExportError, LeftOut};

/// The maximum number of names whose time is written.
const MAX_NAMES: usize = 10;

/// The maximum number of devices of a process whose time is written.
const MAX_DEVICES: usize = 16;

/// The steps of each process by start. They fit into memory.
pub(super) struct Steps(HashMap<u32, Vec<Step>>);

impl Steps {
    pub(super) fn read(reader: &Reader) -> Result<Self, StoreError> {
        let mut steps: HashMap<u32, Vec<Step>> = HashMap::new();
        for step in reader.rows::<Step>()? {
            let step = step?;
            steps.entry(step.process_id).or_default().push(step);
        }
        Ok(Self(steps))
    }

    /// Returns the steps of a process.
    pub(super) fn process_steps(&self, process_id: u32) -> &[Step] {
        self.0.get(&process_id).map_or(&[], Vec::as_slice)
    }

    /// Returns the index of the last step that began at or before a time.
    pub(super) fn last_begun_index(&self, process_id: u32, nanos: i64) -> Option<usize> {
        let index =
            self.process_steps(process_id).partition_point(|step| step.start_nanos <= nanos);
        index.checked_sub(1)
    }

    /// Returns the index of the step that contains a time.
    fn index_containing(&self, process: u32, nanos: i64) -> Option<usize> {
        let index = self.last_begun_index(process, nanos)?;
        (nanos < step_end_nanos(&self.process_steps(process)[index])).then_some(index)
    }
}

fn step_end_nanos(step: &Step) -> i64 {
    step.start_nanos.saturating_add(step.duration_nanos)
}

/// Writes the scalars of each step.
pub(super) fn write(
    reader: &Reader,
    steps: &Steps,
    events: &mut Events,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let name_ids = longest_names(reader)?;
    let scope_times = read_scope_times(reader, steps, &name_ids)?;
    let busy_times = read_busy_times(reader, steps, &busiest_devices(reader, left_out)?)?;
    for process in reader.processes() {
        for (number, step) in steps.process_steps(process.id).iter().enumerate() {
            let mut scalar = |name: &str, value: f64| {
                let tag = tag(reader, process.id, name);
                events.write_scalar(tag, step.number.into(), step.start_nanos, value)
            };
            scalar("step/time_ms", step.duration_nanos as f64 / 1e6)?;
            for ((_, device), nanos) in busy_times.range((process.id, 0)..=(process.id, u32::MAX)) {
                let share = nanos[number] as f64 / step.duration_nanos.max(1) as f64;
                scalar(&format!("gpu{device}/busy_percent"), 100.0 * share)?;
            }
            for (&name, nanos) in name_ids
                .iter()
                .zip(scope_times.get(&process.id).map_or(&[][..], |times| &times[number]))
            {
                scalar(&format!("scope/{}_ms", reader.text(name)), *nanos as f64 / 1e6)?;
            }
        }
    }
    Ok(())
}

/// Returns the names of spans with the most time, except steps. Ties are ordered by name.
fn longest_names(reader: &Reader) -> Result<Vec<u32>, StoreError> {
    let mut totals: HashMap<u32, i64> = HashMap::new();
    for span in reader.rows::<Span>()? {
        let span = span?;
        if reader.context(span.context_id).kind != NodeKind::Step {
            let total = totals.entry(span.name_id).or_default();
            *total = total.saturating_add(span.duration_nanos);
        }
    }
    let mut name_ids: Vec<u32> = totals.keys().copied().collect();
    name_ids.sort_by_key(|name| (Reverse(totals[name]), reader.text(*name)));
    name_ids.truncate(MAX_NAMES);
    Ok(name_ids)
}

/// Returns the time of spans with these names by process and by the step in which they began.
fn read_scope_times(
    reader: &Reader,
    steps: &Steps,
    name_ids: &[u32],
) -> Result<HashMap<u32, Vec<[i64; MAX_NAMES]>>, StoreError> {
    let positions: HashMap<u32, usize> = name_ids.iter().copied().zip(0..).collect();
    let ancestor_names = collect_ancestor_names(reader, &positions);
    let mut times: HashMap<u32, Vec<[i64; MAX_NAMES]>> = HashMap::new();
    for span in reader.rows::<Span>()? {
        let span = span?;
        let Some(&position) = positions.get(&span.name_id) else { continue };
        // A span inside a span of the same name is skipped, because its time is counted already.
        if ancestor_names
            .get(span.context_id as usize)
            .is_none_or(|names| names & 1 << position != 0)
        {
            continue;
        }
        let Some(process) = reader.thread(span.thread_id).map(|thread| thread.process_id) else {
            continue;
        };
        if let Some(step) = steps.index_containing(process, span.start_nanos) {
            let process_times = times
                .entry(process)
                .or_insert_with(|| vec![[0; MAX_NAMES]; steps.process_steps(process).len()]);
            let nanos = &mut process_times[step][position];
            *nanos = nanos.saturating_add(span.duration_nanos);
        }
    }
    Ok(times)
}

/// Returns for each context a bit set of the names among its ancestors.
fn collect_ancestor_names(reader: &Reader, positions: &HashMap<u32, usize>) -> Vec<u16> {
    let contexts = reader.contexts();
    let mut ancestor_names: Vec<u16> = Vec::with_capacity(contexts.len());
    for context in contexts {
        // Parents come before their children.
        let parent = context.parent.map(|parent| parent as usize);
        let names = parent.and_then(|parent| {
            let bit = positions.get(&contexts[parent].name_id).map_or(0, |position| 1 << position);
            Some(ancestor_names.get(parent)? | bit)
        });
        ancestor_names.push(names.unwrap_or(0));
    }
    ancestor_names
}

/// Returns the busiest devices of each process as pairs of process and device. The remaining ones
/// are counted as left out.
fn busiest_devices(
    reader: &Reader,
    left_out: &mut LeftOut,
) -> Result<HashSet<(u32, u32)>, StoreError> {
    let mut totals: HashMap<(u32, u32), i64> = HashMap::new();
    for activity in reader.rows::<GpuActivity>()? {
        let activity = activity?;
        if is_work(&activity) {
            let total = totals.entry((activity.process_id, activity.device)).or_default();
            *total = total.saturating_add(activity.duration_nanos);
        }
    }
    let mut devices: Vec<(u32, u32)> = totals.keys().copied().collect();
    devices.sort_unstable_by_key(|&(process, device)| {
        (process, Reverse(totals[&(process, device)]), device)
    });
    let count = devices.len();
    let by_process = devices.chunk_by(|a, b| a.0 == b.0);
    let busiest: HashSet<_> =
        by_process.flat_map(|devices| devices.iter().take(MAX_DEVICES)).copied().collect();
    left_out.insert("devices other than the 16 busiest", (count - busiest.len()) as u64);
    Ok(busiest)
}

/// Whether an activity is work of the device. Annotations enclose other activities, and waits are
/// no work. The view `gpu_time` counts the same kinds.
const fn is_work(activity: &GpuActivity) -> bool {
    matches!(activity.kind, ActivityKind::Kernel | ActivityKind::Memcpy | ActivityKind::Memset)
}

/// Returns the busy time of each device in each step, by process and device.
fn read_busy_times(
    reader: &Reader,
    steps: &Steps,
    devices: &HashSet<(u32, u32)>,
) -> Result<BTreeMap<(u32, u32), Vec<i64>>, StoreError> {
    let mut busy_times: BTreeMap<(u32, u32), Vec<i64>> = BTreeMap::new();
    // The end of the busy time that was counted so far, by device.
    let mut counted_until_nanos: HashMap<(u32, u32), i64> = HashMap::new();
    for activity in reader.rows::<GpuActivity>()? {
        let activity = activity?;
        if !is_work(&activity) || !devices.contains(&(activity.process_id, activity.device)) {
            continue;
        }
        let GpuActivity { process_id: process, device, start_nanos, duration_nanos, .. } = activity;
        let process_steps = steps.process_steps(process);
        let counted_until_nanos = counted_until_nanos.entry((process, device)).or_insert(i64::MIN);
        let (mut start_nanos, end_nanos) =
            (start_nanos.max(*counted_until_nanos), start_nanos.saturating_add(duration_nanos));
        *counted_until_nanos = end_nanos.max(*counted_until_nanos);
        let nanos =
            busy_times.entry((process, device)).or_insert_with(|| vec![0; process_steps.len()]);
        let first_step = steps.last_begun_index(process, start_nanos).unwrap_or(0);
        for (step, nanos) in process_steps.iter().zip(nanos).skip(first_step) {
            if step.start_nanos >= end_nanos || start_nanos >= end_nanos {
                break;
            }
            let overlap_start_nanos = start_nanos.max(step.start_nanos);
            let overlap_nanos =
                end_nanos.min(step_end_nanos(step)).saturating_sub(overlap_start_nanos).max(0);
            *nanos = nanos.saturating_add(overlap_nanos);
            start_nanos = overlap_start_nanos.saturating_add(overlap_nanos);
        }
    }
    Ok(busy_times)
}
