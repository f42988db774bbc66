//! Things with numbers of their own.

/// Things that come in runs of consecutive numbers. Most of them make one run.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    /// First number and things of each run, in the order of their numbers.
    runs: Vec<(u32, Vec<T>)>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

impl<T: Copy> Numbered<T> {
    /// Adds things with the numbers `first`, `first + 1`, and so on, none of which is there.
    pub(super) fn extend(&mut self, first: u32, things: impl Iterator<Item = T>) {
        let after = self.runs.partition_point(|(number, _)| *number <= first);
        match after.checked_sub(1).and_then(|before| self.runs.get_mut(before)) {
            Some((number, run)) if *number as usize + run.len() == first as usize => {
                run.extend(things);
            }
            _ => self.runs.insert(after, (first, things.collect())),
        }
    }

    /// The thing with this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<T> {
        let after = self.runs.partition_point(|(first, _)| *first <= number);
        let (first, run) = self.runs.get(after.checked_sub(1)?)?;
        run.get((number - first) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_whatever_order_they_came() {
        let mut things = Numbered::default();
        things.extend(10, ["ten"].into_iter());
        things.extend(2, ["two", "three"].into_iter());
        things.extend(11, ["eleven"].into_iter());
        things.extend(4, ["four"].into_iter());
        assert_eq!([2, 3, 4].map(|n| things.get(n)), [Some("two"), Some("three"), Some("four")]);
        assert_eq!([10, 11].map(|n| things.get(n)), [Some("ten"), Some("eleven")]);
        assert_eq!([1, 5, 9, 12, u32::MAX].map(|n| things.get(n)), [None; 5]);
        assert_eq!(things.runs.len(), 2);
    }
}
