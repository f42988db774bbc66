//! Resamples of a sample, drawn in blocks.

use super::describe::{Rank, Stat, between};
use super::split_mix::{SplitMix64, mixed};

/// Number of ranges that ranks are counted in.
const RANGES: usize = 256;

/// A sample as a ring, from which blocks of neighbours are drawn.
pub(super) struct Blocks {
    /// Prefix sums of the values, twice around the ring.
    sums: Vec<f64>,
    /// The rank of each value, twice around the ring.
    ranks: Vec<u32>,
    sorted: Vec<f64>,
    /// Values in a block.
    length: usize,
    seed: u64,
}

impl Blocks {
    pub(super) fn new(sample: &[f64], length: usize) -> Self {
        let mut order: Vec<u32> = (0..sample.len() as u32).collect();
        order.sort_by(|&a, &b| sample[a as usize].total_cmp(&sample[b as usize]));
        let mut ranks = vec![0; sample.len()];
        for (rank, &index) in order.iter().enumerate() {
            ranks[index as usize] = rank as u32;
        }
        ranks.extend_from_within(..);
        // Relative to the lowest value, so that resamples of a constant sample are exactly
        // constant.
        let least = order.first().map_or(0.0, |&index| sample[index as usize]);
        let mut sum = 0.0;
        let running = sample.iter().chain(sample).map(|value| {
            sum += value - least;
            sum
        });
        let sums = std::iter::once(0.0).chain(running).collect();
        let sorted = order.iter().map(|&index| sample[index as usize]).collect();
        let seed = sample.iter().fold(0, |seed, value| mixed(seed ^ value.to_bits()));
        Self { sums, ranks, sorted, length: length.clamp(1, sample.len().max(1)), seed }
    }

    /// The statistic of each of `count` resamples; empty for an empty sample. The draws do not
    /// depend on the statistic.
    pub(super) fn resampled(&self, stat: Stat, count: usize) -> Vec<f64> {
        if self.sorted.is_empty() {
            return Vec::new();
        }
        let mut numbers = SplitMix64::new(self.seed);
        match stat {
            Stat::Mean => (0..count).map(|_| self.mean(&mut numbers)).collect(),
            Stat::Percentile(percent) => {
                let Some(rank) = Rank::of(f64::from(percent), self.sorted.len()) else {
                    return Vec::new();
                };
                let mut buffers = Buffers::default();
                (0..count).map(|_| self.percentile(rank, &mut numbers, &mut buffers)).collect()
            }
        }
    }

    /// The ranges of the blocks of a resample; the last one is shortened to fit.
    fn cuts(&self, numbers: &mut SplitMix64) -> impl Iterator<Item = (usize, usize)> {
        let count = self.sorted.len();
        (0..count).step_by(self.length).map(move |done| {
            let start = numbers.below(count);
            (start, start + self.length.min(count - done))
        })
    }

    fn mean(&self, numbers: &mut SplitMix64) -> f64 {
        let above: f64 = self.cuts(numbers).map(|(from, to)| self.sums[to] - self.sums[from]).sum();
        self.sorted[0] + above / self.sorted.len() as f64
    }

    /// Counts ranks by range, and selects only within the range that contains the percentile: about
    /// half the time of a selection among all values.
    fn percentile(&self, wanted: Rank, numbers: &mut SplitMix64, buffers: &mut Buffers) -> f64 {
        let Buffers { cuts, ranks } = buffers;
        cuts.clear();
        cuts.extend(self.cuts(numbers));
        let drawn = || cuts.iter().flat_map(|&(from, to)| &self.ranks[from..to]).copied();
        let width = (self.sorted.len() as u32).div_ceil(RANGES as u32).next_power_of_two().ilog2();
        let mut counts = [0_usize; RANGES];
        drawn().for_each(|rank| counts[(rank >> width) as usize] += 1);
        let (mut range, mut below) = (0, 0);
        while below + counts[range] <= wanted.low {
            below += counts[range];
            range += 1;
        }
        ranks.clear();
        ranks.extend(drawn().filter(|rank| (rank >> width) as usize == range));
        let (_, &mut rank, above) = ranks.select_nth_unstable(wanted.low - below);
        let next = above.iter().copied().min().or_else(|| {
            let is_above = |rank: &u32| (rank >> width) as usize > range;
            drawn().filter(is_above).min()
        });
        let next = next.unwrap_or(rank);
        between(self.sorted[rank as usize], self.sorted[next as usize], wanted.part)
    }
}

/// Buffers that resamples share, so that only the first one allocates.
#[derive(Default)]
struct Buffers {
    cuts: Vec<(usize, usize)>,
    ranks: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::percentile;

    #[test]
    fn percentiles_of_resamples_equal_percentiles_of_their_values() {
        // Many equal values, so that adjacent ranks have the same value.
        for count in [1, 2, 7, 300, 5_000] {
            let sample: Vec<f64> = (0..count).map(|index| f64::from(index * 37 % 91)).collect();
            let blocks = Blocks::new(&sample, 3);
            let (mut numbers, mut again) = (SplitMix64::new(5), SplitMix64::new(5));
            let mut buffers = Buffers::default();
            for percent in [1.0, 50.0, 90.0, 99.0, 50.0] {
                let rank = Rank::of(percent, sample.len()).unwrap();
                let found = blocks.percentile(rank, &mut numbers, &mut buffers);
                let drawn: Vec<f64> = blocks
                    .cuts(&mut again)
                    .flat_map(|(from, to)| from..to)
                    .map(|index| sample[index % sample.len()])
                    .collect();
                assert_eq!(drawn.len(), sample.len());
                assert_eq!(Some(found), percentile(&drawn, percent), "{count} {percent}");
            }
        }
    }

    #[test]
    fn a_block_as_long_as_the_sample_reproduces_the_sample() {
        let ring = Blocks::new(&[3.0, 1.0, 2.0, 8.0], 4);
        for (stat, expected) in [(Stat::Percentile(50), 2.5), (Stat::Mean, 3.5)] {
            assert_eq!(ring.resampled(stat, 50), [expected; 50]);
        }
        assert!(Blocks::new(&[], 1).resampled(Stat::Mean, 9).is_empty());
    }
}
