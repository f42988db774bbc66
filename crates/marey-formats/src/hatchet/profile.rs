//! Makes a profile of a run: sums its rows by context.
//!
//! Spans yield the wall-time metrics, as in the recorder's tree. Values that the program added, and
//! samples, yield the metrics that they name. Device activities become nodes below the context that
//! launched them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use marey_model::context::{NodeKind, ROOT_NAME};
use marey_model::hatchet::VERSION;
use marey_model::metric::{Aggregation, MetricValue};
use marey_model::profile::{
    Device, Meta, Metric as NodeMetric, Node, NodeId, Overhead, Process, Profile, Sketch,
};
use marey_model::sketch::{Sketch as WallSketch, quantile_nanos};
use marey_model::wall;
use marey_store::row::{
    ActivityKind, Args, Device as DeviceRow, GpuActivity, Metric, Sample, Span,
};
use marey_store::{Assembler, Reader, StoreError};
use serde::Deserialize;
use serde_json::Value;

use super::run::{BUCKETS_ARG, INTEGERS_ARG, SKETCH_NAME, read_headers};

const QUANTILES: [(&str, f64); 3] = [(wall::P50, 0.5), (wall::P90, 0.9), (wall::P99, 0.99)];

/// Returns the part of a run that `reader` sees as a profile: its calling-context tree with the
/// sums of each context. Processes and threads in the same context are added up.
///
/// # Errors
/// The run cannot be read.
pub fn profile_from_run(reader: &Reader) -> Result<Profile, StoreError> {
    let headers = read_headers(reader)?;
    let mut builder = ProfileBuilder::default();
    builder.context_node(Assembler::ROOT, reader);
    if headers.len() == reader.processes().count() {
        // In imported profiles, contexts without metrics are nodes too.
        for context in 0..reader.contexts().len() as u32 {
            builder.context_node(context, reader);
        }
    }
    builder.add_spans(reader)?;
    builder.add_metrics(reader)?;
    builder.add_samples(reader)?;
    builder.add_activities(reader)?;
    builder.merge_sketches();
    let (devices, meta) = match &headers[..] {
        [header] if reader.processes().count() == 1 => {
            (header.devices.clone(), header.meta.clone())
        }
        _ => (read_devices(reader)?, read_meta(reader)),
    };
    let mut profile = builder.finish();
    // Proton's files have no kinds.
    if !headers.is_empty() && headers.iter().all(|header| header.nodes[0].kind.is_none()) {
        profile.nodes.iter_mut().for_each(|node| node.kind = None);
    }
    if let [header] = &headers[..] {
        profile.nodes[0].clone_from(&header.nodes[0]);
    }
    Ok(Profile { devices, meta, ..profile })
}

/// Whether the program itself added the value. Otherwise it is that of a counter in a foreign file.
pub(super) fn is_from_program(value: &Metric) -> bool {
    value.sessions != 0
}

/// The nodes in the order of their first occurrence, with their values.
#[derive(Default)]
struct ProfileBuilder {
    nodes: Vec<OrderedNode>,
    context_nodes: HashMap<u32, u32>,
    /// Nodes of device activities, by launching node and name.
    activity_nodes: HashMap<(u32, u32), u32>,
    keys: Vec<Arc<str>>,
    key_ids: HashMap<Arc<str>, u32>,
    /// The order of the first occurrence and the sum, by node and key.
    cells: HashMap<(u32, u32), (usize, MetricValue)>,
    wall_times: BTreeMap<u32, WallTimes>,
    /// The number of merged sketches and their buckets, by node.
    sketches: BTreeMap<u32, (u32, Vec<(i64, u64)>)>,
}

/// A node and its order among siblings: contexts by id, then activities.
struct OrderedNode {
    node: Node,
    sibling_order: (bool, u32),
}

/// Sums of the spans of a context.
#[derive(Default)]
struct WallTimes {
    count: i64,
    total_nanos: i64,
    self_nanos: i64,
    open_count: i64,
    extremes_nanos: Option<(i64, i64)>,
    sketch: WallSketch,
}

