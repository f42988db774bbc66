//! The schema, whichever format its words are written in.

use std::io;

use marey_model::metric::MetricValue;
use marey_model::profile::{Device, Meta, NodeId, Overhead, Process, Profile};

/// A format that words are written in.
pub(super) trait Words {
    /// Whether the keys of a node are sorted, so that its children come first; else they come last.
    const SORTED: bool;

    fn map(&mut self, length: usize) -> io::Result<()>;
    fn end_map(&mut self) -> io::Result<()>;
    fn list(&mut self, length: usize) -> io::Result<()>;
    fn end_list(&mut self) -> io::Result<()>;
    fn key(&mut self, key: &str) -> io::Result<()>;
    fn null(&mut self) -> io::Result<()>;
    fn truth(&mut self, value: bool) -> io::Result<()>;
    fn int(&mut self, value: i64) -> io::Result<()>;
    fn count(&mut self, value: u64) -> io::Result<()>;
    fn real(&mut self, value: f64) -> io::Result<()>;
    fn text(&mut self, value: &str) -> io::Result<()>;
    /// Says whether what follows stands on one line, where the format has lines.
    fn on_one_line(&mut self, is_on_one_line: bool);
    fn end(&mut self) -> io::Result<()>;
}

/// A profile, and what its nodes have.
pub(super) struct Document<'a> {
    profile: &'a Profile,
    /// How many children each node has.
    child_counts: Vec<u32>,
    /// Where the cells of each node start; one more than there are nodes.
    starts: Vec<usize>,
    cells: Vec<Cell>,
}

/// A value of a node.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Position of the metric.
    metric: u32,
    /// Position of the value in the metric.
    at: u32,
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

    pub(super) fn write(&self, words: &mut impl Words) -> io::Result<()> {
        words.list(2)?;
        self.tree(words)?;
        self.devices(words)?;
        words.end_list()?;
        words.end()
    }

    fn tree(&self, words: &mut impl Words) -> io::Result<()> {
        let mut open: Vec<NodeId> = Vec::new();
        for (index, node) in self.profile.nodes.iter().enumerate() {
            while let Some(id) = open.pop_if(|id| Some(*id) != node.parent) {
                self.end_node(id, words)?;
            }
            let id = NodeId(index as u32);
            self.begin_node(id, words)?;
            open.push(id);
        }
        open.into_iter().rev().try_for_each(|id| self.end_node(id, words))
    }

    /// Writes a node up to its first child.
    fn begin_node<W: Words>(&self, id: NodeId, words: &mut W) -> io::Result<()> {
        words.map(if self.has_extras(id) { 4 } else { 3 })?;
        if !W::SORTED {
            self.frame(id, words)?;
            self.metrics(id, words)?;
            self.extras(id, words)?;
        }
        words.key("children")?;
        words.list(self.child_counts[id.index()] as usize)
    }

    /// Writes a node from behind its last child.
    fn end_node<W: Words>(&self, id: NodeId, words: &mut W) -> io::Result<()> {
        words.end_list()?;
        if W::SORTED {
            self.frame(id, words)?;
            self.extras(id, words)?;
            self.metrics(id, words)?;
        }
        words.end_map()
    }

    fn frame(&self, id: NodeId, words: &mut impl Words) -> io::Result<()> {
        words.key("frame")?;
        words.map(2)?;
        words.key("name")?;
        words.text(&self.profile.nodes[id.index()].name)?;
        words.key("type")?;
        words.text("function")?;
        words.end_map()
    }

    fn metrics(&self, id: NodeId, words: &mut impl Words) -> io::Result<()> {
        let cells = &self.cells[self.starts[id.index()]..self.starts[id.index() + 1]];
        words.key("metrics")?;
        words.map(cells.len())?;
        for cell in cells {
            let metric = &self.profile.metrics[cell.metric as usize];
            words.key(&metric.key)?;
            match metric.values.get(cell.at as usize) {
                MetricValue::Int(value) => words.int(value)?,
                MetricValue::Float(value) => words.real(value)?,
                MetricValue::Text(value) => words.text(&value)?,
                MetricValue::Ints(values) => {
                    words.list(values.len())?;
                    values.into_iter().try_for_each(|value| words.int(value))?;
                    words.end_list()?;
                }
                MetricValue::Floats(values) => {
                    words.list(values.len())?;
                    values.into_iter().try_for_each(|value| words.real(value))?;
                    words.end_list()?;
                }
            }
        }
        words.end_map()
    }
}

/// What each node has, in the order of the metrics.
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
        for (at, node) in column.nodes.iter().enumerate() {
            cells[next[node.index()]] = Cell { metric: metric as u32, at: at as u32 };
            next[node.index()] += 1;
        }
    }
    (starts, cells)
}

