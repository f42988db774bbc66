//! What devices did, as a spool says it.
//!
//! Activities repeat: a kernel runs again and again with the same grid on the same device. What they
//! have in common is a [`Shape`], which is written once; an [`Activity`] is then some ten bytes.

use super::error::Malformed;
use super::varint::{Fields, put, put_signed, put_text};

/// A device of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number in the process.
    pub number: u32,
    /// What it is: CUDA or HIP.
    pub device_type: String,
    /// Name of the model.
    pub name: String,
    /// What else is known of it, as a JSON object.
    pub properties: String,
}

/// What kind of thing a device did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ActivityKind {
    /// A kernel ran.
    Kernel = 0,
    /// Memory was copied.
    Memcpy = 1,
    /// Memory was filled.
    Memset = 2,
    /// Somebody waited for the device.
    Sync = 3,
    /// What recording cost the device's library.
    Overhead = 4,
}

impl ActivityKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 5] =
        [Self::Kernel, Self::Memcpy, Self::Memset, Self::Sync, Self::Overhead];
}

/// A number that is known of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Detail {
    /// Blocks of the grid along x.
    GridX = 0,
    /// Blocks of the grid along y.
    GridY = 1,
    /// Blocks of the grid along z.
    GridZ = 2,
    /// Threads of a block along x.
    BlockX = 3,
    /// Threads of a block along y.
    BlockY = 4,
    /// Threads of a block along z.
    BlockZ = 5,
    /// Registers of a thread.
    Registers = 6,
    /// Static shared memory of a block, bytes.
    StaticSharedBytes = 7,
    /// Dynamic shared memory of a block, bytes.
    DynamicSharedBytes = 8,
    /// Shared memory that the driver set aside for a block, bytes.
    SharedExecutedBytes = 9,
    /// Local memory of a thread, bytes.
    LocalThreadBytes = 10,
    /// Local memory of the whole kernel, bytes.
    LocalTotalBytes = 11,
    /// Blocks of a cluster along x.
    ClusterX = 12,
    /// Blocks of a cluster along y.
    ClusterY = 13,
    /// Blocks of a cluster along z.
    ClusterZ = 14,
    /// The context, as the device's library numbers it.
    Context = 15,
    /// The graph, as the device's library numbers it.
    Graph = 16,
    /// The node of the graph.
    GraphNode = 17,
    /// Hardware channel.
    Channel = 18,
    /// Kind of the hardware channel.
    ChannelType = 19,
    /// How it was launched: 0 regular, 1 cooperative.
    LaunchType = 20,
    /// Value that memory was filled with.
    Value = 21,
    /// Where bytes were copied from, as CUPTI numbers kinds of memory.
    SourceKind = 22,
    /// Where bytes went, likewise.
    TargetKind = 23,
    /// The event that was waited for.
    Event = 24,
    /// Number of the operator that it is of, as the program pushed it.
    ExternalId = 25,
    /// Number of the device that bytes were copied from.
    SourceDevice = 26,
    /// Number of the device that bytes went to.
    TargetDevice = 27,
    /// Priority of its stream; lower numbers come first.
    Priority = 28,
    /// Clusters that the device can run at a time.
    MaxActiveClusters = 29,
    /// Whether a graph that the device itself launched made it: 1.
    DeviceLaunched = 30,
    /// Flags as CUPTI numbers them: 1 for what the host did not wait for.
    Flags = 31,
    /// Copies that one batch made.
    Copies = 32,
    /// The context that bytes were copied from.
    SourceContext = 33,
    /// The context that bytes went to.
    TargetContext = 34,
    /// The graph that the executed one was made of.
    SourceGraph = 35,
    /// The node of that graph.
    SourceGraphNode = 36,
    /// What the wait gave back, as the driver numbers results.
    Result = 37,
    /// What was held up, as CUPTI numbers kinds of objects.
    ObjectKind = 38,
    /// The thread that was held up, as the system numbers it.
    ObjectThread = 39,
}

impl Detail {
    /// Every detail, in the order of its number.
    pub const ALL: [Self; 40] = [
        Self::GridX,
        Self::GridY,
        Self::GridZ,
        Self::BlockX,
        Self::BlockY,
        Self::BlockZ,
        Self::Registers,
        Self::StaticSharedBytes,
        Self::DynamicSharedBytes,
        Self::SharedExecutedBytes,
        Self::LocalThreadBytes,
        Self::LocalTotalBytes,
        Self::ClusterX,
        Self::ClusterY,
        Self::ClusterZ,
        Self::Context,
        Self::Graph,
        Self::GraphNode,
        Self::Channel,
        Self::ChannelType,
        Self::LaunchType,
        Self::Value,
        Self::SourceKind,
        Self::TargetKind,
        Self::Event,
        Self::ExternalId,
        Self::SourceDevice,
        Self::TargetDevice,
        Self::Priority,
        Self::MaxActiveClusters,
        Self::DeviceLaunched,
        Self::Flags,
        Self::Copies,
        Self::SourceContext,
        Self::TargetContext,
        Self::SourceGraph,
        Self::SourceGraphNode,
        Self::Result,
        Self::ObjectKind,
        Self::ObjectThread,
    ];

