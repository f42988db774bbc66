//! Reads the parts of a file that are not Proton's tree: marey's extras of the nodes, and the
//! devices.

use marey_model::context::NodeKind;
use marey_model::hatchet::VERSION;
use marey_model::profile::{Device, NodeId, Overhead, Process};

use super::error::SyntaxCause;
use super::reader::{Reader, Result};
use super::token::{Token, Tokens};

/// marey's extras of a node.
impl<T: Tokens> Reader<T> {
    pub(super) fn read_extras(&mut self, mut id: NodeId) -> Result<()> {
        self.read_fields(
            "marey's part of the node",
            &mut id,
            &[
                ("kind", |reader, id| {
                    reader.nodes[id.index()].kind = reader.read_kind()?;
                    Ok(())
                }),
                ("sketch", |reader, id| reader.read_sketch(*id)),
                ("states", |reader, id| reader.read_states(*id)),
                ("version", |reader, id| reader.read_if_root(*id, Self::read_version)),
                ("overhead", |reader, id| reader.read_if_root(*id, Self::read_overhead)),
                ("losses", |reader, id| reader.read_if_root(*id, Self::read_losses)),
                ("notes", |reader, id| reader.read_if_root(*id, Self::read_notes)),
                ("process", |reader, id| reader.read_if_root(*id, Self::read_process)),
            ],
        )
    }

    /// Calls `read` on the root and skips the value elsewhere.
    fn read_if_root(&mut self, id: NodeId, read: fn(&mut Self) -> Result<()>) -> Result<()> {
        if id == NodeId::ROOT { read(self) } else { self.skip() }
    }

    fn read_kind(&mut self) -> Result<Option<NodeKind>> {
        self.read_text_as(|name| NodeKind::ALL.into_iter().find(|kind| kind.as_str() == name))
    }

    fn read_sketch(&mut self, node: NodeId) -> Result<()> {
        self.start_list("the sketch")?;
        let mut buckets = Vec::new();
        let pair_or_end = |token: Token<'_>| match token {
            Token::ListStart => Some(true),
            Token::ListEnd => Some(false),
            _ => None,
        };
        while self.tokens.expect("a pair of bucket and count", pair_or_end)? {
            let bucket = self.read_int()?;
            buckets.push((bucket, self.read_count()?));
            self.end_list("the end of the pair of bucket and count")?;
        }
        self.sketches.push((node, buckets.into()));
        Ok(())
    }

    /// Reads states without children or kernels of their own. They become children like other
    /// nodes. The file has them in marey's extras, because Proton has no nodes for them.
    fn read_states(&mut self, parent: NodeId) -> Result<()> {
        self.start_list("the list of states")?;
        while self.start_next_child()? {
            let mut state = self.add_node(Some(parent))?;
            self.nodes[state.id.index()].kind = Some(NodeKind::State);
            self.read_remaining_fields(
                &mut state,
                &[
                    ("name", Self::read_frame_name),
                    ("metrics", |reader, state| reader.read_metrics(state.id)),
                    ("sketch", |reader, state| reader.read_sketch(state.id)),
                ],
            )?;
            self.check_name(&state)?;
        }
        Ok(())
    }

    fn read_version(&mut self) -> Result<()> {
        let found = self.read_count()?;
        if found > VERSION {
            return Err(self.tokens.fault(SyntaxCause::NewerVersion { found, known: VERSION }));
        }
        self.meta.version = Some(found);
        Ok(())
    }

    fn read_losses(&mut self) -> Result<()> {
        self.read_entries("the losses by cause", |reader, cause| {
            let count = reader.read_count()?;
            reader.meta.losses.push((cause.to_owned(), count));
            Ok(())
        })
    }

    fn read_notes(&mut self) -> Result<()> {
        self.read_entries("the notes by key", |reader, key| {
            let note = reader.read_text()?;
            reader.meta.notes.push((key.to_owned(), note));
            Ok(())
        })
    }

    fn read_overhead(&mut self) -> Result<()> {
        let mut overhead = Overhead::default();
        self.read_fields(
            "the overhead",
            &mut overhead,
            &[
                ("events", |reader, target| reader.read_count().map(|value| target.events = value)),
                ("scope_nanos", |reader, target| {
                    reader.read_float().map(|value| target.scope_nanos = value)
                }),
                ("recording_nanos", |reader, target| {
                    reader.read_count().map(|value| target.recording_nanos = value)
                }),
                ("flushing_nanos", |reader, target| {
                    reader.read_count().map(|value| target.flushing_nanos = value)
                }),
            ],
        )?;
        self.meta.overhead = Some(overhead);
        Ok(())
    }

    fn read_process(&mut self) -> Result<()> {
        let mut process = Process::default();
        self.read_fields(
            "the process",
            &mut process,
            &[
                ("pid", |reader, target| reader.read_count().map(|value| target.pid = value)),
                ("rank", |reader, target| {
                    reader.read_count_or_null().map(|value| target.rank = value)
                }),
                ("host", |reader, target| reader.read_text().map(|value| target.host = value)),
                ("argv", |reader, target| reader.read_texts().map(|value| target.argv = value)),
                ("start_unix_nanos", |reader, target| {
                    reader.read_count().map(|value| target.start_unix_nanos = value)
                }),
                ("duration_nanos", |reader, target| {
                    reader.read_count().map(|value| target.duration_nanos = value)
                }),
                ("complete", |reader, target| {
                    reader.read_bool().map(|value| target.is_complete = value)
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
    pub(super) fn read_devices(&mut self) -> Result<Vec<Device>> {
        let mut devices = Vec::new();
        self.read_remaining_entries(|reader, family| {
            reader.read_entries("the devices of a family", |reader, id| {
                devices.push(reader.read_device(family, id)?);
                Ok(())
            })
        })?;
        Ok(devices)
    }

    fn read_device(&mut self, family: &str, id: &str) -> Result<Device> {
        let mut device =
            Device { family: family.to_owned(), id: id.to_owned(), ..Device::default() };
        self.read_fields(
            "a device",
            &mut device,
            &[
                ("arch", |reader, target| {
                    reader.read_text().map(|value| target.arch = Some(value))
                }),
                ("bus_width", |reader, target| {
                    reader.read_count().map(|value| target.bus_width_bits = Some(value))
                }),
                ("clock_rate", |reader, target| {
                    reader.read_count().map(|value| target.clock_rate_khz = Some(value))
                }),
                ("memory_clock_rate", |reader, target| {
                    reader.read_count().map(|value| target.memory_clock_rate_khz = Some(value))
                }),
                ("num_sms", |reader, target| {
                    reader.read_count().map(|value| target.num_sms = Some(value))
                }),
            ],
        )?;
        Ok(device)
    }
}
