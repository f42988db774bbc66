//! Devices and their activities in a spool, with their encoding.
//!
//! Activities repeat, because the same kernel with the same grid runs many times on the same
//! device. The common part is a [`ActivityShape`], which is written once. So an [`Activity`] takes
//! about ten bytes.

use super::error::Malformed;
use super::varint::{Fields, add_delta, put_signed, put_text, put_varint};

/// A device of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Device number in the process.
    pub number: u32,
    /// Platform: `CUDA` or `HIP`.
    pub device_type: String,
    /// Model name.
    pub name: String,
    /// Further properties as a JSON object.
    pub properties: String,
}

/// Kind of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ActivityKind {
    /// Kernel.
    Kernel = 0,
    /// Copy.
    Memcpy = 1,
    /// Fill.
    Memset = 2,
    /// Synchronisation.
    Sync = 3,
    /// Overhead of the vendor's profiling library.
    Overhead = 4,
}

impl ActivityKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 5] =
        [Self::Kernel, Self::Memcpy, Self::Memset, Self::Sync, Self::Overhead];
}

/// Declares the details: variant, number, and the key under which the arguments of an activity list
/// the detail, unless it has a column of its own. Numbers are never reused.
macro_rules! details {
    ($($(#[$meta:meta])+ $variant:ident $number:literal $($key:literal)?,)+) => {
        /// An optional numeric property of an activity.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Detail {
            $($(#[$meta])+ $variant = $number,)+
        }

        impl Detail {
            /// Every detail, in the order of its number.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$variant),+];

            /// Returns the key under which the arguments of an activity list the detail; `None` if
            /// it has a column of its own.
            pub const fn key(self) -> Option<&'static str> {
                match self { $(Self::$variant => [$(Some($key),)? None][0],)+ }
            }
        }
    };
}

details! {
    /// Grid size in blocks, x.
    GridX 0,
    /// Grid size in blocks, y.
    GridY 1,
    /// Grid size in blocks, z.
    GridZ 2,
    /// Block size in threads, x.
    BlockX 3,
    /// Block size in threads, y.
    BlockY 4,
    /// Block size in threads, z.
    BlockZ 5,
    /// Registers per thread.
    Registers 6,
    /// Static shared memory per block, in bytes.
    StaticSharedBytes 7 "static_shared_bytes",
    /// Dynamic shared memory per block, in bytes.
    DynamicSharedBytes 8 "dynamic_shared_bytes",
    /// Shared memory reserved by the driver per block, in bytes.
    SharedExecutedBytes 9 "shared_executed_bytes",
    /// Local memory per thread, in bytes.
    LocalThreadBytes 10 "local_thread_bytes",
    /// Local memory of the kernel, in bytes.
    LocalTotalBytes 11 "local_total_bytes",
    /// Cluster size in blocks, x.
    ClusterX 12 "cluster_x",
    /// Cluster size in blocks, y.
    ClusterY 13 "cluster_y",
    /// Cluster size in blocks, z.
    ClusterZ 14 "cluster_z",
    /// CUDA context id, as in the activity record.
    Context 15 "context",
    /// CUDA graph id, as in the activity record.
    Graph 16 "graph",
    /// Graph node id.
    GraphNode 17,
    /// Hardware channel.
    Channel 18 "channel",
    /// Kind of the hardware channel.
    ChannelType 19 "channel_type",
    /// Launch type: 0 regular, 1 cooperative.
    LaunchType 20 "launch_type",
    /// Fill value.
    Value 21 "value",
    /// Source memory kind, in CUPTI's numbering.
    SourceKind 22 "source_kind",
    /// Destination memory kind, in CUPTI's numbering.
    TargetKind 23 "target_kind",
    /// Id of the CUDA event that was waited for.
    Event 24 "event",
    /// External correlation id that the program pushed.
    ExternalId 25,
    /// Source device number.
    SourceDevice 26 "source_device",
    /// Destination device number.
    TargetDevice 27 "target_device",
    /// Priority of the stream; lower numbers have precedence.
    Priority 28 "priority",
    /// Maximum number of active clusters.
    MaxActiveClusters 29 "max_active_clusters",
    /// 1 if the activity belongs to a device-launched graph.
    DeviceLaunched 30 "is_device_launched",
    /// Flags in CUPTI's numbering: 1 for an asynchronous operation.
    Flags 31 "flags",
    /// Number of copies in a batch.
    Copies 32 "copies",
    /// Source context id.
    SourceContext 33 "source_context",
    /// Destination context id.
    TargetContext 34 "target_context",
    /// Id of the graph from which the executed graph was instantiated.
    SourceGraph 35 "source_graph",
    /// Graph node id in that graph.
    SourceGraphNode 36 "source_graph_node",
    /// Return value of the synchronisation, a `CUresult`.
    Result 37 "result",
    /// Kind of the object to which the overhead applies, in CUPTI's numbering.
    ObjectKind 38 "object_kind",
    /// Thread to which the overhead applies: its id in the operating system.
    ObjectThread 39 "object_thread",
}

impl Detail {
    /// Whether the value is signed; it is then stored as the same 64 bits.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::Priority)
    }
}

/// The properties that repeated activities share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActivityShape {
    /// Kind.
    pub kind: ActivityKind,
    /// Text id of the name.
    pub name_id: u32,
    /// Device number.
    pub device: u32,
    /// Stream; `u32::MAX` for none.
    pub stream: u32,
    /// Further properties.
    pub details: Vec<(Detail, u64)>,
}

