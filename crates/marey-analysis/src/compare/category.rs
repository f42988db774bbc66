//! What became of something.

/// What became of an operation or a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Only the run after has it.
    Added,
    /// Only the run before has it.
    Removed,
    /// There is more of it after.
    Increased,
    /// There is less of it after.
    Decreased,
    /// There is as much of it.
    Unchanged,
}

/// How much a time per step may differ and still be the same. A change within either is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In per cent of the longer of both times.
    pub percent: f64,
    /// In nanoseconds.
    pub nanos: f64,
}

impl Default for Tolerance {
    /// 5 %, which single operations vary by from run to run, and 1 µs, the resolution of older traces.
    fn default() -> Self {
        Self { percent: 5.0, nanos: 1_000.0 }
    }
}

impl Tolerance {
    /// For what is counted, not timed: only rounding is forgiven.
    pub(super) const ROUNDING: Self = Self { percent: 1e-7, nanos: 0.0 };
}

impl Category {
    /// What it became, given how much there was and is; `None` where it does not exist. It is the same
    /// both ways, with the words exchanged.
    pub(super) fn of(before: Option<f64>, after: Option<f64>, tolerance: Tolerance) -> Self {
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
    fn small_changes_are_none() {
        let tolerance = Tolerance { percent: 10.0, nanos: 50.0 };
        let of = |before: f64, after: f64| Category::of(Some(before), Some(after), tolerance);
        assert_eq!(of(1_000.0, 1_100.0), Category::Unchanged);
        assert_eq!(of(1_000.0, 1_111.0), Category::Unchanged);
        assert_eq!(of(1_000.0, 1_112.0), Category::Increased);
        assert_eq!(of(1_112.0, 1_000.0), Category::Decreased);
        assert_eq!(of(10.0, 60.0), Category::Unchanged);
        assert_eq!(of(10.0, 61.0), Category::Increased);
        assert_eq!(Category::of(None, Some(0.0), tolerance), Category::Added);
        assert_eq!(Category::of(Some(0.0), None, tolerance), Category::Removed);
    }
}
