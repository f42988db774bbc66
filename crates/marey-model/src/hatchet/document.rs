//! Writes a context tree in Proton's schema through an [`Encoder`], so that JSON and `MessagePack`
//! share one description of it.

use std::io;

use super::{Producer, Tree};
use crate::metric::MetricValue;
use crate::profile::{Device, Meta, Overhead, Process};

/// An encoding of documents.
pub(super) trait Encoder {
    /// Whether the keys of a node are sorted, so that `children` is written first instead of last.
    const SORTS_KEYS: bool;

    fn begin_map(&mut self, length: usize) -> io::Result<()>;
    fn end_map(&mut self) -> io::Result<()>;
    fn begin_list(&mut self, length: usize) -> io::Result<()>;
    fn end_list(&mut self) -> io::Result<()>;
    fn key(&mut self, key: &str) -> io::Result<()>;
    fn null(&mut self) -> io::Result<()>;
    fn boolean(&mut self, value: bool) -> io::Result<()>;
    fn int(&mut self, value: i64) -> io::Result<()>;
    fn count(&mut self, value: u64) -> io::Result<()>;
    fn float(&mut self, value: f64) -> io::Result<()>;
    fn text(&mut self, value: &str) -> io::Result<()>;
    /// Selects whether the following values are written on one line, in encodings with lines.
    fn set_one_line(&mut self, is_on_one_line: bool);
    fn end(&mut self) -> io::Result<()>;
}

pub(super) fn write<T: Tree, E: Encoder>(
    tree: &T,
    producer: Producer,
    encoder: &mut E,
) -> io::Result<()> {
    Document { tree, producer, encoder }.write()
}

struct Document<'a, T, E> {
    tree: &'a T,
    producer: Producer,
    encoder: &'a mut E,
}