/// An activity of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Shape id.
    pub shape_id: u32,
    /// Start time on the device.
    pub start_nanos: i64,
    /// Duration.
    pub duration_nanos: u64,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// Correlation id; 0 for none.
    pub correlation_id: u32,
    /// Thread and node id of the launch.
    pub launch: Option<(u32, u32)>,
}

pub(super) fn put_device(out: &mut Vec<u8>, device: &Device) {
    put_varint(out, u64::from(device.number));
    for text in [&device.device_type, &device.name, &device.properties] {
        put_text(out, text);
    }
}

pub(super) fn read_device(fields: &mut Fields<'_>) -> Result<Device, Malformed> {
    Ok(Device {
        number: fields.read_u32()?,
        device_type: fields.read_text()?.to_owned(),
        name: fields.read_text()?.to_owned(),
        properties: fields.read_text()?.to_owned(),
    })
}

pub(super) fn put_shapes(out: &mut Vec<u8>, shapes: &[ActivityShape]) {
    put_varint(out, shapes.len() as u64);
    for shape in shapes {
        out.push(shape.kind as u8);
        for id in [shape.name_id, shape.device, shape.stream.wrapping_add(1)] {
            put_varint(out, u64::from(id));
        }
        put_varint(out, shape.details.len() as u64);
        for (detail, value) in &shape.details {
            out.push(*detail as u8);
            put_varint(out, *value);
        }
    }
}

pub(super) fn read_shapes(fields: &mut Fields<'_>) -> Result<Vec<ActivityShape>, Malformed> {
    let count = fields.read_count(5)?;
    (0..count).map(|_| read_shape(fields)).collect()
}

fn read_shape(fields: &mut Fields<'_>) -> Result<ActivityShape, Malformed> {
    let kind = fields.read_variant(&ActivityKind::ALL, "kind of activity")?;
    let (name_id, device) = (fields.read_u32()?, fields.read_u32()?);
    let stream = fields.read_u32()?.wrapping_sub(1);
    let detail_count = fields.read_count(2)?;
    let details = (0..detail_count).map(|_| {
        let detail = fields.read_variant(&Detail::ALL, "detail of an activity")?;
        Ok((detail, fields.read_varint()?))
    });
    let details = details.collect::<Result<_, Malformed>>()?;
    Ok(ActivityShape { kind, name_id, device, stream, details })
}

/// The flags in the byte at the start of each activity. They say which fields follow.
const HAS_BYTES: u8 = 1;
const HAS_LAUNCH: u8 = 2;
/// The previous activity has the same launching thread.
const HAS_SAME_THREAD: u8 = 4;

pub(super) fn put_activities(out: &mut Vec<u8>, activities: &[Activity]) {
    put_varint(out, activities.len() as u64);
    let mut previous = NO_ACTIVITY;
    for activity in activities {
        let mut flags = 0;
        let (thread, node_id) = activity.launch.unwrap_or(previous.launch);
        if activity.bytes != 0 {
            flags |= HAS_BYTES;
        }
        if activity.launch.is_some() {
            flags |= HAS_LAUNCH;
        }
        if thread == previous.launch.0 {
            flags |= HAS_SAME_THREAD;
        }
        out.push(flags);
        put_signed(out, i64::from(activity.shape_id) - i64::from(previous.shape_id));
        put_signed(out, activity.start_nanos.wrapping_sub(previous.end_nanos));
        put_varint(out, activity.duration_nanos);
        put_signed(out, i64::from(activity.correlation_id) - i64::from(previous.correlation_id));
        if activity.bytes != 0 {
            put_varint(out, activity.bytes);
        }
        if activity.launch.is_some() {
            if thread != previous.launch.0 {
                put_varint(out, u64::from(thread));
            }
            put_signed(out, i64::from(node_id) - i64::from(previous.launch.1));
        }
        previous = PreviousActivity::new(activity, (thread, node_id));
    }
}