impl ProfileBuilder {
    /// Returns the node of a context.
    fn context_node(&mut self, context_id: u32, reader: &Reader) -> u32 {
        let mut missing_contexts = Vec::new();
        let mut ancestor = context_id;
        let mut parent = loop {
            if let Some(&node_index) = self.context_nodes.get(&ancestor) {
                break Some(node_index);
            }
            missing_contexts.push(ancestor);
            // The id of a parent is less than that of its child, so the loop ends.
            match reader.context(ancestor).parent.filter(|&parent| parent < ancestor) {
                Some(parent) => ancestor = parent,
                None => break self.context_nodes.get(&Assembler::ROOT).copied(),
            }
        };
        for context_id in missing_contexts.into_iter().rev() {
            let row = reader.context(context_id);
            let name =
                if context_id == Assembler::ROOT { ROOT_NAME } else { reader.text(row.name_id) };
            let node = Node { name: name.into(), kind: Some(row.kind), parent: parent.map(NodeId) };
            let node_index = self.add_node(node, (false, context_id));
            self.context_nodes.insert(context_id, node_index);
            parent = Some(node_index);
        }
        self.context_nodes[&context_id]
    }

    fn add_node(&mut self, node: Node, order: (bool, u32)) -> u32 {
        self.nodes.push(OrderedNode { node, sibling_order: order });
        self.nodes.len() as u32 - 1
    }

    fn key_id(&mut self, key: &str) -> u32 {
        if let Some(&id) = self.key_ids.get(key) {
            return id;
        }
        let (key, id): (Arc<str>, _) = (key.into(), self.keys.len() as u32);
        self.keys.push(Arc::clone(&key));
        self.key_ids.insert(key, id);
        id
    }

    fn add_value(&mut self, node_index: u32, key: &str, value: MetricValue) {
        let order = self.cells.len();
        let key_id = self.key_id(key);
        match self.cells.get_mut(&(node_index, key_id)) {
            Some((_, sum)) => add_to_sum(key, sum, &value),
            None => {
                self.cells.insert((node_index, key_id), (order, value));
            }
        }
    }

    fn add_spans(&mut self, reader: &Reader) -> Result<(), StoreError> {
        for span in reader.rows::<Span>()? {
            let span = span?;
            let node_index = self.context_node(span.context_id, reader);
            self.wall_times.entry(node_index).or_default().add(&span);
        }
        for (node_index, wall) in std::mem::take(&mut self.wall_times) {
            self.add_wall_times(node_index, &wall);
        }
        Ok(())
    }

    fn add_wall_times(&mut self, node_index: u32, wall: &WallTimes) {
        let mut add = |key, value| self.add_value(node_index, key, MetricValue::Int(value));
        add(wall::COUNT, wall.count);
        add(wall::TOTAL, wall.total_nanos);
        add(wall::SELF, wall.self_nanos);
        if wall.open_count > 0 {
            add(wall::OPEN, wall.open_count);
        }
        let Some((min, max)) = wall.extremes_nanos else { return };
        add(wall::MIN, min);
        add(wall::MAX, max);
        for (key, quantile) in QUANTILES {
            let nanos = wall.sketch.quantile_nanos(quantile).unwrap_or(0);
            // The middle of a bucket may lie outside of the range of its values, so it is clamped.
            add(key, i64::try_from(nanos).unwrap_or(i64::MAX).clamp(min, max));
        }
        let buckets = wall.sketch.buckets().iter();
        self.add_sketch(
            node_index,
            buckets.map(|&(bucket, count)| (bucket.into(), count)).collect(),
        );
    }

    fn add_sketch(&mut self, node_index: u32, buckets: Vec<(i64, u64)>) {
        let (count, all_buckets) = self.sketches.entry(node_index).or_default();
        *count += 1;
        all_buckets.extend(buckets);
    }