impl<T: Tree, E: Encoder> Document<'_, T, E> {
    fn write(&mut self) -> io::Result<()> {
        self.encoder.begin_list(2)?;
        self.tree()?;
        self.devices()?;
        self.encoder.end_list()?;
        self.encoder.end()
    }

    /// Writes the nodes with an explicit stack, because paths may be too deep for recursion.
    fn tree(&mut self) -> io::Result<()> {
        let mut open: Vec<T::Node> = Vec::new();
        for node in self.tree.nodes() {
            let parent = self.tree.parent(node);
            while let Some(ended) = open.pop_if(|open| Some(*open) != parent) {
                self.end_node(ended)?;
            }
            self.begin_node(node)?;
            open.push(node);
        }
        open.into_iter().rev().try_for_each(|node| self.end_node(node))
    }

    /// Writes a node up to its first child.
    fn begin_node(&mut self, node: T::Node) -> io::Result<()> {
        self.encoder.begin_map(if self.has_extras(node) { 4 } else { 3 })?;
        if !E::SORTS_KEYS {
            self.frame(node)?;
            self.metrics(node)?;
            self.extras(node)?;
        }
        self.encoder.key("children")?;
        self.encoder.begin_list(self.tree.child_count(node))
    }

    /// Writes the rest of a node after its last child.
    fn end_node(&mut self, node: T::Node) -> io::Result<()> {
        self.encoder.end_list()?;
        if E::SORTS_KEYS {
            self.frame(node)?;
            self.extras(node)?;
            self.metrics(node)?;
        }
        self.encoder.end_map()
    }

    fn frame(&mut self, node: T::Node) -> io::Result<()> {
        self.encoder.key("frame")?;
        self.encoder.begin_map(2)?;
        self.name(node)?;
        self.encoder.key("type")?;
        self.encoder.text("function")?;
        self.encoder.end_map()
    }

    fn name(&mut self, node: T::Node) -> io::Result<()> {
        self.encoder.key("name")?;
        self.encoder.text(&self.tree.name(node))
    }

    fn metrics(&mut self, node: T::Node) -> io::Result<()> {
        let metrics = self.tree.metrics(node);
        self.encoder.key("metrics")?;
        self.encoder.begin_map(metrics.len())?;
        for (key, value) in metrics {
            self.encoder.key(&key)?;
            write_value(value, self.encoder)?;
        }
        self.encoder.end_map()
    }

    /// Whether a node has the key `marey`.
    fn has_extras(&self, node: T::Node) -> bool {
        self.tree.kind(node).is_some()
            || (self.is_root(node) && self.meta_count() > 0)
            || self.tree.sketch(node).is_some()
            || !self.tree.states(node).is_empty()
    }

    fn is_root(&self, node: T::Node) -> bool {
        self.tree.parent(node).is_none()
    }

    fn extras(&mut self, node: T::Node) -> io::Result<()> {
        if !self.has_extras(node) {
            return Ok(());
        }
        let is_root = self.is_root(node);
        let (kind, states) = (self.tree.kind(node), self.tree.states(node));
        let count = usize::from(kind.is_some())
            + if is_root { self.meta_count() } else { 0 }
            + usize::from(self.tree.sketch(node).is_some())
            + usize::from(!states.is_empty());
        self.encoder.key("marey")?;
        self.encoder.set_one_line(true);
        self.encoder.begin_map(count)?;
        if let Some(kind) = kind {
            self.encoder.key("kind")?;
            self.encoder.text(kind.as_str())?;
        }
        if is_root && E::SORTS_KEYS {
            self.meta()?;
        }
        self.sketch(node)?;
        self.states(&states)?;
        if is_root && !E::SORTS_KEYS {
            self.meta()?;
        }
        if let Some(version) = self.tree.meta().version.filter(|_| is_root) {
            self.encoder.key("version")?;
            self.encoder.count(version)?;
        }
        self.encoder.end_map()?;
        self.encoder.set_one_line(false);
        Ok(())
    }

    fn sketch(&mut self, node: T::Node) -> io::Result<()> {
        let Some(buckets) = self.tree.sketch(node) else { return Ok(()) };
        self.encoder.key("sketch")?;
        self.encoder.begin_list(buckets.len())?;
        for (bucket, count) in buckets {
            self.encoder.begin_list(2)?;
            self.encoder.int(bucket)?;
            self.encoder.count(count)?;
            self.encoder.end_list()?;
        }
        self.encoder.end_list()
    }

    fn states(&mut self, states: &[T::Node]) -> io::Result<()> {
        if states.is_empty() {
            return Ok(());
        }
        self.encoder.key("states")?;
        self.encoder.begin_list(states.len())?;
        for &state in states {
            self.encoder.begin_map(2 + usize::from(self.tree.sketch(state).is_some()))?;
            self.metrics(state)?;
            self.name(state)?;
            self.sketch(state)?;
            self.encoder.end_map()?;
        }
        self.encoder.end_list()
    }

    fn has_losses(&self) -> bool {
        self.producer == Producer::Recorder || !self.tree.meta().losses.is_empty()
    }

    fn meta_count(&self) -> usize {
        let Meta { version, overhead, losses: _, notes, process } = self.tree.meta();
        usize::from(version.is_some())
            + usize::from(overhead.is_some())
            + usize::from(self.has_losses())
            + usize::from(!notes.is_empty())
            + usize::from(process.is_some())
    }

    /// Writes the metadata except the version.
    fn meta(&mut self) -> io::Result<()> {
        let Meta { overhead, losses, notes, process, .. } = self.tree.meta();
        if self.has_losses() {
            self.encoder.key("losses")?;
            self.encoder.begin_map(losses.len())?;
            for (cause, count) in losses {
                self.encoder.key(cause)?;
                self.encoder.count(*count)?;
            }
            self.encoder.end_map()?;
        }
        if !notes.is_empty() {
            self.encoder.key("notes")?;
            self.encoder.begin_map(notes.len())?;
            for (key, note) in notes {
                self.encoder.key(key)?;
                self.encoder.text(note)?;
            }
            self.encoder.end_map()?;
        }
        if let Some(overhead) = overhead {
            self.overhead(overhead)?;
        }
        process.as_ref().map_or(Ok(()), |process| self.process(process))
    }

    fn overhead(&mut self, overhead: &Overhead) -> io::Result<()> {
        self.encoder.key("overhead")?;
        self.encoder.begin_map(4)?;
        self.counts([
            ("events", Some(overhead.events)),
            ("flushing_nanos", Some(overhead.flushing_nanos)),
            ("recording_nanos", Some(overhead.recording_nanos)),
        ])?;
        self.encoder.key("scope_nanos")?;
        self.encoder.float(overhead.scope_nanos)?;
        self.encoder.end_map()
    }

    fn process(&mut self, process: &Process) -> io::Result<()> {
        let has_argv = self.producer == Producer::Export;
        self.encoder.key("process")?;
        self.encoder.begin_map(6 + usize::from(has_argv))?;
        if has_argv {
            self.encoder.key("argv")?;
            self.encoder.begin_list(process.argv.len())?;
            process.argv.iter().try_for_each(|word| self.encoder.text(word))?;
            self.encoder.end_list()?;
        }
        self.encoder.key("complete")?;
        self.encoder.boolean(process.is_complete)?;
        self.counts([("duration_nanos", Some(process.duration_nanos))])?;
        self.encoder.key("host")?;
        self.encoder.text(&process.host)?;
        self.counts([("pid", Some(process.pid))])?;
        self.encoder.key("rank")?;
        match process.rank {
            Some(rank) => self.encoder.count(rank)?,
            None => self.encoder.null()?,
        }
        self.counts([("start_unix_nanos", Some(process.start_unix_nanos))])?;
        self.encoder.end_map()
    }

    /// Writes those of these counts that are known.
    fn counts<const N: usize>(&mut self, counts: [(&str, Option<u64>); N]) -> io::Result<()> {
        for (key, count) in counts {
            if let Some(count) = count {
                self.encoder.key(key)?;
                self.encoder.count(count)?;
            }
        }
        Ok(())
    }

    /// Writes the devices by family, in the order of the families' first devices.
    fn devices(&mut self) -> io::Result<()> {
        let devices = self.tree.devices();
        let mut families: Vec<(&str, Vec<&Device>)> = Vec::new();
        for device in devices.iter() {
            match families.iter_mut().find(|(family, _)| *family == device.family) {
                Some((_, members)) => members.push(device),
                None => families.push((&device.family, vec![device])),
            }
        }
        self.encoder.begin_map(families.len())?;
        for (family, devices) in families {
            self.encoder.key(family)?;
            self.encoder.begin_map(devices.len())?;
            for device in devices {
                self.encoder.key(&device.id)?;
                self.device(device)?;
            }
            self.encoder.end_map()?;
        }
        self.encoder.end_map()
    }

    fn device(&mut self, device: &Device) -> io::Result<()> {
        let bus_width = ("bus_width", device.bus_width_bits);
        let clock_rate = ("clock_rate", device.clock_rate_khz);
        let memory_clock_rate = ("memory_clock_rate", device.memory_clock_rate_khz);
        let num_sms = ("num_sms", device.num_sms);
        let counts = [bus_width, clock_rate, memory_clock_rate, num_sms];
        let known_count = counts.iter().filter(|(_, count)| count.is_some()).count();
        self.encoder.begin_map(usize::from(device.arch.is_some()) + known_count)?;
        if self.producer == Producer::Recorder && !E::SORTS_KEYS {
            // This is Proton's order.
            self.counts([clock_rate, memory_clock_rate, bus_width])?;
            self.arch(device)?;
            self.counts([num_sms])?;
        } else {
            self.arch(device)?;
            self.counts(counts)?;
        }
        self.encoder.end_map()
    }

    fn arch(&mut self, device: &Device) -> io::Result<()> {
        let Some(arch) = &device.arch else { return Ok(()) };
        self.encoder.key("arch")?;
        self.encoder.text(arch)
    }
}

fn write_value(value: MetricValue, encoder: &mut impl Encoder) -> io::Result<()> {
    match value {
        MetricValue::Int(value) => encoder.int(value),
        MetricValue::Float(value) => encoder.float(value),
        MetricValue::Text(value) => encoder.text(&value),
        MetricValue::Ints(values) => {
            encoder.begin_list(values.len())?;
            values.into_iter().try_for_each(|value| encoder.int(value))?;
            encoder.end_list()
        }
        MetricValue::Floats(values) => {
            encoder.begin_list(values.len())?;
            values.into_iter().try_for_each(|value| encoder.float(value))?;
            encoder.end_list()
        }
    }
}