    /// Whether its number is one with a sign, as the 64 bits of which it is kept.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::Priority)
    }

    /// The key under which an activity's arguments hold it; `None` where a table has a column for it.
    pub const fn key(self) -> Option<&'static str> {
        Some(match self {
            Self::GridX
            | Self::GridY
            | Self::GridZ
            | Self::BlockX
            | Self::BlockY
            | Self::BlockZ
            | Self::Registers
            | Self::GraphNode
            | Self::ExternalId => return None,
            Self::StaticSharedBytes => "static_shared_bytes",
            Self::DynamicSharedBytes => "dynamic_shared_bytes",
            Self::SharedExecutedBytes => "shared_executed_bytes",
            Self::LocalThreadBytes => "local_thread_bytes",
            Self::LocalTotalBytes => "local_total_bytes",
            Self::ClusterX => "cluster_x",
            Self::ClusterY => "cluster_y",
            Self::ClusterZ => "cluster_z",
            Self::Context => "context",
            Self::Graph => "graph",
            Self::Channel => "channel",
            Self::ChannelType => "channel_type",
            Self::LaunchType => "launch_type",
            Self::Value => "value",
            Self::SourceKind => "source_kind",
            Self::TargetKind => "target_kind",
            Self::Event => "event",
            Self::SourceDevice => "source_device",
            Self::TargetDevice => "target_device",
            Self::Priority => "priority",
            Self::MaxActiveClusters => "max_active_clusters",
            Self::DeviceLaunched => "is_device_launched",
            Self::Flags => "flags",
            Self::Copies => "copies",
            Self::SourceContext => "source_context",
            Self::TargetContext => "target_context",
            Self::SourceGraph => "source_graph",
            Self::SourceGraphNode => "source_graph_node",
            Self::Result => "result",
            Self::ObjectKind => "object_kind",
            Self::ObjectThread => "object_thread",
        })
    }
}

/// What activities have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What it is.
    pub kind: ActivityKind,
    /// Id of its name.
    pub name: u32,
    /// Number of the device.
    pub device: u32,
    /// The stream that it ran on; `u32::MAX` for none.
    pub stream: u32,
    /// What else is known.
    pub details: Vec<(Detail, u64)>,
}

/// What a device did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Id of its shape.
    pub shape: u32,
    /// When the device began.
    pub start_nanos: i64,
    /// How long it took.
    pub duration_nanos: u64,
    /// Bytes that were copied or filled.
    pub bytes: u64,
    /// The number that it shares with its launch; 0 for none.
    pub correlation: u32,
    /// Thread and node that launched it.
    pub launch: Option<(u32, u32)>,
}

pub(super) fn put_device(out: &mut Vec<u8>, device: &Device) {
    put(out, u64::from(device.number));
    for text in [&device.device_type, &device.name, &device.properties] {
        put_text(out, text);
    }
}

pub(super) fn take_device(fields: &mut Fields<'_>) -> Result<Device, Malformed> {
    Ok(Device {
        number: fields.number_u32()?,
        device_type: fields.text()?.to_owned(),
        name: fields.text()?.to_owned(),
        properties: fields.text()?.to_owned(),
    })
}

pub(super) fn put_shapes(out: &mut Vec<u8>, shapes: &[Shape]) {
    put(out, shapes.len() as u64);
    for shape in shapes {
        out.push(shape.kind as u8);
        for id in [shape.name, shape.device, shape.stream.wrapping_add(1)] {
            put(out, u64::from(id));
        }
        put(out, shape.details.len() as u64);
        for (detail, value) in &shape.details {
            out.push(*detail as u8);
            put(out, *value);
        }
    }
}

pub(super) fn take_shapes(fields: &mut Fields<'_>) -> Result<Vec<Shape>, Malformed> {
    let count = fields.count(5)?;
    (0..count).map(|_| take_shape(fields)).collect()
}

fn take_shape(fields: &mut Fields<'_>) -> Result<Shape, Malformed> {
    let kind = one_of(&ActivityKind::ALL, "kind of activity", fields.byte()?)?;
    let (name, device) = (fields.number_u32()?, fields.number_u32()?);
    let stream = fields.number_u32()?.wrapping_sub(1);
    let details = fields.count(2)?;
    let details = (0..details).map(|_| {
        let detail = one_of(&Detail::ALL, "detail of an activity", fields.byte()?)?;
        Ok((detail, fields.number()?))
    });
    let details = details.collect::<Result<_, Malformed>>()?;
    Ok(Shape { kind, name, device, stream, details })
}

