//! The recorder's output: profile documents, their formats, and their files.

mod chrome;
mod file;
mod hatchet;
mod json;
mod meta;
mod msgpack;

pub(crate) use self::chrome::{Extent, Playback};
pub(crate) use self::file::Outputs;
pub(crate) use self::meta::{Meta, Process};

use crate::device::{self, DeviceInfo};
use crate::error::Error;
use crate::losses;
use crate::merged::{MergedNode, MergedTree, Wall};
use marey_model::context::NodeKind;
use marey_model::gpu_time;
use marey_model::metric::{Aggregation, MetricValue};
use marey_model::sketch;
use marey_model::wall;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::Range;
use std::str::FromStr;

/// Returns a string as a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    // Writing to memory does not fail.
    drop(json::string(&mut out, text));
    String::from_utf8_lossy(&out).into_owned()
}

/// A file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Proton's JSON.
    #[default]
    Hatchet,
    /// Proton's document in MessagePack.
    HatchetMsgpack,
    /// Every event, in the format of Chrome and Perfetto. Only for trace sessions.
    ChromeTrace,
    /// The run directory with every event, which exists already. Only for trace sessions.
    Run,
}

impl Format {
    /// Returns the name of the format, which is also the file's extension.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hatchet => "hatchet",
            Self::HatchetMsgpack => "hatchet_msgpack",
            Self::ChromeTrace => "chrome_trace",
            Self::Run => "marey",
        }
    }

    /// Whether the format consists of single events.
    pub const fn needs_trace(self) -> bool {
        matches!(self, Self::ChromeTrace | Self::Run)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        match word {
            "hatchet" => Ok(Self::Hatchet),
            "hatchet_msgpack" => Ok(Self::HatchetMsgpack),
            "chrome_trace" => Ok(Self::ChromeTrace),
            "marey" => Ok(Self::Run),
            _ => Err(Error::UnknownFormat(word.to_owned())),
        }
    }
}

/// The contents of a file.
#[derive(Debug)]
pub(crate) enum Contents<'a> {
    /// A tree in Proton's JSON.
    Hatchet(Document<'a>),
    /// A tree in MessagePack.
    HatchetMsgpack(Document<'a>),
    /// The events of a phase, read from the spool.
    ChromeTrace(TraceRange<'a>),
}

/// A range of the spool to write as a Chrome trace.
#[derive(Debug)]
pub(crate) struct TraceRange<'a> {
    pub(crate) playback: &'a mut Playback,
    pub(crate) bytes: Range<u64>,
    pub(crate) extent: Extent,
}

impl Contents<'_> {
    pub(crate) const fn format(&self) -> Format {
        match self {
            Self::Hatchet(_) => Format::Hatchet,
            Self::HatchetMsgpack(_) => Format::HatchetMsgpack,
            Self::ChromeTrace(_) => Format::ChromeTrace,
        }
    }

    /// Writes the contents as a stream.
    pub(crate) fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Hatchet(document) => hatchet::write(document, out),
            Self::HatchetMsgpack(document) => msgpack::write(document, out),
            Self::ChromeTrace(TraceRange { playback, bytes, extent }) => {
                // A spool that could not be written to the end lacks the latest losses.
                playback.write(bytes, *extent, &losses::snapshot(), out)
            }
        }
    }
}

/// A tree with its metadata, ready to be written.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(crate) tree: &'a MergedTree,
    pub(crate) meta: &'a Meta,
}

impl Document<'_> {
    /// Returns the metrics of the root: those recorded outside of any scope, and a zero for every
    /// number that readers shall roll up, which is how readers recognise them.
    fn root_metrics(&self) -> Vec<(String, MetricValue)> {
        let mut metrics = own_metrics(self.tree.root());
        metrics.extend(gpu_metrics(self.tree.root()));
        let has_kernels = self.tree.nodes().iter().any(|node| !node.devices.is_empty());
        if has_kernels && self.tree.root().devices.is_empty() {
            let zeros = [gpu_time::COUNT, gpu_time::TIME];
            metrics.extend(zeros.map(|key| (key.to_owned(), MetricValue::Int(0))));
        }
        for node in self.tree.nodes() {
            for (name, value) in &node.metrics {
                let is_number = matches!(value, MetricValue::Int(_) | MetricValue::Float(_));
                let is_new = !metrics.iter().any(|(key, _)| key == name.key());
                if is_number && is_new && name.aggregation() == Aggregation::Inclusive {
                    metrics.push((name.key().to_owned(), MetricValue::Int(0)));
                }
            }
        }
        metrics.sort_by(|(a, _), (b, _)| a.cmp(b));
        metrics
    }

    /// Returns the first child at position `from` or later that the document shows as a node, and
    /// its position.
    fn shown_child(&self, node: &MergedNode, from: usize) -> Option<(usize, u32)> {
        let mut behind = node.children.iter().copied().enumerate().skip(from);
        behind.find(|&(_, child)| !self.is_time_of_state(child))
    }

    /// Returns the children that the document shows inside the key `marey` of their parent.
    fn times_of_states(&self, node: &MergedNode) -> Vec<&MergedNode> {
        let children = node.children.iter().filter(|&&child| self.is_time_of_state(child));
        children.filter_map(|&child| self.tree.node(child)).collect()
    }

    /// Whether a node is a state with no data except its own time. Proton has no node for such a
    /// state, and programs that read its trees expect none.
    fn is_time_of_state(&self, number: u32) -> bool {
        self.tree.node(number).is_some_and(|node| {
            node.kind == NodeKind::State
                && node.children.is_empty()
                && node.metrics.is_empty()
                && node.devices.is_empty()
        })
    }

    /// Returns the devices that ran kernels, by type.
    fn devices(&self) -> BTreeMap<String, Vec<DeviceInfo>> {
        let seen: BTreeSet<u32> = self
            .tree
            .nodes()
            .iter()
            .flat_map(|node| node.devices.iter().map(|&(device, _)| device))
            .collect();
        let mut devices: BTreeMap<String, Vec<DeviceInfo>> = BTreeMap::new();
        for number in seen {
            let info = device::device(number);
            devices.entry(info.device_type.clone()).or_default().push(info);
        }
        devices
    }
}

