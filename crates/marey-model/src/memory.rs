//! Names of the metrics in which a recorder stores readings of memory.
//!
//! A reading is the totals of one memory at one time: of the allocator of a device, such as
//! `cuda:0`, or of the process on the host ([`HOST`]). Its value is the vector of
//! [`READING_LENGTH`] integers `[allocated, peak, reserved]` in bytes, -1 if unknown. Beside it, the
//! change since the previous reading is added to the context node, so that a profile has the growth
//! of each scope. The collection turns readings of a trace into `memory_events`.

/// The memory of the process on the host.
pub const HOST: &str = "host";

/// Number of integers of a reading.
pub const READING_LENGTH: usize = 3;

const READING: &str = "memory ";
const GROWTH: &str = "memory_growth ";
const UNIT: &str = " (bytes)";

/// Returns the name under which the readings of a memory are recorded: a property.
pub fn reading_name(memory: &str) -> String {
    format!("{READING}{memory}{UNIT}(pty)")
}

/// Returns the name under which the growth of a memory is recorded: a sum.
pub fn growth_name(memory: &str) -> String {
    format!("{GROWTH}{memory}{UNIT}")
}

/// Returns the kind and number of the device whose readings have this key; `None` if the key is
/// that of another metric.
///
/// ```
/// use marey_model::memory::memory_of;
///
/// assert_eq!(memory_of("memory cuda:1 (bytes)"), Some(("cuda", Some(1))));
/// assert_eq!(memory_of("memory host (bytes)"), Some(("host", None)));
/// assert_eq!(memory_of("memory_growth host (bytes)"), None);
/// ```
pub fn memory_of(key: &str) -> Option<(&str, Option<u32>)> {
    let memory = key.strip_prefix(READING)?.strip_suffix(UNIT)?;
    match memory.split_once(':') {
        Some((kind, number)) => Some((kind, Some(number.parse().ok()?))),
        None => Some((memory, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Aggregation, MetricName};

    #[test]
    fn a_reading_is_found_by_its_key() {
        for (memory, device) in [("cuda:12", ("cuda", Some(12))), (HOST, (HOST, None))] {
            let name = MetricName::parse(&reading_name(memory));
            assert_eq!(name.aggregation(), Aggregation::Property);
            assert_eq!(memory_of(name.key()), Some(device));
            let growth = MetricName::parse(&growth_name(memory));
            assert_eq!(growth.aggregation(), Aggregation::Inclusive);
            assert_eq!(memory_of(growth.key()), None);
        }
        for key in ["memory", "memory (bytes)", "memory cuda:x (bytes)", "host_memory (bytes)"] {
            assert_eq!(memory_of(key), None, "{key}");
        }
    }
}
