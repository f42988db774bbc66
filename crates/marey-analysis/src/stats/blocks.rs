//! Draws resamples of a sample in blocks of neighbours, and computes a statistic of each, for the
//! bootstrap.

use super::describe::{Rank, Stat, interpolate};
use super::split_mix::{SplitMix64, mix};

/// Number of buckets in which ranks are counted.
const BUCKETS: usize = 256;

/// A sample as a ring, from which blocks of neighbours are drawn.
pub(super) struct Blocks {
    /// Prefix sums of the values, twice around the ring.
    sums: Vec<f64>,
    /// The rank of each value, twice around the ring.
    ranks: Vec<u32>,
    sorted: Vec<f64>,
    /// Number of values in a block.
    block_length: usize,
    seed: u64,
}

impl Blocks {
    pub(super) fn new(sample: &[f64], block_length: usize) -> Self {
        let mut order: Vec<u32> = (0..sample.len() as u32).collect();
        order.sort_by(|&a, &b| sample[a as usize].total_cmp(&sample[b as usize]));
        let mut ranks = vec![0; sample.len()];
        for (rank, &index) in order.iter().enumerate() {
            ranks[index as usize] = rank as u32;
        }
        ranks.extend_from_within(..);
        // The sums are relative to the lowest value, so that the means of a constant sample are
        // exactly constant.
        let lowest = order.first().map_or(0.0, |&index| sample[index as usize]);
        let mut sum = 0.0;
        let running = sample.iter().chain(sample).map(|value| {
            sum += value - lowest;
            sum
        });
        let sums = std::iter::once(0.0).chain(running).collect();
        let sorted = order.iter().map(|&index| sample[index as usize]).collect();
        let seed = sample.iter().fold(0, |seed, value| mix(seed ^ value.to_bits()));
        Self { sums, ranks, sorted, block_length: block_length.clamp(1, sample.len().max(1)), seed }
    }

    /// Returns the statistic of each of `count` resamples. Empty for an empty sample. The draws do
    /// not depend on the statistic.
    pub(super) fn resample(&self, stat: Stat, count: usize) -> Vec<f64> {
        if self.sorted.is_empty() {
            return Vec::new();
        }
        let mut random = SplitMix64::new(self.seed);
        match stat {
            Stat::Mean => (0..count).map(|_| self.mean(&mut random)).collect(),
            Stat::Percentile(percent) => {
                let Some(rank) = Rank::from_percent(f64::from(percent), self.sorted.len()) else {
                    return Vec::new();
                };
                let mut buffers = Buffers::default();
                (0..count).map(|_| self.percentile(rank, &mut random, &mut buffers)).collect()
            }
        }
    }

    /// Returns the ranges of the blocks of a resample. The last block is shortened to fit.
    fn block_ranges(&self, random: &mut SplitMix64) -> impl Iterator<Item = (usize, usize)> {
        let count = self.sorted.len();
        (0..count).step_by(self.block_length).map(move |done| {
            let start = random.below(count);
            (start, start + self.block_length.min(count - done))
        })
    }

    fn mean(&self, random: &mut SplitMix64) -> f64 {
        let sum_above_lowest: f64 =
            self.block_ranges(random).map(|(from, to)| self.sums[to] - self.sums[from]).sum();
        self.sorted[0] + sum_above_lowest / self.sorted.len() as f64
    }

    /// Returns the percentile of a resample. Counts the ranks in buckets, and selects only within
    /// the bucket that contains the percentile. That takes about half the time of a selection among
    /// all values.
    fn percentile(&self, target: Rank, random: &mut SplitMix64, buffers: &mut Buffers) -> f64 {
        let Buffers { block_ranges, ranks } = buffers;
        block_ranges.clear();
        block_ranges.extend(self.block_ranges(random));
        let drawn = || block_ranges.iter().flat_map(|&(from, to)| &self.ranks[from..to]).copied();
        let width = (self.sorted.len() as u32).div_ceil(BUCKETS as u32).next_power_of_two().ilog2();
        let mut counts = [0_usize; BUCKETS];
        drawn().for_each(|rank| counts[(rank >> width) as usize] += 1);
        let (mut bucket, mut below) = (0, 0);
        while below + counts[bucket] <= target.low {
            below += counts[bucket];
            bucket += 1;
        }
        ranks.clear();
        ranks.extend(drawn().filter(|rank| (rank >> width) as usize == bucket));
        let (_, &mut rank, above) = ranks.select_nth_unstable(target.low - below);
        let next = above.iter().copied().min().or_else(|| {
            let is_above = |rank: &u32| (rank >> width) as usize > bucket;
            drawn().filter(is_above).min()
        });
        let next = next.unwrap_or(rank);
        interpolate(self.sorted[rank as usize], self.sorted[next as usize], target.fraction)
    }
}

/// Buffers that resamples share, so that only the first one allocates.
#[derive(Default)]
struct Buffers {
    block_ranges: Vec<(usize, usize)>,
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
            let (mut random, mut again) = (SplitMix64::new(5), SplitMix64::new(5));
            let mut buffers = Buffers::default();
            for percent in [1.0, 50.0, 90.0, 99.0, 50.0] {
                let rank = Rank::from_percent(percent, sample.len()).unwrap();
                let resampled = blocks.percentile(rank, &mut random, &mut buffers);
                let drawn: Vec<f64> = blocks
                    .block_ranges(&mut again)
                    .flat_map(|(from, to)| from..to)
                    .map(|index| sample[index % sample.len()])
                    .collect();
                assert_eq!(drawn.len(), sample.len());
                assert_eq!(Some(resampled), percentile(&drawn, percent), "{count} {percent}");
            }
        }
    }

    #[test]
    fn a_block_as_long_as_the_sample_reproduces_the_sample() {
        let ring = Blocks::new(&[3.0, 1.0, 2.0, 8.0], 4);
        for (stat, expected) in [(Stat::Percentile(50), 2.5), (Stat::Mean, 3.5)] {
            assert_eq!(ring.resample(stat, 50), [expected; 50]);
        }
        assert!(Blocks::new(&[], 1).resample(Stat::Mean, 9).is_empty());
    }
}
