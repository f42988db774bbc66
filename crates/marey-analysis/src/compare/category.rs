//! Classifies the change of an operation or kernel between two runs: added, removed, increased,
//! decreased or unchanged within a tolerance.

/// The change of an operation or a kernel between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeCategory {
    /// Only the run after has the operation.
    Added,
    /// Only the run before has the operation.
    Removed,
    /// The value of the run after is larger.
    Increased,
    /// The value of the run after is smaller.
    Decreased,
    /// The values are the same within the tolerance.
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

impl ChangeCategory {
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
        let category = |before: f64, after: f64| {
            ChangeCategory::from_change(Some(before), Some(after), tolerance)
        };
        assert_eq!(category(1_000.0, 1_100.0), ChangeCategory::Unchanged);
        assert_eq!(category(1_000.0, 1_111.0), ChangeCategory::Unchanged);
        assert_eq!(category(1_000.0, 1_112.0), ChangeCategory::Increased);
        assert_eq!(category(1_112.0, 1_000.0), ChangeCategory::Decreased);
        assert_eq!(category(900.0, 1_000.0), ChangeCategory::Unchanged);
        assert_eq!(category(1_000.0, 900.0), ChangeCategory::Unchanged);
        assert_eq!(category(10.0, 60.0), ChangeCategory::Unchanged);
        assert_eq!(category(60.0, 10.0), ChangeCategory::Unchanged);
        assert_eq!(category(10.0, 61.0), ChangeCategory::Increased);
        assert_eq!(ChangeCategory::from_change(None, Some(0.0), tolerance), ChangeCategory::Added);
        assert_eq!(
            ChangeCategory::from_change(Some(0.0), None, tolerance),
            ChangeCategory::Removed
        );
    }
}
