//! The schema, independent of the encoding.

use std::io;

use marey_model::metric::MetricValue;
use marey_model::profile::{Device, Meta, NodeId, Overhead, Process, Profile};

/// An encoding of documents.
pub(super) trait Encoder {
    /// Whether the keys of a node are sorted, so that `children` is written first instead of last.
    const SORTED: bool;

    fn map(&mut self, length: usize) -> io::Result<()>;
    fn end_map(&mut self) -> io::Result<()>;
    fn list(&mut self, length: usize) -> io::Result<()>;
    fn end_list(&mut self) -> io::Result<()>;
    fn key(&mut self, key: &str) -> io::Result<()>;
    fn null(&mut self) -> io::Result<()>;
    fn boolean(&mut self, value: bool) -> io::Result<()>;
    fn int(&mut self, value: i64) -> io::Result<()>;
    fn count(&mut self, value: u64) -> io::Result<()>;
    fn float(&mut self, value: f64) -> io::Result<()>;
    fn text(&mut self, value: &str) -> io::Result<()>;
    /// Selects whether the following values are written on one line, in encodings with lines.
    fn on_one_line(&mut self, is_on_one_line: bool);
    fn end(&mut self) -> io::Result<()>;
}

/// A profile, with its values by node.
pub(super) struct Document<'a> {
    profile: &'a Profile,
    /// Number of children of each node.
    child_counts: Vec<u32>,
    /// Start of each node's cells, and the end of the last.
    starts: Vec<usize>,
    cells: Vec<Cell>,
}

/// A value of a node.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Index of the metric.
    metric: u32,
    /// Index of the value in the metric.
    index: u32,
}

impl<'a> Document<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        let mut child_counts = vec![0; profile.nodes.len()];
        for parent in profile.nodes.iter().filter_map(|node| node.parent) {
            child_counts[parent.index()] += 1;
        }
        let (starts, cells) = cells_by_node(profile);
        Self { profile, child_counts, starts, cells }
    }

    pub(super) fn write(&self, encoder: &mut impl Encoder) -> io::Result<()> {
        encoder.list(2)?;
        self.tree(encoder)?;
        self.devices(encoder)?;
        encoder.end_list()?;
        encoder.end()
    }

    fn tree(&self, encoder: &mut impl Encoder) -> io::Result<()> {
        let mut open: Vec<NodeId> = Vec::new();
        for (index, node) in self.profile.nodes.iter().enumerate() {
            while let Some(id) = open.pop_if(|id| Some(*id) != node.parent) {
                self.end_node(id, encoder)?;
            }
            let id = NodeId(index as u32);
            self.begin_node(id, encoder)?;
            open.push(id);
        }
        open.into_iter().rev().try_for_each(|id| self.end_node(id, encoder))
    }

    /// Writes a node up to its first child.
    fn begin_node<W: Encoder>(&self, id: NodeId, encoder: &mut W) -> io::Result<()> {
        encoder.map(if self.has_extras(id) { 4 } else { 3 })?;
        if !W::SORTED {
            self.frame(id, encoder)?;
            self.metrics(id, encoder)?;
            self.extras(id, encoder)?;
        }
        encoder.key("children")?;
        encoder.list(self.child_counts[id.index()] as usize)
    }

    /// Writes the rest of a node after its last child.
    fn end_node<W: Encoder>(&self, id: NodeId, encoder: &mut W) -> io::Result<()> {
        encoder.end_list()?;
        if W::SORTED {
            self.frame(id, encoder)?;
            self.extras(id, encoder)?;
            self.metrics(id, encoder)?;
        }
        encoder.end_map()
    }

    fn frame(&self, id: NodeId, encoder: &mut impl Encoder) -> io::Result<()> {
        encoder.key("frame")?;
        encoder.map(2)?;
        encoder.key("name")?;
        encoder.text(&self.profile.nodes[id.index()].name)?;
        encoder.key("type")?;
        encoder.text("function")?;
        encoder.end_map()
    }

    fn metrics(&self, id: NodeId, encoder: &mut impl Encoder) -> io::Result<()> {
        let cells = &self.cells[self.starts[id.index()]..self.starts[id.index() + 1]];
        encoder.key("metrics")?;
        encoder.map(cells.len())?;
        for cell in cells {
            let metric = &self.profile.metrics[cell.metric as usize];
            encoder.key(&metric.key)?;
            match metric.values.get(cell.index as usize) {
                MetricValue::Int(value) => encoder.int(value)?,
                MetricValue::Float(value) => encoder.float(value)?,
                MetricValue::Text(value) => encoder.text(&value)?,
                MetricValue::Ints(values) => {
                    encoder.list(values.len())?;
                    values.into_iter().try_for_each(|value| encoder.int(value))?;
                    encoder.end_list()?;
                }
                MetricValue::Floats(values) => {
                    encoder.list(values.len())?;
                    values.into_iter().try_for_each(|value| encoder.float(value))?;
                    encoder.end_list()?;
                }
            }
        }
        encoder.end_map()
    }
}

