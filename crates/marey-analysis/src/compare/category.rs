//! Classifies the change of an operation or kernel between two runs: added, removed, increased,
//! decreased or unchanged within a tolerance.

/// The change of an operation or a kernel between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Only the run after has it.
    Added,
    /// Only the run before has it.
    Removed,
    /// It is larger after.
    Increased,
    /// It is smaller after.
    Decreased,
    /// It is the same within the tolerance.
    Unchanged,
}

/// The largest difference of a time per step that counts as unchanged. It is enough that the
/// difference is within one of the two limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In per cent of the larger time.
    pub percent: f64,
    /// In nanoseconds.
    pub nanos: f64,
}

impl Default for Tolerance {
    /// 5 %, because single operations vary by as much from run to run, and 1 µs, the resolution of
    /// older traces.
    fn default() -> Self {
        Self { percent: 5.0, nanos: 1_000.0 }
    }
}

impl Tolerance {
    /// The tolerance for counts, which covers only rounding errors.
    pub(super) const ROUNDING: Self = Self { percent: 1e-7, nanos: 0.0 };
}

impl Category {
    /// Returns the category of a change. `None` stands for a side that lacks the operation. The
    /// result is symmetric: swapped sides give the opposite category.
    pub(super) fn from_change(
        before: Option<f64>,
        after: Option<f64>,
        tolerance: Tolerance,
    ) -> Self {
        let (before, after) = match (before, after) {
            (Some(before), Some(after)) => (before, after),
            (None, Some(_)) => return Self::Added,
            (Some(_), None) => return Self::Removed,
            (None, None) => return Self::Unchanged,
        };
        let allowed = tolerance.percent / 100.0 * before.abs().max(after.abs());
        let change = after - before;
        if change > allowed && change > tolerance.nanos {
            Self::Increased
        } else if -change > allowed && -change > tolerance.nanos {
            Self::Decreased
        } else {
            Self::Unchanged
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_within_either_tolerance_are_none() {
        let tolerance = Tolerance { percent: 10.0, nanos: 50.0 };
        let category =
            |before: f64, after: f64| Category::from_change(Some(before), Some(after), tolerance);
        assert_eq!(category(1_000.0, 1_100.0), Category::Unchanged);
        assert_eq!(category(1_000.0, 1_111.0), Category::Unchanged);
        assert_eq!(category(1_000.0, 1_112.0), Category::Increased);
        assert_eq!(category(1_112.0, 1_000.0), Category::Decreased);
        assert_eq!(category(900.0, 1_000.0), Category::Unchanged);
        assert_eq!(category(1_000.0, 900.0), Category::Unchanged);
        assert_eq!(category(10.0, 60.0), Category::Unchanged);
        assert_eq!(category(60.0, 10.0), Category::Unchanged);
        assert_eq!(category(10.0, 61.0), Category::Increased);
        assert_eq!(Category::from_change(None, Some(0.0), tolerance), Category::Added);
        assert_eq!(Category::from_change(Some(0.0), None, tolerance), Category::Removed);
    }
}
