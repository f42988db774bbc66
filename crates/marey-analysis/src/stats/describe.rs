//! Descriptive statistics: mean, percentiles and deviations.

use std::fmt;

/// A statistic over steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stat {
    /// The arithmetic mean.
    Mean,
    /// The percentile with this number, 1 to 99.
    Percentile(u8),
}

impl Stat {
    /// Returns the statistic with this name: `mean`, `median`, or `p1` to `p99`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "mean" => Some(Self::Mean),
            "median" => Some(Self::Percentile(50)),
            _ => {
                let digits =
                    name.strip_prefix('p').filter(|digits| !digits.starts_with(['0', '+']));
                let percent = digits?.parse().ok()?;
                (1..=99).contains(&percent).then_some(Self::Percentile(percent))
            }
        }
    }

    /// Returns the statistic of a sample, or `None` for an empty one.
    pub fn compute(self, sample: &[f64]) -> Option<f64> {
        match self {
            Self::Mean => mean(sample),
            Self::Percentile(percent) => percentile(sample, f64::from(percent)),
        }
    }

    /// Returns the number of steps that the interval of this statistic needs: `min_steps`, and for
    /// a percentile enough to leave one step beyond it (10 for p90, 100 for p99). With fewer steps,
    /// the percentile lies beyond the second-last step, and resampling cannot estimate its
    /// variation.
    pub fn steps_needed(self, min_steps: usize) -> usize {
        match self {
            Self::Mean => min_steps,
            Self::Percentile(percent) => {
                let beyond = usize::from(percent.min(100 - percent)).max(1);
                min_steps.max(100_usize.div_ceil(beyond))
            }
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Percentile(percent) => write!(f, "p{percent}"),
        }
    }
}

/// Returns the arithmetic mean, or `None` for an empty sample.
pub fn mean(sample: &[f64]) -> Option<f64> {
    (!sample.is_empty()).then(|| sample.iter().sum::<f64>() / sample.len() as f64)
}

/// Returns the value at or below which `percent` (0 to 100) of the sample lie, interpolated
/// linearly between two values. This is definition 7 of Hyndman and Fan, "Sample Quantiles in
/// Statistical Packages", The American Statistician 50 (1996), as in `numpy.percentile` and
/// `percentile_cont`. `None` for an empty sample.
pub fn percentile(sample: &[f64], percent: f64) -> Option<f64> {
    let mut values = sample.to_vec();
    let PercentilePosition { low, fraction } =
        PercentilePosition::from_percent(percent, values.len())?;
    let (_, &mut value, values_above) = values.select_nth_unstable_by(low, f64::total_cmp);
    let next_value = values_above.iter().copied().min_by(f64::total_cmp).unwrap_or(value);
    Some(interpolate(value, next_value, fraction))
}

/// Returns the 50th percentile, or `None` for an empty sample.
pub fn median(sample: &[f64]) -> Option<f64> {
    percentile(sample, 50.0)
}

/// Returns the median absolute deviation from the median. It is unscaled: multiplied by 1.4826 it
/// estimates the standard deviation of a normal distribution. `None` for an empty sample.
pub fn mad(sample: &[f64]) -> Option<f64> {
    let median_value = median(sample)?;
    median(&sample.iter().map(|value| (value - median_value).abs()).collect::<Vec<_>>())
}

/// The position of a percentile among sorted values.
#[derive(Clone, Copy)]
pub(super) struct PercentilePosition {
    /// The index of the value at or below the percentile.
    pub(super) low: usize,
    /// The fraction of the way from that value to the next, 0 to 1.
    pub(super) fraction: f64,
}

impl PercentilePosition {
    pub(super) fn from_percent(percent: f64, count: usize) -> Option<Self> {
        let position = count.checked_sub(1)? as f64 * (percent.clamp(0.0, 100.0) / 100.0);
        Some(Self { low: position as usize, fraction: position.fract() })
    }
}

/// Returns the linear interpolation. It is exact if `fraction` is 0 and if both ends are equal,
/// even if they are infinite.
pub(super) fn interpolate(low: f64, high: f64, fraction: f64) -> f64 {
    if fraction == 0.0 || low.total_cmp(&high).is_eq() {
        low
    } else {
        low + (high - low) * fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_match_numpy() {
        let sample = [4.0, 1.0, 3.0, 2.0];
        for (percent, expected) in
            [(0.0, 1.0), (25.0, 1.75), (50.0, 2.5), (90.0, 3.7), (100.0, 4.0)]
        {
            let found = percentile(&sample, percent).unwrap();
            assert!((found - expected).abs() < 1e-12, "{percent}: {found}");
        }
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn the_mad_is_taken_from_the_median() {
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
        assert_eq!(mad(&[5.0]), Some(0.0));
        assert_eq!((mad(&[]), mean(&[])), (None, None));
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
    }

    #[test]
    fn statistics_parse_and_need_a_number_of_steps() {
        assert_eq!(Stat::parse("median"), Some(Stat::Percentile(50)));
        assert_eq!(Stat::parse("p99").map(|stat| stat.to_string()).as_deref(), Some("p99"));
        for bad in ["p0", "p100", "p", "p050", "p+5", "max", "P50", "p9.5"] {
            assert_eq!(Stat::parse(bad), None, "{bad}");
        }
        let needed = |stat: Stat| stat.steps_needed(5);
        assert_eq!(needed(Stat::Mean), 5);
        assert_eq!(needed(Stat::Percentile(50)), 5);
        assert_eq!(needed(Stat::Percentile(90)), 10);
        assert_eq!(needed(Stat::Percentile(1)), 100);
    }

    #[test]
    fn infinite_ends_are_kept() {
        assert_eq!(interpolate(1.0, f64::INFINITY, 0.0), 1.0);
        assert_eq!(interpolate(f64::INFINITY, f64::INFINITY, 0.5), f64::INFINITY);
    }
}