fn one_of<T: Copy>(all: &[T], what: &'static str, number: u8) -> Result<T, Malformed> {
    all.get(usize::from(number)).copied().ok_or(Malformed::Number { what, number: number.into() })
}

/// The one byte before the rest says what is there.
const HAS_BYTES: u8 = 1;
const HAS_LAUNCH: u8 = 2;
/// Launched by the thread of the activity before.
const SAME_THREAD: u8 = 4;

pub(super) fn put_activities(out: &mut Vec<u8>, activities: &[Activity]) {
    put(out, activities.len() as u64);
    let mut last = FIRST;
    for activity in activities {
        let mut flags = 0;
        let (thread, node) = activity.launch.unwrap_or(last.launch);
        if activity.bytes != 0 {
            flags |= HAS_BYTES;
        }
        if activity.launch.is_some() {
            flags |= HAS_LAUNCH;
        }
        if thread == last.launch.0 {
            flags |= SAME_THREAD;
        }
        out.push(flags);
        put_signed(out, i64::from(activity.shape) - i64::from(last.shape));
        put_signed(out, activity.start_nanos.wrapping_sub(last.end_nanos));
        put(out, activity.duration_nanos);
        put_signed(out, i64::from(activity.correlation) - i64::from(last.correlation));
        if activity.bytes != 0 {
            put(out, activity.bytes);
        }
        if activity.launch.is_some() {
            if thread != last.launch.0 {
                put(out, u64::from(thread));
            }
            put_signed(out, i64::from(node) - i64::from(last.launch.1));
        }
        last = Last::of(activity, (thread, node));
    }
}

pub(super) fn take_activities(fields: &mut Fields<'_>) -> Result<Vec<Activity>, Malformed> {
    let count = fields.count(5)?;
    let mut activities = Vec::with_capacity(count);
    let mut last = FIRST;
    for _ in 0..count {
        let flags = fields.byte()?;
        if flags & !(HAS_BYTES | HAS_LAUNCH | SAME_THREAD) != 0 {
            return Err(Malformed::Number { what: "flag of an activity", number: flags.into() });
        }
        let shape = near(last.shape, fields.signed()?)?;
        let start_nanos = last.end_nanos.wrapping_add(fields.signed()?);
        let duration_nanos = fields.number()?;
        let correlation = near(last.correlation, fields.signed()?)?;
        let bytes = if flags & HAS_BYTES != 0 { fields.number()? } else { 0 };
        let mut place = last.launch;
        if flags & HAS_LAUNCH != 0 {
            if flags & SAME_THREAD == 0 {
                place.0 = fields.number_u32()?;
            }
            place.1 = near(place.1, fields.signed()?)?;
        }
        let launch = (flags & HAS_LAUNCH != 0).then_some(place);
        let activity = Activity { shape, start_nanos, duration_nanos, bytes, correlation, launch };
        last = Last::of(&activity, place);
        activities.push(activity);
    }
    Ok(activities)
}

/// What differences are from.
struct Last {
    shape: u32,
    end_nanos: i64,
    correlation: u32,
    launch: (u32, u32),
}

const FIRST: Last = Last { shape: 0, end_nanos: 0, correlation: 0, launch: (0, 0) };

impl Last {
    const fn of(activity: &Activity, launch: (u32, u32)) -> Self {
        let end_nanos = activity.start_nanos.wrapping_add(activity.duration_nanos.cast_signed());
        Self { shape: activity.shape, end_nanos, correlation: activity.correlation, launch }
    }
}

fn near(last: u32, step: i64) -> Result<u32, Malformed> {
    let id = i64::from(last).checked_add(step).ok_or(Malformed::TooLarge)?;
    u32::try_from(id).or(Err(Malformed::TooLarge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_detail_survives_its_number() {
        for (number, kind) in ActivityKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        for (number, detail) in Detail::ALL.into_iter().enumerate() {
            assert_eq!(detail as usize, number);
        }
    }

    #[test]
    fn a_kernel_like_the_one_before_takes_ten_bytes() {
        let activities: Vec<_> = (0..1000)
            .map(|number| Activity {
                shape: 3,
                start_nanos: 1_700_000_000_000_000_000 + i64::from(number) * 9_000,
                duration_nanos: 5_000,
                bytes: 0,
                correlation: 70_000 + number,
                launch: Some((0, 12)),
            })
            .collect();
        let mut out = Vec::new();
        put_activities(&mut out, &activities);
        assert!(out.len() < 10 * activities.len(), "{}", out.len());
        let mut fields = Fields(&out);
        assert_eq!(take_activities(&mut fields), Ok(activities));
        assert!(fields.0.is_empty());
    }
}
