//! Confidence intervals for the difference between two samples.
//!
//! The method is the percentile bootstrap (Efron 1979). Both samples are drawn anew many times,
//! with replacement. The change is computed for each draw, and the middle 95 % of the results are
//! the interval. This implementation departs from the textbook in three ways, to suit training
//! steps:
//!
//! - **Steps are drawn in blocks of neighbours.** A step resembles the one before it (caches,
//!   throttled clocks, a loader that falls behind), so steps drawn one by one would look more
//!   certain than they are. Blocks have n^(1/3) steps (Künsch 1989; the order is from Hall,
//!   Horowitz and Jing 1995) and wrap around from the last step to the first, so that every step is
//!   drawn equally often (Politis and Romano 1992).
//! - **Few blocks widen the interval**: the percentile is the one that Student's t gives for that
//!   number of blocks (Hesterberg, "What Teachers Should Know About the Bootstrap", 2015, expanded
//!   percentiles).
//! - **The random numbers are seeded by the sample**, so a sample is drawn the same way on either
//!   side: results are repeatable, two equal samples do not differ, and swapping the sides mirrors
//!   the interval.
//!
//! Measured coverage of the 95 % interval on simulated pairs without a difference: independent
//! steps, normal or log-normal, 94 to 99 %; steps with a correlation of 0.5 to the next, 90 to 96 %
//! from 10 steps on, where blocks of one step reach 68 to 90 %. For the mean of 5 correlated steps
//! it is 81 %: no method can infer from 5 steps what they do not contain.
//!
//! For 10,000 steps a mean takes milliseconds and a percentile a tenth of a second. For more than
//! 20,000 steps fewer resamples are drawn, but at least 400, so that a million steps take seconds.

use super::blocks::BlockSampler;
use super::describe::Stat;

/// Number of resamples.
pub const RESAMPLES: usize = 2_000;
/// Most values that are drawn in total, [`RESAMPLES`] × 20,000. Longer samples are drawn less
/// often.
const MAX_DRAWS: usize = 40_000_000;
/// Lowest number of resamples, enough to locate 2.5 % at either end.
const MIN_RESAMPLES: usize = 400;

/// A range that contains a value in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies within the range, ends included.
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Two samples with the parameters of their resampling.
pub struct Bootstrap {
    before: BlockSampler,
    after: BlockSampler,
    resample_count: usize,
    /// Number of changes that are cut off at either end.
    cut_off_count: usize,
}

impl Bootstrap {
    /// Prepares two samples, each in the order of measurement.
    pub fn new(before: &[f64], after: &[f64]) -> Self {
        let longest_sample = before.len().max(after.len()).max(1);
        let resample_count = (MAX_DRAWS / longest_sample).clamp(MIN_RESAMPLES, RESAMPLES);
        let smaller_block_count = block_count(before.len()).min(block_count(after.len()));
        Self {
            before: BlockSampler::new(before, block_length(before.len())),
            after: BlockSampler::new(after, block_length(after.len())),
            resample_count,
            cut_off_count: (cut_off_share(smaller_block_count) * resample_count as f64) as usize,
        }
    }

    /// Returns the statistic of both samples for each resample.
    pub fn resample(&self, stat: Stat) -> Resamples {
        let before = self.before.resample(stat, self.resample_count);
        let after = self.after.resample(stat, self.resample_count);
        Resamples {
            pairs: before.into_iter().zip(after).collect(),
            cut_off_count: self.cut_off_count,
        }
    }
}

/// A statistic of two samples for many resamples.
pub struct Resamples {
    /// The statistic before and after.
    pairs: Vec<(f64, f64)>,
    cut_off_count: usize,
}

impl Resamples {
    /// Returns the range that contains `change(before, after)` in 95 of 100 cases. `None` if a
    /// sample is empty or a change is not a number.
    pub fn interval(&self, change: impl Fn(f64, f64) -> f64) -> Option<Interval> {
        let changes = self.pairs.iter().map(|&(before, after)| change(before, after));
        let mut changes: Vec<f64> = changes.collect();
        if changes.is_empty() || changes.iter().any(|change| change.is_nan()) {
            return None;
        }
        // The ends are two elements, equally far from the ends of the list and not interpolated, so
        // that swapping the sides mirrors the interval.
        changes.sort_unstable_by(f64::total_cmp);
        let last_index = changes.len() - 1;
        Some(Interval {
            low: changes[self.cut_off_count],
            high: changes[last_index - self.cut_off_count],
        })
    }
}

fn block_length(step_count: usize) -> usize {
    (step_count as f64).cbrt().round().max(1.0) as usize
}

fn block_count(step_count: usize) -> usize {
    step_count.div_ceil(block_length(step_count))
}

/// Returns the share of resamples to cut off at each end: 2.5 %, or less if there are few blocks.
fn cut_off_share(block_count: usize) -> f64 {
    if block_count < 2 {
        return 0.0;
    }
    let block_count = block_count as f64;
    normal_cdf(-(block_count / (block_count - 1.0)).sqrt() * student_t(block_count - 1.0))
}

/// Returns the 97.5th percentile of Student's t by Abramowitz and Stegun 26.7.5. For three blocks
/// it is 3 % too low, but then no resample is cut off anyway.
fn student_t(degrees_of_freedom: f64) -> f64 {
    let normal = 1.959_963_985_f64;
    let normal_squared = normal * normal;
    let first_order = normal * (normal_squared + 1.0) / 4.0;
    let second_order = normal * ((5.0 * normal_squared + 16.0) * normal_squared + 3.0) / 96.0;
    let third_order = normal
        * (((3.0 * normal_squared + 19.0) * normal_squared + 17.0) * normal_squared - 15.0)
        / 384.0;
    normal
        + (first_order + (second_order + third_order / degrees_of_freedom) / degrees_of_freedom)
            / degrees_of_freedom
}

