//! Presents a merged tree in Proton's schema, with the nodes, metrics and devices that its readers
//! expect.

use super::TreeDocument;
use crate::column::WallTimes;
use crate::device;
use crate::merged::{MergedNode, ROOT};
use crate::names;
use marey_model::context::{NodeKind, ROOT_NAME};
use marey_model::gpu_time;
use marey_model::hatchet::Tree;
use marey_model::metric::{Aggregation, MetricValue};
use marey_model::op_cost;
use marey_model::profile::{Device, Meta};
use marey_model::sketch;
use marey_model::wall;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

/// The keys and values of a node's metrics.
type Metrics<'a> = Vec<(Cow<'a, str>, MetricValue)>;

impl Tree for TreeDocument<'_> {
    type Node = u32;

    fn nodes(&self) -> impl Iterator<Item = u32> {
        let mut remaining = vec![ROOT];
        std::iter::from_fn(move || {
            let number = remaining.pop()?;
            let children = self.node(number).children.iter().rev().copied();
            remaining.extend(children.filter(|&child| !self.is_time_of_state(child)));
            Some(number)
        })
    }

    fn parent(&self, number: u32) -> Option<u32> {
        (number != ROOT).then(|| self.node(number).parent)
    }

    fn child_count(&self, number: u32) -> usize {
        let children = self.node(number).children.iter();
        children.filter(|&&child| !self.is_time_of_state(child)).count()
    }

    fn name(&self, number: u32) -> impl Deref<Target = str> {
        if number == ROOT { Arc::from(ROOT_NAME) } else { names::name(self.node(number).name_id) }
    }

    fn kind(&self, number: u32) -> Option<NodeKind> {
        Some(self.node(number).kind)
    }

    /// Returns the metrics, sorted by key.
    fn metrics(
        &self,
        number: u32,
    ) -> impl ExactSizeIterator<Item = (impl Deref<Target = str>, MetricValue)> {
        let mut metrics =
            if number == ROOT { self.root_metrics() } else { node_metrics(self.node(number)) };
        metrics.sort_by(|(a, _), (b, _)| a.cmp(b));
        metrics.into_iter()
    }

    fn sketch(&self, number: u32) -> Option<impl ExactSizeIterator<Item = (i64, u64)>> {
        let wall = &self.node(number).wall;
        let buckets = wall.buckets.iter().map(|&(bucket, count)| (bucket.into(), count));
        (wall.count > 0).then_some(buckets)
    }

    fn states(&self, number: u32) -> Vec<u32> {
        let children = self.node(number).children.iter().copied();
        children.filter(|&child| self.is_time_of_state(child)).collect()
    }

    fn meta(&self) -> &Meta {
        self.meta
    }

    /// Returns the devices that ran kernels, by type and number.
    fn devices(&self) -> Cow<'_, [Device]> {
        let nodes = self.tree.nodes().iter();
        let seen: BTreeSet<u32> =
            nodes.flat_map(|node| node.devices.iter().map(|&(device, _)| device)).collect();
        let mut devices: Vec<Device> = seen.into_iter().map(device_properties).collect();
        devices.sort_by(|a, b| a.family.cmp(&b.family));
        devices.into()
    }
}

impl TreeDocument<'_> {
    fn node(&self, number: u32) -> &MergedNode {
        self.tree.node(number).unwrap_or_else(|| self.tree.root())
    }

    /// Whether a node is a state with no data except its own time. Proton has no node for such a
    /// state, and programs that read its trees expect none.
    fn is_time_of_state(&self, number: u32) -> bool {
        let node = self.node(number);
        node.kind == NodeKind::State
            && node.children.is_empty()
            && node.metrics.is_empty()
            && node.devices.is_empty()
    }

    /// Returns the metrics of the root: those recorded outside of any scope, and a zero for each
    /// numeric key that readers shall roll up. They recognise such keys by the zero.
    fn root_metrics(&self) -> Metrics<'_> {
        let mut metrics = user_metrics(self.tree.root());
        metrics.extend(gpu_metrics(self.tree.root()));
        let has_kernels = self.tree.nodes().iter().any(|node| !node.devices.is_empty());
        if has_kernels && self.tree.root().devices.is_empty() {
            let zeros = [gpu_time::COUNT, gpu_time::TIME];
            metrics.extend(zeros.map(|key| (key.into(), MetricValue::Int(0))));
        }
        for node in self.tree.nodes() {
            for (name, value) in &node.metrics {
                let is_number = matches!(value, MetricValue::Int(_) | MetricValue::Float(_));
                let is_new = !metrics.iter().any(|(key, _)| key == name.key());
                if is_number && is_new && name.aggregation() == Aggregation::Inclusive {
                    metrics.push((name.key().into(), MetricValue::Int(0)));
                }
            }
        }
        metrics
    }
}