    fn add_metrics(&mut self, reader: &Reader) -> Result<(), StoreError> {
        for value in reader.rows::<Metric>()? {
            let value = value?;
            if is_from_program(&value) {
                let node_index = self.context_node(value.context_id, reader);
                self.add_value(node_index, reader.text(value.name_id), value.value);
            }
        }
        Ok(())
    }

    fn add_samples(&mut self, reader: &Reader) -> Result<(), StoreError> {
        let mut json = String::new();
        for sample in reader.rows::<Sample>()? {
            let Sample { context_id, name_id, value, args, .. } = sample?;
            let node_index = self.context_node(context_id, reader);
            let name = reader.text(name_id);
            if let Some(buckets) =
                list_arg(reader, &args, BUCKETS_ARG, &mut json).filter(|_| name == SKETCH_NAME)
            {
                self.add_sketch(node_index, buckets);
            } else if let Some(integers) = list_arg(reader, &args, INTEGERS_ARG, &mut json) {
                self.add_value(node_index, name, MetricValue::Ints(integers));
            } else {
                self.add_value(node_index, name, value);
            }
        }
        Ok(())
    }

    /// Adds device activities with time and count, like kernels in Proton's files.
    fn add_activities(&mut self, reader: &Reader) -> Result<(), StoreError> {
        let families = device_families(reader)?;
        for activity in reader.rows::<GpuActivity>()? {
            let activity = activity?;
            if matches!(activity.kind, ActivityKind::Sync | ActivityKind::Annotation) {
                continue; // waits and annotations would count the time of kernels again
            }
            let parent = self.context_node(activity.context_id.unwrap_or(Assembler::ROOT), reader);
            let node_index = self.activity_node(parent, activity.name_id, reader);
            self.add_value(node_index, "time (ns)", MetricValue::Int(activity.duration_nanos));
            self.add_value(node_index, "count", MetricValue::Int(1));
            let family = families.get(&(activity.process_id, activity.device));
            let family = family.map_or("CUDA", |family| &**family);
            self.add_value(
                node_index,
                "device_id",
                MetricValue::Text(activity.device.to_string().into()),
            );
            self.add_value(node_index, "device_type", MetricValue::Text(family.into()));
        }
        Ok(())
    }

    fn activity_node(&mut self, parent: u32, name_id: u32, reader: &Reader) -> u32 {
        if let Some(&node_index) = self.activity_nodes.get(&(parent, name_id)) {
            return node_index;
        }
        let (name, kind) = (reader.text(name_id).into(), Some(NodeKind::Operator));
        let node = Node { name, kind, parent: Some(NodeId(parent)) };
        let node_index = self.add_node(node, (true, name_id));
        self.activity_nodes.insert((parent, name_id), node_index);
        node_index
    }

    /// Merges sketches. Quantiles do not add up, so they are computed from the merged sketches.
    fn merge_sketches(&mut self) {
        for (node_index, (count, buckets)) in std::mem::take(&mut self.sketches) {
            let mut sketch = buckets;
            if count > 1 {
                let mut merged = BTreeMap::<i64, u64>::new();
                for (bucket, entries) in sketch {
                    let sum = merged.entry(bucket).or_default();
                    *sum = sum.saturating_add(entries);
                }
                sketch = merged.into_iter().collect();
                self.update_quantiles(node_index, &sketch);
            }
            self.sketches.insert(node_index, (count, sketch));
        }
    }

    fn update_quantiles(&mut self, node_index: u32, sketch: &[(i64, u64)]) {
        let buckets = sketch.iter().map(|&(bucket, count)| Some((bucket.try_into().ok()?, count)));
        let Some(buckets) = buckets.collect::<Option<Vec<(u32, u64)>>>() else { return };
        for (key, quantile) in QUANTILES {
            let key = self.key_id(key);
            if let Some((_, value)) = self.cells.get_mut(&(node_index, key))
                && let Some(nanos) = quantile_nanos(&buckets, quantile)
            {
                *value = MetricValue::Int(nanos.try_into().unwrap_or(i64::MAX));
            }
        }
    }

