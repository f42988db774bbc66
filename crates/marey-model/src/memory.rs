//! The names of the metrics in which a recorder stores readings of memory.
//!
//! A reading is the totals of one memory at one time. The memory belongs to a device's
//! allocator, such as `cuda:0`, or to the process on the host ([`HOST`]). Its value is the vector of
//! [`READING_LENGTH`] integers `[allocated, peak, reserved]` in bytes, -1 if unknown. In addition,
//! the change since the previous reading is added to the context node, so that a profile has the
//! growth of each scope. The collection turns readings of a trace into `memory_events`.

/// The memory of the process on the host.
pub const HOST: &str = "host";

/// Number of integers of a reading.
pub const READING_LENGTH: usize = 3;

const READING: &str = "memory ";
const GROWTH: &str = "memory_growth ";
const UNIT: &str = " (bytes)";
const PROPERTY: &str = "(pty)";

/// Returns the name under which the readings of a memory are recorded. The metric is a property.
pub fn reading_name(memory: &str) -> String {
    format!("{READING}{memory}{UNIT}{PROPERTY}")
}

/// Returns the name under which the growth of a memory is recorded. The metric is a sum.
pub fn growth_name(memory: &str) -> String {
    format!("{GROWTH}{memory}{UNIT}")
}

/// Returns the kind and number of the device whose readings are recorded under this name; `None` if
/// another metric has the name.
///
/// ```
/// use marey_model::memory::{parse_reading_name, reading_name};
///
/// assert_eq!(parse_reading_name(&reading_name("cuda:1")), Some(("cuda", Some(1))));
/// assert_eq!(parse_reading_name(&reading_name("host")), Some(("host", None)));
/// assert_eq!(parse_reading_name("memory_growth host (bytes)"), None);
/// ```
pub fn parse_reading_name(name: &str) -> Option<(&str, Option<u32>)> {
    let memory = name.strip_prefix(READING)?.strip_suffix(PROPERTY)?.strip_suffix(UNIT)?;
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
    fn a_reading_is_found_by_its_name() {
        for (memory, device) in [("cuda:12", ("cuda", Some(12))), (HOST, (HOST, None))] {
            let name = reading_name(memory);
            assert_eq!(MetricName::parse(&name).aggregation(), Aggregation::Property);
            assert_eq!(parse_reading_name(&name), Some(device));
            let growth = growth_name(memory);
            assert_eq!(growth, format!("memory_growth {memory} (bytes)"));
            assert_eq!(MetricName::parse(&growth).aggregation(), Aggregation::Inclusive);
            assert_eq!(parse_reading_name(&growth), None);
        }
        let others = ["memory", "memory (bytes)(pty)", "memory cuda:x (bytes)(pty)", "memory x"];
        for name in others {
            assert_eq!(parse_reading_name(name), None, "{name}");
        }
    }
}