/// marey's part of a node.
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
        let at = sketches.binary_search_by_key(&id, |(node, _)| *node).ok()?;
        Some(&sketches[at].1)
    }

    fn extras(&self, id: NodeId, words: &mut impl Words) -> io::Result<()> {
        let count = self.extras_count(id);
        if count == 0 {
            return Ok(());
        }
        words.key("marey")?;
        words.on_one_line(true);
        words.map(count)?;
        if let Some(kind) = self.profile.nodes[id.index()].kind {
            words.key("kind")?;
            words.text(kind.as_str())?;
        }
        if id == NodeId::ROOT {
            write_meta(&self.profile.meta, words)?;
        }
        if let Some(sketch) = self.sketch(id) {
            words.key("sketch")?;
            write_sketch(sketch, words)?;
        }
        words.end_map()?;
        words.on_one_line(false);
        Ok(())
    }
}

fn meta_count(meta: &Meta) -> usize {
    usize::from(meta.version.is_some())
        + usize::from(meta.overhead.is_some())
        + usize::from(!meta.losses.is_empty())
        + usize::from(meta.process.is_some())
}

fn write_meta(meta: &Meta, words: &mut impl Words) -> io::Result<()> {
    if !meta.losses.is_empty() {
        words.key("losses")?;
        words.map(meta.losses.len())?;
        for (cause, count) in &meta.losses {
            words.key(cause)?;
            words.count(*count)?;
        }
        words.end_map()?;
    }
    if let Some(overhead) = &meta.overhead {
        words.key("overhead")?;
        write_overhead(overhead, words)?;
    }
    if let Some(process) = &meta.process {
        words.key("process")?;
        write_process(process, words)?;
    }
    if let Some(version) = meta.version {
        words.key("version")?;
        words.count(version)?;
    }
    Ok(())
}

fn write_overhead(overhead: &Overhead, words: &mut impl Words) -> io::Result<()> {
    words.map(4)?;
    for (key, value) in [
        ("events", overhead.events),
        ("flushing_nanos", overhead.flushing_nanos),
        ("recording_nanos", overhead.recording_nanos),
    ] {
        words.key(key)?;
        words.count(value)?;
    }
    words.key("scope_nanos")?;
    words.real(overhead.scope_nanos)?;
    words.end_map()
}

fn write_process(process: &Process, words: &mut impl Words) -> io::Result<()> {
    words.map(7)?;
    words.key("argv")?;
    words.list(process.argv.len())?;
    process.argv.iter().try_for_each(|word| words.text(word))?;
    words.end_list()?;
    words.key("complete")?;
    words.truth(process.complete)?;
    words.key("duration_nanos")?;
    words.count(process.duration_nanos)?;
    words.key("host")?;
    words.text(&process.host)?;
    words.key("pid")?;
    words.count(process.pid)?;
    words.key("rank")?;
    match process.rank {
        Some(rank) => words.count(rank)?,
        None => words.null()?,
    }
    words.key("start_unix_nanos")?;
    words.count(process.start_unix_nanos)?;
    words.end_map()
}

fn write_sketch(sketch: &[(i64, u64)], words: &mut impl Words) -> io::Result<()> {
    words.list(sketch.len())?;
    for (bucket, count) in sketch {
        words.list(2)?;
        words.int(*bucket)?;
        words.count(*count)?;
        words.end_list()?;
    }
    words.end_list()
}

/// The devices.
impl Document<'_> {
    fn devices(&self, words: &mut impl Words) -> io::Result<()> {
        let families = self.families();
        words.map(families.len())?;
        for (family, devices) in families {
            words.key(family)?;
            words.map(devices.len())?;
            for device in devices {
                words.key(&device.id)?;
                write_device(device, words)?;
            }
            words.end_map()?;
        }
        words.end_map()
    }

    /// The devices of each family, first seen first.
    fn families(&self) -> Vec<(&str, Vec<&Device>)> {
        let mut families: Vec<(&str, Vec<&Device>)> = Vec::new();
        let mut positions = std::collections::HashMap::new();
        for device in &self.profile.devices {
            let at = *positions.entry(&device.family).or_insert(families.len());
            if at == families.len() {
                families.push((&device.family, Vec::new()));
            }
            families[at].1.push(device);
        }
        families
    }
}

fn write_device(device: &Device, words: &mut impl Words) -> io::Result<()> {
    let counts = [
        ("bus_width", device.bus_width_bits),
        ("clock_rate", device.clock_rate_khz),
        ("memory_clock_rate", device.memory_clock_rate_khz),
        ("num_sms", device.num_sms),
    ];
    let known = counts.iter().filter_map(|(key, count)| count.map(|count| (*key, count)));
    words.map(usize::from(device.arch.is_some()) + known.clone().count())?;
    if let Some(arch) = &device.arch {
        words.key("arch")?;
        words.text(arch)?;
    }
    for (key, count) in known {
        words.key(key)?;
        words.count(count)?;
    }
    words.end_map()
}