    /// Returns the tree in pre-order, with its metrics in the order of their first occurrence.
    fn finish(self) -> Profile {
        let order = pre_order(&self.nodes);
        let mut positions = vec![0; order.len()];
        (0..)
            .zip(&order)
            .for_each(|(position, &node_index)| positions[node_index as usize] = position);
        let node = |&node_index: &u32| {
            let Node { name, kind, parent } = self.nodes[node_index as usize].node.clone();
            let parent = parent.map(|parent| NodeId(positions[parent.index()]));
            Node { name, kind, parent }
        };
        let nodes = order.iter().map(node).collect();

        let mut cells: Vec<_> = self.cells.into_iter().collect();
        cells.sort_unstable_by_key(|((node_index, _), (order, _))| {
            (positions[*node_index as usize], *order)
        });
        let mut metrics: Vec<NodeMetric> = Vec::new();
        let mut columns = vec![None; self.keys.len()];
        for ((node_index, key), (_, value)) in cells {
            let column = *columns[key as usize].get_or_insert_with(|| {
                metrics.push(NodeMetric::new(Arc::clone(&self.keys[key as usize])));
                metrics.len() - 1
            });
            metrics[column].push(NodeId(positions[node_index as usize]), value);
        }
        for metric in &mut metrics {
            metric.values.normalise();
        }

        let sketch = |(node_index, (_, sketch)): (u32, (u32, Vec<_>))| -> (NodeId, Sketch) {
            (NodeId(positions[node_index as usize]), sketch.into())
        };
        let mut sketches: Vec<_> = self.sketches.into_iter().map(sketch).collect();
        sketches.sort_unstable_by_key(|(node, _)| *node);
        Profile { nodes, metrics, sketches, ..Profile::default() }
    }
}

impl WallTimes {
    fn add(&mut self, span: &Span) {
        let nanos = span.duration_nanos;
        self.total_nanos = self.total_nanos.saturating_add(nanos);
        self.self_nanos = self.self_nanos.saturating_add(span.self_nanos());
        if span.is_open {
            self.open_count += 1;
            return;
        }
        self.count += 1;
        self.extremes_nanos = Some(match self.extremes_nanos {
            Some((min, max)) => (min.min(nanos), max.max(nanos)),
            None => (nanos, nanos),
        });
        self.sketch.add(u64::try_from(nanos).unwrap_or(0));
    }
}

/// Adds a value to a sum of the same metric. If the two do not add up, the sum stays as it is.
fn add_to_sum(key: &str, sum: &mut MetricValue, value: &MetricValue) {
    use MetricValue::{Float, Int, Text};
    let floats = match (&*sum, value) {
        (Int(sum), Float(value)) => Some((*sum as f64, *value)),
        (Float(sum), Int(value)) => Some((*sum, *value as f64)),
        _ => None,
    };
    match (key, &mut *sum, value) {
        (wall::MIN, Int(sum), Int(value)) => *sum = (*sum).min(*value),
        (wall::MAX, Int(sum), Int(value)) => *sum = (*sum).max(*value),
        (_, Text(_), _) => {}
        (_, sum, value) => match floats {
            Some((old, new)) => *sum = Float(old + new),
            None => drop(sum.update(value, Aggregation::Inclusive, key)),
        },
    }
}

/// Returns an argument whose value is a list.
fn list_arg<T: for<'d> Deserialize<'d>>(
    reader: &Reader,
    args: &Args,
    key: &str,
    json: &mut String,
) -> Option<Vec<T>> {
    args.text_id?;
    json.clear();
    reader.args(args, json);
    let mut object: HashMap<String, Value> = serde_json::from_str(json).ok()?;
    serde_json::from_value(object.remove(key)?).ok()
}

