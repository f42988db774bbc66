//! The units in which thresholds may be written, with their factors.

use crate::metric::Unit;

const TIME_UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];

const SIZE_UNITS: [(&str, f64); 9] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

const SHARE_UNITS: [(&str, f64); 2] = [("", 1.0), ("%", 1.0)];
const PERCENTAGE_POINT_UNITS: [(&str, f64); 1] = [("pp", 1.0)];
const COUNT_UNITS: [(&str, f64); 1] = [("", 1.0)];

/// Returns the units in which a threshold of a metric may be written, with their factors. A change
/// of a percentage is in percentage points (`pp`), because `%` would be relative to the value
/// before.
pub(super) const fn units(unit: Unit, is_change: bool) -> &'static [(&'static str, f64)] {
    match unit {
        Unit::Nanos => &TIME_UNITS,
        Unit::Bytes | Unit::BytesPerStep => &SIZE_UNITS,
        Unit::Percent if is_change => &PERCENTAGE_POINT_UNITS,
        Unit::Percent => &SHARE_UNITS,
        Unit::Count | Unit::Flag => &COUNT_UNITS,
    }
}