pub(super) fn read_activities(fields: &mut Fields<'_>) -> Result<Vec<Activity>, Malformed> {
    let count = fields.read_count(5)?;
    let mut activities = Vec::with_capacity(count);
    let mut previous = NO_ACTIVITY;
    for _ in 0..count {
        let flags = fields.read_byte()?;
        if flags & !(HAS_BYTES | HAS_LAUNCH | HAS_SAME_THREAD) != 0 {
            return Err(Malformed::InvalidValue {
                field: "flag of an activity",
                number: flags.into(),
            });
        }
        let shape_id = add_delta(previous.shape_id, fields.read_signed()?)?;
        let start_nanos = previous.end_nanos.wrapping_add(fields.read_signed()?);
        let duration_nanos = fields.read_varint()?;
        let correlation_id = add_delta(previous.correlation_id, fields.read_signed()?)?;
        let bytes = if flags & HAS_BYTES != 0 { fields.read_varint()? } else { 0 };
        let mut launch_site = previous.launch;
        if flags & HAS_LAUNCH != 0 {
            if flags & HAS_SAME_THREAD == 0 {
                launch_site.0 = fields.read_u32()?;
            }
            launch_site.1 = add_delta(launch_site.1, fields.read_signed()?)?;
        }
        let launch = (flags & HAS_LAUNCH != 0).then_some(launch_site);
        let activity =
            Activity { shape_id, start_nanos, duration_nanos, bytes, correlation_id, launch };
        previous = PreviousActivity::new(&activity, launch_site);
        activities.push(activity);
    }
    Ok(activities)
}

/// The previous activity, against which fields are delta-encoded.
struct PreviousActivity {
    shape_id: u32,
    end_nanos: i64,
    correlation_id: u32,
    launch: (u32, u32),
}

const NO_ACTIVITY: PreviousActivity =
    PreviousActivity { shape_id: 0, end_nanos: 0, correlation_id: 0, launch: (0, 0) };

impl PreviousActivity {
    const fn new(activity: &Activity, launch: (u32, u32)) -> Self {
        let end_nanos = activity.start_nanos.wrapping_add(activity.duration_nanos.cast_signed());
        Self {
            shape_id: activity.shape_id,
            end_nanos,
            correlation_id: activity.correlation_id,
            launch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_kinds_and_details_are_in_order() {
        for (number, kind) in ActivityKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        for (number, detail) in Detail::ALL.into_iter().enumerate() {
            assert_eq!(detail as usize, number);
        }
    }

    #[test]
    fn a_repeated_kernel_takes_at_most_ten_bytes() {
        let activities: Vec<_> = (0..1000)
            .map(|number| Activity {
                shape_id: 3,
                start_nanos: 1_700_000_000_000_000_000 + i64::from(number) * 9_000,
                duration_nanos: 5_000,
                bytes: 0,
                correlation_id: 70_000 + number,
                launch: Some((0, 12)),
            })
            .collect();
        let mut out = Vec::new();
        put_activities(&mut out, &activities);
        assert!(out.len() < 10 * activities.len(), "{}", out.len());
        let mut fields = Fields(&out);
        assert_eq!(read_activities(&mut fields), Ok(activities));
        assert!(fields.0.is_empty());
    }

    #[test]
    fn only_the_priority_is_signed_and_keys_are_distinct() {
        let signed: Vec<_> = Detail::ALL.into_iter().filter(|detail| detail.is_signed()).collect();
        assert_eq!(signed, [Detail::Priority]);
        let keys: Vec<_> = Detail::ALL.into_iter().filter_map(Detail::key).collect();
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!((keys.len(), distinct.len()), (31, 31));
        assert_eq!(Detail::Priority.key(), Some("priority"));
        assert_eq!(Detail::GridX.key(), None);
    }
}