/// Returns the cumulative normal distribution for a value of at most 0, by Abramowitz and Stegun
/// 7.1.26. The result is accurate to 1.5e-7.
fn normal_cdf(value: f64) -> f64 {
    let scaled_distance = -value / std::f64::consts::SQRT_2;
    let scaled_reciprocal = 1.0 / (1.0 + 0.327_591_1 * scaled_distance);
    let coefficients =
        [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = coefficients.iter().fold(0.0, |sum, term| (sum + term) * scaled_reciprocal);
    0.5 * sum * (-scaled_distance * scaled_distance).exp()
}

#[cfg(test)]
mod tests {
    use super::super::split_mix::SplitMix64;
    use super::*;

    /// Normally distributed steps of 100 ± 5, each correlated with the one before by `correlation`.
    fn steps(random: &mut SplitMix64, count: usize, correlation: f64) -> Vec<f64> {
        let mut uniform = || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut normal =
            || (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let mut deviation = normal();
        let fresh = (1.0 - correlation * correlation).sqrt();
        let step = |_| {
            deviation = correlation * deviation + fresh * normal();
            100.0 + 5.0 * deviation
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn the_interval_contains_the_true_change_in_95_of_100_cases() {
        let mut random = SplitMix64::new(7);
        // The true change is -5 %: the same steps times 0.95.
        for (correlation, min_share) in [(0.0, 0.92), (0.5, 0.86)] {
            for (count, stat) in [(10, Stat::Mean), (20, Stat::Percentile(50)), (60, Stat::Mean)] {
                let trials = 200;
                let contains_the_true_change = |_: &usize| {
                    let before = steps(&mut random, count, correlation);
                    let after = steps(&mut random, count, correlation);
                    let after: Vec<f64> = after.iter().map(|step| step * 0.95).collect();
                    let bootstrap = Bootstrap::new(&before, &after);
                    let interval =
                        bootstrap.resample(stat).interval(|before, after| after / before - 1.0);
                    interval.unwrap().contains(-0.05)
                };
                let share =
                    (0..trials).filter(contains_the_true_change).count() as f64 / trials as f64;
                assert!(share >= min_share, "{count} {stat} {correlation}: {share}");
                assert!(correlation > 0.0 || share < 1.0, "{count} {stat}: intervals too wide");
            }
        }
    }

    #[test]
    fn cut_off_shares_match_students_t() {
        // scipy.stats: norm.cdf(-sqrt(n / (n - 1)) * t.ppf(0.975, n - 1))
        for (blocks, expected) in [(5, 0.000_954_1), (10, 0.008_551), (50, 0.021_179)] {
            let found = cut_off_share(blocks);
            assert!((found / expected - 1.0).abs() < 0.03, "{blocks}: {found}");
        }
        assert_eq!(cut_off_share(1), 0.0);
    }

    #[test]
    fn percentiles_of_students_t_are_those_of_the_expansion() {
        // scipy.stats: t.ppf(0.975, 10); the expansion ends with the third power.
        assert!((student_t(10.0) - (2.228_138_9 - 0.000_167_0)).abs() < 1e-6);
    }

    #[test]
    fn equal_samples_are_resampled_equally() {
        let mut random = SplitMix64::new(1);
        let (a, b) = (steps(&mut random, 30, 0.0), steps(&mut random, 40, 0.0));
        let difference = |before: f64, after: f64| after - before;
        for stat in [Stat::Mean, Stat::Percentile(50), Stat::Percentile(90)] {
            let interval =
                |a: &[f64], b: &[f64]| Bootstrap::new(a, b).resample(stat).interval(difference);
            assert_eq!(interval(&a, &a), Some(Interval { low: 0.0, high: 0.0 }));
            let (forward, backward) = (interval(&a, &b).unwrap(), interval(&b, &a).unwrap());
            assert_eq!((forward.low, forward.high), (-backward.high, -backward.low));
        }
        // Another sample is resampled differently, even a proportional one.
        let longer_steps: Vec<f64> = a.iter().map(|step| step * 1.1).collect();
        let width =
            Bootstrap::new(&a, &longer_steps).resample(Stat::Mean).interval(|a, b| b / a).unwrap();
        assert!(width.high - width.low > 0.01);
        assert_eq!(Bootstrap::new(&a, &[]).resample(Stat::Mean).interval(difference), None);
    }

    #[test]
    fn long_samples_are_drawn_less_often() {
        for (step_count, expected) in [(0, 2_000), (20_000, 2_000), (40_000, 1_000), (200_000, 400)]
        {
            let bootstrap = Bootstrap::new(&vec![1.0; step_count], &[1.0]);
            assert_eq!(bootstrap.resample_count, expected, "{step_count}");
        }
    }

    #[test]
    fn ten_thousand_steps_take_a_moment() {
        let mut random = SplitMix64::new(3);
        let (a, b) = (steps(&mut random, 10_000, 0.5), steps(&mut random, 10_000, 0.5));
        let start = std::time::Instant::now();
        let bootstrap = Bootstrap::new(&a, &b);
        for stat in [Stat::Mean, Stat::Percentile(50), Stat::Percentile(90)] {
            assert!(bootstrap.resample(stat).interval(|a, b| b / a).is_some());
        }
        println!("three statistics of 10,000 steps: {:?}", start.elapsed());
    }
}
