//! Samples drawn anew from a sample, in blocks.

use super::describe::{Rank, Stat, between};
use super::split_mix::{SplitMix64, mixed};

/// Ranges of ranks that are counted.
const RANGES: usize = 256;

/// A sample as a ring of neighbours, from which blocks are cut.
pub(super) struct Blocks {
    /// Sums of the first so many values, twice around.
    sums: Vec<f64>,
    /// The rank of each value, twice around.
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
        for (rank, &at) in order.iter().enumerate() {
            ranks[at as usize] = rank as u32;
        }
        ranks.extend_from_within(..);
        // Off the least value, so that a sample that never varies has resamples that never do.
        let least = order.first().map_or(0.0, |&at| sample[at as usize]);
        let mut sum = 0.0;
        let running = sample.iter().chain(sample).map(|value| {
            sum += value - least;
            sum
        });
        let sums = std::iter::once(0.0).chain(running).collect();
        let sorted = order.iter().map(|&at| sample[at as usize]).collect();
        let seed = sample.iter().fold(0, |seed, value| mixed(seed ^ value.to_bits()));
        Self { sums, ranks, sorted, length: length.clamp(1, sample.len().max(1)), seed }
    }

    /// The statistic of each of so many resamples; none of an empty sample. The draws do not depend on
    /// the statistic.
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
                let mut room = Room::default();
                (0..count).map(|_| self.percentile(rank, &mut numbers, &mut room)).collect()
            }
        }
    }

    /// Where the blocks of a resample begin and end; the last is cut to fit.
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

    /// Counts ranks by their range, and looks at single ones only in the range that matters: about half
    /// the time of selecting among the values.
    fn percentile(&self, wanted: Rank, numbers: &mut SplitMix64, room: &mut Room) -> f64 {
        let Room { cuts, ranks } = room;
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

/// What a resample is put into, so that the next one needs no memory.
#[derive(Default)]
struct Room {
    cuts: Vec<(usize, usize)>,
    ranks: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::percentile;

    #[test]
    fn percentiles_of_resamples_are_those_of_their_values() {
        // Many the same, so that ranks beside each other have the same value.
        for count in [1, 2, 7, 300, 5_000] {
            let sample: Vec<f64> = (0..count).map(|at| f64::from(at * 37 % 91)).collect();
            let blocks = Blocks::new(&sample, 3);
            let (mut numbers, mut again) = (SplitMix64::new(5), SplitMix64::new(5));
            let mut room = Room::default();
            for percent in [1.0, 50.0, 90.0, 99.0, 50.0] {
                let rank = Rank::of(percent, sample.len()).unwrap();
                let found = blocks.percentile(rank, &mut numbers, &mut room);
                let drawn: Vec<f64> = blocks
                    .cuts(&mut again)
                    .flat_map(|(from, to)| from..to)
                    .map(|at| sample[at % sample.len()])
                    .collect();
                assert_eq!(drawn.len(), sample.len());
                assert_eq!(Some(found), percentile(&drawn, percent), "{count} {percent}");
            }
        }
    }

    #[test]
    fn a_block_as_long_as_the_sample_is_the_sample() {
        let ring = Blocks::new(&[3.0, 1.0, 2.0, 8.0], 4);
        for (stat, expected) in [(Stat::Percentile(50), 2.5), (Stat::Mean, 3.5)] {
            assert_eq!(ring.resampled(stat, 50), [expected; 50]);
        }
        assert!(Blocks::new(&[], 1).resampled(Stat::Mean, 9).is_empty());
    }
}