/// Returns the fields of a device, sorted by key.
fn device_fields(device: &DeviceInfo) -> [(&'static str, u64); 4] {
    [
        ("bus_width", device.bus_width_bits),
        ("clock_rate", device.clock_khz),
        ("memory_clock_rate", device.memory_clock_khz),
        ("num_sms", device.multiprocessors),
    ]
}

/// Returns the metrics of a node, sorted by key.
fn node_metrics(node: &MergedNode) -> Vec<(String, MetricValue)> {
    let mut metrics = own_metrics(node);
    metrics.extend(wall_metrics(&node.wall));
    metrics.extend(gpu_metrics(node));
    metrics.sort_by(|(a, _), (b, _)| a.cmp(b));
    metrics
}

fn own_metrics(node: &MergedNode) -> Vec<(String, MetricValue)> {
    node.metrics.iter().map(|(name, value)| (name.key().to_owned(), value.clone())).collect()
}

/// Returns the kernel metrics of a node. The format allows one device per node, and a tree ensures
/// that.
fn gpu_metrics(node: &MergedNode) -> Vec<(String, MetricValue)> {
    let Some((device, times)) = node.devices.first() else { return Vec::new() };
    let info = device::device(*device);
    let mut metrics = vec![
        (gpu_time::COUNT.to_owned(), int(times.count)),
        (gpu_time::TIME.to_owned(), int(times.total_nanos)),
        (gpu_time::DEVICE_ID.to_owned(), MetricValue::Text(device.to_string().into())),
        (gpu_time::DEVICE_TYPE.to_owned(), MetricValue::Text(info.device_type.into())),
    ];
    if times.has_times() {
        metrics.push((gpu_time::MIN.to_owned(), int(times.min_nanos)));
        metrics.push((gpu_time::MAX.to_owned(), int(times.max_nanos)));
        metrics.extend(quantiles(times, [gpu_time::P50, gpu_time::P90, gpu_time::P99]));
    }
    metrics
}

fn int(value: u64) -> MetricValue {
    MetricValue::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Returns the median, 90th and 99th percentile under these keys.
fn quantiles(times: &Wall, keys: [&str; 3]) -> impl Iterator<Item = (String, MetricValue)> {
    let buckets = times.sketch();
    keys.into_iter().zip([0.5, 0.9, 0.99]).map(move |(key, q)| {
        // The middle of a bucket may lie outside of the range of the values.
        let nanos = sketch::quantile_nanos(&buckets, q)
            .map_or(0, |nanos| nanos.clamp(times.min_nanos, times.max_nanos));
        (key.to_owned(), int(nanos))
    })
}

fn wall_metrics(wall_time: &Wall) -> Vec<(String, MetricValue)> {
    if wall_time.count == 0 && wall_time.open == 0 {
        return Vec::new();
    }
    let mut metrics = vec![
        (wall::COUNT.to_owned(), int(wall_time.count)),
        (wall::TOTAL.to_owned(), int(wall_time.total_nanos)),
        (wall::SELF.to_owned(), int(wall_time.self_nanos)),
    ];
    if wall_time.open > 0 {
        metrics.push((wall::OPEN.to_owned(), int(wall_time.open)));
    }
    if wall_time.count > 0 {
        metrics.push((wall::MIN.to_owned(), int(wall_time.min_nanos)));
        metrics.push((wall::MAX.to_owned(), int(wall_time.max_nanos)));
        metrics.extend(quantiles(wall_time, [wall::P50, wall::P90, wall::P99]));
    }
    metrics
}
