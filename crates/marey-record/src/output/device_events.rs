//! Reads the device activities and API calls of a session of this process that has ended back from
//! its spool.

use crate::control::bit;
use marey_model::context::NodeKind;
use marey_model::run::{RING, SPOOL};
use marey_model::spool::{
    Activity, ActivityKind, ActivityShape, Detail, IdMap, Span, SpoolFrame, SpoolReader,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

/// An activity of a device, or a call of its API on a thread of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceEvent<'a> {
    /// Name.
    pub name: &'a str,
    /// `None` for a call on the host.
    pub kind: Option<ActivityKind>,
    /// The operating system's id of the calling thread; 0 for an activity.
    pub thread: u64,
    /// Device number.
    pub device: u32,
    /// Stream; `u32::MAX` for none.
    pub stream: u32,
    /// The number that a call shares with its activities; 0 for none.
    pub correlation: u32,
    /// Start, on the monotonic clock of the operating system.
    pub start_nanos: i64,
    /// Duration.
    pub duration_nanos: u64,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// Grid in blocks and block in threads, x to z; 0 if this is no kernel.
    pub sizes: [u64; 6],
    /// Registers per thread.
    pub registers: u64,
}

/// Passes the device events of the session in a slot to `receive`, in no order. `run` is the run
/// directory. A session may get the slot of one that has ended, so events of an earlier session may
/// be among them.
pub(crate) fn read(
    run: &Path,
    slot: u32,
    receive: &mut dyn FnMut(DeviceEvent<'_>),
) -> io::Result<()> {
    let own_prefix = format!("{}-", std::process::id());
    for entry in fs::read_dir(run.join(SPOOL))? {
        let entry = entry?;
        let path = entry.path();
        // The folder also contains the traces of windows.
        let is_spool =
            path.extension().is_some_and(|extension| extension == SPOOL || extension == RING);
        if is_spool && entry.file_name().to_string_lossy().starts_with(&own_prefix) {
            read_spool(&path, slot, receive)?;
        }
    }
    Ok(())
}

/// The parts of a spool that its events refer to by number.
#[derive(Default)]
struct Definitions {
    texts: IdMap<String>,
    shapes: IdMap<ActivityShape>,
    threads: BTreeMap<u32, CallingThread>,
}

#[derive(Default)]
struct CallingThread {
    os_id: u64,
    /// The names of API calls, as text ids, by node.
    call_name_ids: BTreeMap<u32, u32>,
    /// The launches among the spans of the next frame: index of the span and correlation id.
    launches: Vec<(u32, u32)>,
}

fn read_spool(path: &Path, slot: u32, receive: &mut dyn FnMut(DeviceEvent<'_>)) -> io::Result<()> {
    let reader = SpoolReader::new(BufReader::new(File::open(path)?)).map_err(io::Error::other)?;
    let mut definitions = Definitions::default();
    for frame in reader {
        definitions.add(frame.map_err(io::Error::other)?, slot, receive);
    }
    Ok(())
}

impl Definitions {
    fn add(&mut self, frame: SpoolFrame, slot: u32, receive: &mut dyn FnMut(DeviceEvent<'_>)) {
        match frame {
            SpoolFrame::Strings { first_id, texts } => self.texts.extend(first_id, texts),
            SpoolFrame::Shapes { first_id, shapes } => self.shapes.extend(first_id, shapes),
            SpoolFrame::Thread { thread, os_id, .. } => {
                self.threads.entry(thread).or_default().os_id = os_id;
            }
            SpoolFrame::Nodes { thread, first_id, nodes } => {
                let name_ids = &mut self.threads.entry(thread).or_default().call_name_ids;
                let nodes = (first_id..=u32::MAX).zip(nodes);
                let call_nodes = nodes.filter(|(_, node)| node.kind == NodeKind::Runtime);
                name_ids.extend(call_nodes.map(|(id, node)| (id, node.name_id)));
            }
            SpoolFrame::Launches { thread, launches } => {
                self.threads.entry(thread).or_default().launches = launches;
            }
            SpoolFrame::Spans { thread, sessions, spans } => {
                let thread = self.threads.entry(thread).or_default();
                let launches = std::mem::take(&mut thread.launches);
                if sessions & bit(slot) != 0 {
                    for (index, correlation_id) in launches {
                        if let Some(span) = spans.get(index as usize)
                            && let Some(call) = thread.call(span, correlation_id, &self.texts)
                        {
                            receive(call);
                        }
                    }
                }
            }
            SpoolFrame::Activities { sessions, activities } if sessions & bit(slot) != 0 => {
                activities.iter().filter_map(|activity| self.activity(activity)).for_each(receive);
            }
            _ => {}
        }
    }

    fn activity(&self, activity: &Activity) -> Option<DeviceEvent<'_>> {
        use Detail::{BlockX, BlockY, BlockZ, GridX, GridY, GridZ, Registers};
        let shape = self.shapes.get(activity.shape_id)?;
        let detail = |wanted: Detail| {
            let entry = shape.details.iter().find(|(detail, _)| *detail == wanted);
            entry.map_or(0, |&(_, value)| value)
        };
        Some(DeviceEvent {
            name: self.texts.get(shape.name_id)?,
            kind: Some(shape.kind),
            thread: 0,
            device: shape.device,
            stream: shape.stream,
            correlation: activity.correlation_id,
            start_nanos: activity.start_nanos,
            duration_nanos: activity.duration_nanos,
            bytes: activity.bytes,
            sizes: [GridX, GridY, GridZ, BlockX, BlockY, BlockZ].map(detail),
            registers: detail(Registers),
        })
    }
}

impl CallingThread {
    fn call<'t>(
        &self,
        span: &Span,
        correlation_id: u32,
        texts: &'t IdMap<String>,
    ) -> Option<DeviceEvent<'t>> {
        Some(DeviceEvent {
            name: texts.get(*self.call_name_ids.get(&span.node_id)?)?,
            kind: None,
            thread: self.os_id,
            device: 0,
            stream: u32::MAX,
            correlation: correlation_id,
            start_nanos: span.start_nanos,
            duration_nanos: span.duration_nanos(),
            bytes: 0,
            sizes: [0; 6],
            registers: 0,
        })
    }
}
