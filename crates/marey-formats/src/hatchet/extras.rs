//! What stands beside the tree: marey's part of the nodes, and the devices.

use marey_model::context::NodeKind;

use super::error::Cause;
use super::profile::{Device, NodeId, Overhead, Process};
use super::reader::{Reader, Result};
use super::token::Tokens;

/// Version of marey's part of the schema that is read.
pub const FORMAT_VERSION: u64 = 1;

/// What marey adds to a node.
impl<'a, T: Tokens<'a>> Reader<T> {
    pub(super) fn extras(&mut self, id: NodeId) -> Result<()> {
        self.map("marey's part of the node", |reader, key| match key {
            "kind" => {
                let word = reader.text()?;
                reader.nodes[id.index()].kind =
                    NodeKind::ALL.into_iter().find(|kind| kind.as_str() == word);
                Ok(())
            }
            "sketch" => {
                reader.nodes[id.index()].sketch = reader.sketch()?;
                Ok(())
            }
            _ if id == NodeId::ROOT => reader.root_extra(key),
            _ => reader.skip(),
        })
    }

    fn root_extra(&mut self, key: &str) -> Result<()> {
        match key {
            "version" => self.meta.version = Some(self.version()?),
            "overhead" => self.meta.overhead = Some(self.overhead()?),
            "losses" => self.map("the losses by cause", |reader, cause| {
                let count = reader.count()?;
                reader.meta.losses.push((cause.to_owned(), count));
                Ok(())
            })?,
            "process" => self.meta.process = Some(self.process()?),
            _ => self.skip()?,
        }
        Ok(())
    }

    fn version(&mut self) -> Result<u64> {
        match self.count()? {
            found if found > FORMAT_VERSION => {
                Err(self.tokens.fault(Cause::NewerVersion { found, known: FORMAT_VERSION }))
            }
            version => Ok(version),
        }
    }

    fn sketch(&mut self) -> Result<Vec<(i64, u64)>> {
        self.start_list("the sketch")?;
        let mut buckets = Vec::new();
        while self.has_item("a pair of bucket and count")? {
            let bucket = self.whole()?;
            buckets.push((bucket, self.count()?));
            self.end_list("the end of the pair of bucket and count")?;
        }
        Ok(buckets)
    }

    fn overhead(&mut self) -> Result<Overhead> {
        let mut overhead = Overhead::default();
        self.map("the overhead", |reader, key| {
            match key {
                "events" => overhead.events = reader.count()?,
                "scope_nanos" => overhead.scope_nanos = reader.real()?,
                "recording_nanos" => overhead.recording_nanos = reader.count()?,
                "flushing_nanos" => overhead.flushing_nanos = reader.count()?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        Ok(overhead)
    }

    fn process(&mut self) -> Result<Process> {
        let mut process = Process::default();
        self.map("the process", |reader, key| {
            match key {
                "pid" => process.pid = reader.count()?,
                "rank" => process.rank = reader.count_or_null()?,
                "host" => process.host = reader.text()?,
                "argv" => process.argv = reader.texts()?,
                "start_unix_nanos" => process.start_unix_nanos = reader.count()?,
                "duration_nanos" => process.duration_nanos = reader.count()?,
                "complete" => process.complete = reader.truth()?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        Ok(process)
    }
}

/// The devices.
impl<'a, T: Tokens<'a>> Reader<T> {
    /// Reads the rest of the map of families, whose start has been read.
    pub(super) fn devices(&mut self) -> Result<Vec<Device>> {
        let mut devices = Vec::new();
        self.entries(|reader, family| {
            reader.map("the devices of a family", |reader, id| {
                devices.push(reader.device(family, id)?);
                Ok(())
            })
        })?;
        Ok(devices)
    }

    fn device(&mut self, family: &str, id: &str) -> Result<Device> {
        let mut device =
            Device { family: family.to_owned(), id: id.to_owned(), ..Device::default() };
        self.map("a device", |reader, key| {
            match key {
                "arch" => device.arch = Some(reader.text()?),
                "bus_width" => device.bus_width_bits = Some(reader.count()?),
                "clock_rate" => device.clock_rate_khz = Some(reader.count()?),
                "memory_clock_rate" => device.memory_clock_rate_khz = Some(reader.count()?),
                "num_sms" => device.num_sms = Some(reader.count()?),
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        Ok(device)
    }
}