fn device_properties(number: u32) -> Device {
    let device = device::device(number);
    Device {
        family: device.device_type,
        id: number.to_string(),
        arch: Some(device.arch),
        bus_width_bits: Some(device.bus_width_bits),
        clock_rate_khz: Some(device.clock_khz),
        memory_clock_rate_khz: Some(device.memory_clock_khz),
        num_sms: Some(device.multiprocessors),
    }
}

fn node_metrics(node: &MergedNode) -> Metrics<'_> {
    let mut metrics = user_metrics(node);
    metrics.extend(wall_metrics(&node.wall));
    metrics.extend(gpu_metrics(node));
    metrics
}

fn user_metrics(node: &MergedNode) -> Metrics<'_> {
    let metrics = node.metrics.iter();
    let mut metrics = metrics.map(|(name, value)| (name.key().into(), value.clone())).collect();
    extrapolate_costs(&mut metrics, node.wall.count);
    metrics
}

/// Extrapolates the costs of an operator from the calls whose inputs were read to all its calls.
/// Keeps the number of the calls that were read only if it is smaller.
fn extrapolate_costs(metrics: &mut Metrics<'_>, calls: u64) {
    let position = metrics.iter().position(|(key, _)| key == op_cost::SAMPLED_CALLS);
    let Some(position) = position else { return };
    let Some(&(_, MetricValue::Float(sampled_calls))) = metrics.get(position) else { return };
    let is_cost = |key: &str| op_cost::COSTS.contains(&key);
    let has_costs = metrics.iter().any(|(key, _)| is_cost(key));
    let factor = calls as f64 / sampled_calls;
    if !has_costs || factor <= 1.0 {
        metrics.remove(position);
        return;
    }
    for (key, value) in metrics {
        if let MetricValue::Float(value) = value
            && is_cost(key)
        {
            *value *= factor;
        }
    }
}

/// Returns the kernel metrics of a node. The format allows one device per node, and a tree ensures
/// that.
fn gpu_metrics(node: &MergedNode) -> Metrics<'_> {
    let Some((device, times)) = node.devices.first() else { return Vec::new() };
    let info = device::device(*device);
    let mut metrics = vec![
        (gpu_time::COUNT.into(), int(times.count)),
        (gpu_time::TIME.into(), int(times.total_nanos)),
        (gpu_time::DEVICE_ID.into(), MetricValue::Text(device.to_string().into())),
        (gpu_time::DEVICE_TYPE.into(), MetricValue::Text(info.device_type.into())),
    ];
    if times.has_times() {
        metrics.push((gpu_time::MIN.into(), int(times.min_nanos)));
        metrics.push((gpu_time::MAX.into(), int(times.max_nanos)));
        metrics.extend(quantiles(times, [gpu_time::P50, gpu_time::P90, gpu_time::P99]));
    }
    metrics
}

fn int(value: u64) -> MetricValue {
    MetricValue::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Returns the median, 90th and 99th percentile under these keys.
fn quantiles(
    times: &WallTimes,
    keys: [&'static str; 3],
) -> impl Iterator<Item = (Cow<'static, str>, MetricValue)> {
    keys.into_iter().zip([0.5, 0.9, 0.99]).map(move |(key, q)| {
        // The middle of a bucket may lie outside of the range of the values.
        let nanos = sketch::quantile_nanos(&times.buckets, q)
            .map_or(0, |nanos| nanos.clamp(times.min_nanos, times.max_nanos));
        (key.into(), int(nanos))
    })
}

fn wall_metrics(wall_time: &WallTimes) -> Metrics<'static> {
    if wall_time.count == 0 && wall_time.open_count == 0 {
        return Vec::new();
    }
    let mut metrics = vec![
        (wall::COUNT.into(), int(wall_time.count)),
        (wall::TOTAL.into(), int(wall_time.total_nanos)),
        (wall::SELF.into(), int(wall_time.self_nanos)),
    ];
    if wall_time.open_count > 0 {
        metrics.push((wall::OPEN.into(), int(wall_time.open_count)));
    }
    if wall_time.count > 0 {
        metrics.push((wall::MIN.into(), int(wall_time.min_nanos)));
        metrics.push((wall::MAX.into(), int(wall_time.max_nanos)));
        metrics.extend(quantiles(wall_time, [wall::P50, wall::P90, wall::P99]));
    }
    metrics
}
