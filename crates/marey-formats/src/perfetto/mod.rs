//! Traces of Perfetto: protobuf packets, one after the other.
//!
//! What a run knows and the format has no field for is a dictionary of debug annotations named
//! [`MARKS`] on the event that it is of; other programs show it as arguments. Files of other programs
//! have none and are read as what their tracks say: slices of threads are spans, other slices async
//! spans.

mod message;
mod packets;
mod read;
mod write;

pub(crate) use self::read::read;
pub(crate) use self::write::write;

/// Name of the annotation that holds what the format has no field for.
const MARKS: &str = "marey";

/// Description of counters that follow from other events of the file.
const DERIVED: &str = "marey: follows from the events of the allocator";

/// Labels of processes, as Perfetto shows them beside their names.
const RANK_LABEL: &str = "rank ";
/// The same, with a host.
const HOST_LABEL: &str = "host ";
/// The same, with the id in the system, where the file must use another one.
const PID_LABEL: &str = "pid ";
/// Description of a thread's track, with the id in the system, where the file must use another one.
const TID_LABEL: &str = "tid ";

/// Id in the system of the thread that has the counters of its process.
const NO_THREAD: i64 = -1;

/// The flow from the launch with a correlation id, in the process with a pid of the file, to what it
/// launched. Flows are numbered over the whole trace, so the number is spread over all of 64 bits.
fn launch_flow(pid: i32, correlation: u64) -> u64 {
    spread(spread(u64::from(pid.cast_unsigned())) ^ correlation)
}

/// The output function of `SplitMix64` (Steele, Lea and Flood, 2014): one to one, and without pattern.
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
