//! Recognises the packets and fields that an import leaves out, so that they are counted as losses.

use marey_model::loss::LossCause;

use crate::perfetto::message::TrackEvent;
use crate::shared::protobuf::{Field, Fields};

/// The number of `TracePacket.track_event`.
const TRACK_EVENT: u64 = 11;

/// The fields of packets that are read.
const SUPPORTED_FIELDS: [u64; 16] =
    [6, 8, 10, TRACK_EVENT, 12, 13, 41, 42, 43, 44, 50, 54, 58, 59, 60, 66];

/// The fields that describe the recording of the trace and have no events: the writer's user,
/// process and machine, the configuration, statistics, markers, schemas of extensions.
const METADATA_FIELDS: [u64; 18] =
    [3, 33, 34, 35, 36, 45, 67, 69, 72, 78, 79, 87, 89, 98, 107, 124, 126, 138];

/// The names of frequent types of packets, by field number.
const PACKET_NAMES: [(u64, &str); 29] = [
    (1, "ftrace_events"),
    (2, "process_tree"),
    (4, "inode_file_map"),
    (5, "chrome_events"),
    (7, "sys_stats"),
    (9, "process_stats"),
    (37, "profile_packet"),
    (38, "battery"),
    (39, "android_log"),
    (40, "power_rails"),
    (46, "trigger"),
    (47, "packages_list"),
    (48, "chrome_benchmark_metadata"),
    (49, "perfetto_metatrace"),
    (51, "chrome_metadata"),
    (52, "gpu_counter_event"),
    (53, "gpu_render_stage_event"),
    (56, "heap_graph"),
    (57, "graphics_frame_event"),
    (61, "module_symbols"),
    (62, "vulkan_memory_event"),
    (63, "gpu_log"),
    (65, "vulkan_api_event"),
    (68, "smaps_packet"),
    (71, "gpu_mem_total_event"),
    (73, "memory_tracker_snapshot"),
    (90, "track_event_range_of_interest"),
    (95, "etw_events"),
    (133, "zstd_compressed_packets"),
];

/// Returns the losses in a packet with their causes.
pub(super) fn losses(packet: &[u8]) -> impl Iterator<Item = (LossCause, String)> {
    valid_fields(packet).filter_map(|Field { number, value, .. }| {
        let cause = match number {
            TRACK_EVENT => {
                let unknown = valid_fields(value)
                    .find(|field| !TrackEvent::FIELDS.contains(&field.number))?;
                format!("field {} of an event", unknown.number)
            }
            _ if SUPPORTED_FIELDS.contains(&number) || METADATA_FIELDS.contains(&number) => {
                return None;
            }
            _ => match PACKET_NAMES.iter().find(|(known, _)| *known == number) {
                Some((_, name)) => format!("a packet of {name}"),
                None => format!("a packet of field {number}"),
            },
        };
        Some((LossCause::Unsupported, cause))
    })
}

fn valid_fields(message: &[u8]) -> impl Iterator<Item = Field<'_>> {
    Fields::new(message).map_while(Result::ok)
}