/// Groups the values by node, each in the order of the metrics.
fn cells_by_node(profile: &Profile) -> (Vec<usize>, Vec<Cell>) {
    let mut starts = vec![0; profile.nodes.len() + 1];
    for node in profile.metrics.iter().flat_map(|metric| &metric.nodes) {
        starts[node.index() + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut next = starts.clone();
    let mut cells = vec![Cell::default(); starts[profile.nodes.len()]];
    for (metric, column) in profile.metrics.iter().enumerate() {
        for (index, node) in column.nodes.iter().enumerate() {
            cells[next[node.index()]] = Cell { metric: metric as u32, index: index as u32 };
            next[node.index()] += 1;
        }
    }
    (starts, cells)
}

/// marey's extras of a node.
impl Document<'_> {
    fn has_extras(&self, id: NodeId) -> bool {
        self.extras_count(id) > 0
    }

    fn extras_count(&self, id: NodeId) -> usize {
        let has_kind = self.profile.nodes[id.index()].kind.is_some();
        let on_root = if id == NodeId::ROOT { meta_count(&self.profile.meta) } else { 0 };
        usize::from(has_kind) + on_root + usize::from(self.sketch(id).is_some())
    }

    fn sketch(&self, id: NodeId) -> Option<&[(i64, u64)]> {
        let sketches = &self.profile.sketches;
        let index = sketches.binary_search_by_key(&id, |(node, _)| *node).ok()?;
        Some(&sketches[index].1)
    }

    fn extras(&self, id: NodeId, encoder: &mut impl Encoder) -> io::Result<()> {
        let count = self.extras_count(id);
        if count == 0 {
            return Ok(());
        }
        encoder.key("marey")?;
        encoder.on_one_line(true);
        encoder.map(count)?;
        if let Some(kind) = self.profile.nodes[id.index()].kind {
            encoder.key("kind")?;
            encoder.text(kind.as_str())?;
        }
        if id == NodeId::ROOT {
            write_meta(&self.profile.meta, encoder)?;
        }
        if let Some(sketch) = self.sketch(id) {
            encoder.key("sketch")?;
            write_sketch(sketch, encoder)?;
        }
        encoder.end_map()?;
        encoder.on_one_line(false);
        Ok(())
    }
}

fn meta_count(meta: &Meta) -> usize {
    usize::from(meta.version.is_some())
        + usize::from(meta.overhead.is_some())
        + usize::from(!meta.losses.is_empty())
        + usize::from(meta.process.is_some())
}

fn write_meta(meta: &Meta, encoder: &mut impl Encoder) -> io::Result<()> {
    if !meta.losses.is_empty() {
        encoder.key("losses")?;
        encoder.map(meta.losses.len())?;
        for (cause, count) in &meta.losses {
            encoder.key(cause)?;
            encoder.count(*count)?;
        }
        encoder.end_map()?;
    }
    if let Some(overhead) = &meta.overhead {
        encoder.key("overhead")?;
        write_overhead(overhead, encoder)?;
    }
    if let Some(process) = &meta.process {
        encoder.key("process")?;
        write_process(process, encoder)?;
    }
    if let Some(version) = meta.version {
        encoder.key("version")?;
        encoder.count(version)?;
    }
    Ok(())
}

fn write_overhead(overhead: &Overhead, encoder: &mut impl Encoder) -> io::Result<()> {
    encoder.map(4)?;
    for (key, value) in [
        ("events", overhead.events),
        ("flushing_nanos", overhead.flushing_nanos),
        ("recording_nanos", overhead.recording_nanos),
    ] {
        encoder.key(key)?;
        encoder.count(value)?;
    }
    encoder.key("scope_nanos")?;
    encoder.float(overhead.scope_nanos)?;
    encoder.end_map()
}

fn write_process(process: &Process, encoder: &mut impl Encoder) -> io::Result<()> {
    encoder.map(7)?;
    encoder.key("argv")?;
    encoder.list(process.argv.len())?;
    process.argv.iter().try_for_each(|word| encoder.text(word))?;
    encoder.end_list()?;
    encoder.key("complete")?;
    encoder.boolean(process.complete)?;
    encoder.key("duration_nanos")?;
    encoder.count(process.duration_nanos)?;
    encoder.key("host")?;
    encoder.text(&process.host)?;
    encoder.key("pid")?;
    encoder.count(process.pid)?;
    encoder.key("rank")?;
    match process.rank {
        Some(rank) => encoder.count(rank)?,
        None => encoder.null()?,
    }
    encoder.key("start_unix_nanos")?;
    encoder.count(process.start_unix_nanos)?;
    encoder.end_map()
}

fn write_sketch(sketch: &[(i64, u64)], encoder: &mut impl Encoder) -> io::Result<()> {
    encoder.list(sketch.len())?;
    for (bucket, count) in sketch {
        encoder.list(2)?;
        encoder.int(*bucket)?;
        encoder.count(*count)?;
        encoder.end_list()?;
    }
    encoder.end_list()
}

/// The devices.
impl Document<'_> {
    fn devices(&self, encoder: &mut impl Encoder) -> io::Result<()> {
        let families = self.families();
        encoder.map(families.len())?;
        for (family, devices) in families {
            encoder.key(family)?;
            encoder.map(devices.len())?;
            for device in devices {
                encoder.key(&device.id)?;
                write_device(device, encoder)?;
            }
            encoder.end_map()?;
        }
        encoder.end_map()
    }

    /// Returns the devices by family, in order of first occurrence.
    fn families(&self) -> Vec<(&str, Vec<&Device>)> {
        let mut families: Vec<(&str, Vec<&Device>)> = Vec::new();
        let mut positions = std::collections::HashMap::new();
        for device in &self.profile.devices {
            let index = *positions.entry(&device.family).or_insert(families.len());
            if index == families.len() {
                families.push((&device.family, Vec::new()));
            }
            families[index].1.push(device);
        }
        families
    }
}

fn write_device(device: &Device, encoder: &mut impl Encoder) -> io::Result<()> {
    let counts = [
        ("bus_width", device.bus_width_bits),
        ("clock_rate", device.clock_rate_khz),
        ("memory_clock_rate", device.memory_clock_rate_khz),
        ("num_sms", device.num_sms),
    ];
    let known = counts.iter().filter_map(|(key, count)| count.map(|count| (*key, count)));
    encoder.map(usize::from(device.arch.is_some()) + known.clone().count())?;
    if let Some(arch) = &device.arch {
        encoder.key("arch")?;
        encoder.text(arch)?;
    }
    for (key, count) in known {
        encoder.key(key)?;
        encoder.count(count)?;
    }
    encoder.end_map()
}