/// Returns the nodes in pre-order.
fn pre_order(nodes: &[OrderedNode]) -> Vec<u32> {
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    let mut pending = Vec::new();
    for (node_index, OrderedNode { node, .. }) in (0..).zip(nodes) {
        match node.parent {
            Some(parent) => children[parent.index()].push(node_index),
            None => pending.push(node_index),
        }
    }
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(node_index) = pending.pop() {
        order.push(node_index);
        let mut siblings = std::mem::take(&mut children[node_index as usize]);
        siblings
            .sort_by_key(|&node_index| std::cmp::Reverse(nodes[node_index as usize].sibling_order));
        pending.extend(siblings);
    }
    order
}

/// Returns the family of each device, by process and device number.
fn device_families(reader: &Reader) -> Result<HashMap<(u32, u32), Arc<str>>, StoreError> {
    let mut families = HashMap::new();
    for row in reader.rows::<DeviceRow>()? {
        let row = row?;
        families.insert((row.process_id, row.device), device_family(&row));
    }
    Ok(families)
}

/// Returns the family of a device as Proton writes it.
fn device_family(row: &DeviceRow) -> Arc<str> {
    match &*row.device_type {
        "" => "CUDA".into(),
        word => word.to_uppercase().into(),
    }
}

/// Returns the devices by family. Of several devices with the same number, keeps the first.
fn read_devices(reader: &Reader) -> Result<Vec<Device>, StoreError> {
    let mut devices: BTreeMap<(Arc<str>, u32), Device> = BTreeMap::new();
    for row in reader.rows::<DeviceRow>()? {
        let row = row?;
        let key = (device_family(&row), row.device);
        devices.entry(key).or_insert_with(|| convert_device(&row));
    }
    Ok(devices.into_values().collect())
}

/// Converts a device, whose properties have the keys of Proton or of `PyTorch`.
fn convert_device(row: &DeviceRow) -> Device {
    let properties: Value = serde_json::from_str(&row.properties).unwrap_or_default();
    let number = |key: &str| properties.get(key).and_then(Value::as_u64);
    let arch = properties.get("arch").and_then(Value::as_str).map(str::to_owned);
    let capability = || Some(format!("{}{}", number("computeMajor")?, number("computeMinor")?));
    Device {
        family: device_family(row).as_ref().to_owned(),
        id: row.device.to_string(),
        arch: arch.or_else(capability),
        bus_width_bits: number("bus_width"),
        clock_rate_khz: number("clock_rate"),
        memory_clock_rate_khz: number("memory_clock_rate"),
        num_sms: number("num_sms").or_else(|| number("numSms")),
    }
}

/// Returns the metadata of the run, with the metadata of its process if there is only one.
fn read_meta(reader: &Reader) -> Meta {
    let manifest = reader.run().manifest();
    let losses = manifest.losses.iter().filter(|(_, count)| **count > 0);
    let losses = losses.map(|(cause, count)| (cause.clone(), *count)).collect();
    let mut processes = reader.processes();
    let only_process =
        processes.next().filter(|process| processes.next().is_none() && process.pid >= 0);
    let entry = manifest
        .processes
        .iter()
        .find(|entry| only_process.is_some_and(|process| process.id == entry.id));
    Meta {
        version: Some(VERSION),
        losses,
        notes: Vec::new(),
        overhead: entry.and_then(|entry| entry.overhead).map(|cost| Overhead {
            events: cost.events,
            scope_nanos: cost.scope_nanos,
            recording_nanos: cost.recording_nanos,
            flushing_nanos: cost.flushing_nanos,
        }),
        process: entry.map(|entry| Process {
            pid: entry.pid.into(),
            rank: entry.rank.map(u64::from),
            host: entry.host.clone(),
            argv: entry.argv.clone(),
            start_unix_nanos: entry.start_unix_nanos.try_into().unwrap_or(0),
            duration_nanos: (entry.end_unix_nanos.saturating_sub(entry.start_unix_nanos))
                .try_into()
                .unwrap_or(0),
            is_complete: entry.is_complete,
        }),
    }
}
