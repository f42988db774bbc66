//! The parts beside the tree: marey's extras of the nodes, and the devices.

use marey_model::context::NodeKind;
use marey_model::hatchet::VERSION;
use marey_model::profile::{Device, NodeId, Overhead, Process, Sketch};

use super::error::Cause;
use super::reader::{Reader, Result};
use super::token::{Token, Tokens};

/// marey's extras of a node.
impl<T: Tokens> Reader<T> {
    pub(super) fn extras(&mut self, mut id: NodeId) -> Result<()> {
        self.fields(
            "marey's part of the node",
            &mut id,
            &[
                ("kind", |reader, id| {
                    reader.nodes[id.index()].kind = reader.kind()?;
                    Ok(())
                }),
                ("sketch", |reader, id| {
                    let sketch = reader.sketch()?;
                    reader.sketches.push((*id, sketch));
                    Ok(())
                }),
                ("states", |reader, id| reader.states(*id)),
                ("version", |reader, id| reader.root_only(*id, Self::version)),
                ("overhead", |reader, id| reader.root_only(*id, Self::overhead)),
                ("losses", |reader, id| reader.root_only(*id, Self::losses)),
                ("process", |reader, id| reader.root_only(*id, Self::process)),
            ],
        )
    }

    /// Calls `read` on the root and skips the value elsewhere.
    fn root_only(&mut self, id: NodeId, read: fn(&mut Self) -> Result<()>) -> Result<()> {
        if id == NodeId::ROOT { read(self) } else { self.skip() }
    }

    fn kind(&mut self) -> Result<Option<NodeKind>> {
        self.text_as(|word| NodeKind::ALL.into_iter().find(|kind| kind.as_str() == word))
    }

    fn sketch(&mut self) -> Result<Sketch> {
        self.start_list("the sketch")?;
        let mut buckets = Vec::new();
        let pair_or_end = |token: Token<'_>| match token {
            Token::ListStart => Some(true),
            Token::ListEnd => Some(false),
            _ => None,
        };
        while self.tokens.expect("a pair of bucket and count", pair_or_end)? {
            let bucket = self.int()?;
            buckets.push((bucket, self.count()?));
            self.end_list("the end of the pair of bucket and count")?;
        }
        Ok(buckets.into())
    }

    /// Reads states without children or kernels of their own. They become children like other
    /// nodes; the file has them in marey's extras because Proton has no nodes for them.
    fn states(&mut self, parent: NodeId) -> Result<()> {
        self.start_list("the list of states")?;
        while self.has_child()? {
            let mut state = self.add_node(Some(parent))?;
            self.nodes[state.id.index()].kind = Some(NodeKind::State);
            self.remaining_fields(
                &mut state,
                &[
                    ("name", Self::frame_name),
                    ("metrics", |reader, state| reader.metrics(state.id)),
                    ("sketch", |reader, state| {
                        let sketch = reader.sketch()?;
                        reader.sketches.push((state.id, sketch));
                        Ok(())
                    }),
                ],
            )?;
            self.check_name(&state)?;
        }
        Ok(())
    }

    fn version(&mut self) -> Result<()> {
        let found = self.count()?;
        if found > VERSION {
            return Err(self.tokens.fault(Cause::NewerVersion { found, known: VERSION }));
        }
        self.meta.version = Some(found);
        Ok(())
    }

    fn losses(&mut self) -> Result<()> {
        self.entries("the losses by cause", |reader, cause| {
            let count = reader.count()?;
            reader.meta.losses.push((cause.to_owned(), count));
            Ok(())
        })
    }

    fn overhead(&mut self) -> Result<()> {
        let mut overhead = Overhead::default();
        self.fields(
            "the overhead",
            &mut overhead,
            &[
                ("events", |reader, target| reader.count().map(|value| target.events = value)),
                ("scope_nanos", |reader, target| {
                    reader.float().map(|value| target.scope_nanos = value)
                }),
                ("recording_nanos", |reader, target| {
                    reader.count().map(|value| target.recording_nanos = value)
                }),
                ("flushing_nanos", |reader, target| {
                    reader.count().map(|value| target.flushing_nanos = value)
                }),
            ],
        )?;
        self.meta.overhead = Some(overhead);
        Ok(())
    }

    fn process(&mut self) -> Result<()> {
        let mut process = Process::default();
        self.fields(
            "the process",
            &mut process,
            &[
                ("pid", |reader, target| reader.count().map(|value| target.pid = value)),
                ("rank", |reader, target| reader.count_or_null().map(|value| target.rank = value)),
                ("host", |reader, target| reader.text().map(|value| target.host = value)),
                ("argv", |reader, target| reader.texts().map(|value| target.argv = value)),
                ("start_unix_nanos", |reader, target| {
                    reader.count().map(|value| target.start_unix_nanos = value)
                }),
                ("duration_nanos", |reader, target| {
                    reader.count().map(|value| target.duration_nanos = value)
                }),
                ("complete", |reader, target| {
                    reader.boolean().map(|value| target.complete = value)
                }),
            ],
        )?;
        self.meta.process = Some(process);
        Ok(())
    }
}

/// The devices.
impl<T: Tokens> Reader<T> {
    /// Reads the map of device families, after its start.
    pub(super) fn devices(&mut self) -> Result<Vec<Device>> {
        let mut devices = Vec::new();
        self.remaining_entries(|reader, family| {
            reader.entries("the devices of a family", |reader, id| {
                devices.push(reader.device(family, id)?);
                Ok(())
            })
        })?;
        Ok(devices)
    }

    fn device(&mut self, family: &str, id: &str) -> Result<Device> {
        let mut device =
            Device { family: family.to_owned(), id: id.to_owned(), ..Device::default() };
        self.fields(
            "a device",
            &mut device,
            &[
                ("arch", |reader, target| reader.text().map(|value| target.arch = Some(value))),
                ("bus_width", |reader, target| {
                    reader.count().map(|value| target.bus_width_bits = Some(value))
                }),
                ("clock_rate", |reader, target| {
                    reader.count().map(|value| target.clock_rate_khz = Some(value))
                }),
                ("memory_clock_rate", |reader, target| {
                    reader.count().map(|value| target.memory_clock_rate_khz = Some(value))
                }),
                ("num_sms", |reader, target| {
                    reader.count().map(|value| target.num_sms = Some(value))
                }),
            ],
        )?;
        Ok(device)
    }
}
