//! Reads and writes Perfetto traces, which are a sequence of protobuf packets.
//!
//! The format has no fields for some columns of a run. These are written on the event as a
//! dictionary of debug annotations with the name [`EXTRAS_NAME`]. Other programs show them as
//! arguments. Files of other programs have no such extras, so their tracks decide the kind of a
//! row. Slices of threads are spans, and other slices are asynchronous spans.

mod message;
mod packets;
mod read;
mod write;

pub(crate) use self::read::read;
pub(crate) use self::write::write;

/// The name of the annotation with the columns that the format has no field for.
const EXTRAS_NAME: &str = "marey";

/// The description of counters that repeat data of other events in the file.
const DERIVED_DESCRIPTION: &str = "marey: follows from the events of the allocator";

/// The prefix of the process label with the rank. Perfetto shows labels next to process names.
const RANK_LABEL_PREFIX: &str = "rank ";
/// The prefix of the process label with the host.
const HOST_LABEL_PREFIX: &str = "host ";
/// The prefix of the process label with the id in the operating system, if the file uses another
/// one.
const PID_LABEL_PREFIX: &str = "pid ";
/// The prefix of the description of a thread track with the id in the operating system, if the file
/// uses another one.
const TID_DESCRIPTION_PREFIX: &str = "tid ";

/// The id in the operating system of the thread that owns the counters of its process.
const NO_THREAD: i64 = -1;

/// Returns the id of the flow from a launch to its activities, from the correlation id and the
/// process id in the file. Flow ids are global in a trace, so all 64 bits are mixed.
fn launch_flow_id(pid: i32, correlation_id: u64) -> u64 {
    mix_bits(mix_bits(u64::from(pid.cast_unsigned())) ^ correlation_id)
}

/// Mixes the bits of a number by the output function of `SplitMix64` (Steele, Lea and Flood, 2014),
/// a bijection without visible pattern.
fn mix_bits(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
