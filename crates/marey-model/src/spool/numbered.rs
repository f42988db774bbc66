//! What a spool defines, by its numbers.

/// Things that come in runs of consecutive numbers, as the texts and the nodes of a spool do. Most of
/// them make one run, in which a thing is found without a search.
#[derive(Clone, Debug)]
pub struct Numbered<T> {
    /// First number and things of each run, in the order of their numbers.
    runs: Vec<(u32, Vec<T>)>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

impl<T> Numbered<T> {
    /// Adds things with the numbers `first`, `first + 1`, and so on, none of which is there.
    pub fn extend(&mut self, first: u32, things: impl IntoIterator<Item = T>) {
        let after = self.runs.partition_point(|(number, _)| *number <= first);
        match after.checked_sub(1).and_then(|before| self.runs.get_mut(before)) {
            Some((number, run)) if *number as usize + run.len() == first as usize => {
                run.extend(things);
            }
            _ => self.runs.insert(after, (first, things.into_iter().collect())),
        }
    }

    /// The thing with this number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        let after = self.runs.partition_point(|(first, _)| *first <= number);
        let (first, run) = self.runs.get(after.checked_sub(1)?)?;
        run.get((number - first) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_whatever_order_they_came() {
        let mut things = Numbered::default();
        things.extend(10, ["ten"]);
        things.extend(2, ["two", "three"]);
        things.extend(11, ["eleven"]);
        things.extend(4, ["four"]);
        let found = |number| things.get(number).copied();
        assert_eq!([2, 3, 4].map(found), [Some("two"), Some("three"), Some("four")]);
        assert_eq!([10, 11].map(found), [Some("ten"), Some("eleven")]);
        assert_eq!([1, 5, 9, 12, u32::MAX].map(found), [None; 5]);
        assert_eq!(things.runs.len(), 2);
    }
}
