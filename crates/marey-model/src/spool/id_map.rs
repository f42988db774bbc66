//! A map from ids to items, for ids that are mostly consecutive.

/// Items by id, stored as ranges of consecutive ids. A spool defines most of its texts and nodes as
/// one range, in which a lookup needs no search.
#[derive(Clone, Debug)]
pub struct IdMap<T> {
    /// First id and items of each range, ascending.
    ranges: Vec<(u32, Vec<T>)>,
}

impl<T> Default for IdMap<T> {
    fn default() -> Self {
        Self { ranges: Vec::new() }
    }
}

impl<T> IdMap<T> {
    /// Adds items with the ids `first_id`, `first_id + 1`, and so on, which must not be defined
    /// yet.
    pub fn extend(&mut self, first_id: u32, items: impl IntoIterator<Item = T>) {
        let next_range = self.ranges.partition_point(|(id, _)| *id <= first_id);
        match next_range
            .checked_sub(1)
            .and_then(|previous_range| self.ranges.get_mut(previous_range))
        {
            Some((id, range)) if *id as usize + range.len() == first_id as usize => {
                range.extend(items);
            }
            _ => self.ranges.insert(next_range, (first_id, items.into_iter().collect())),
        }
    }

    /// Iterates over ids and items, by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.ranges.iter().flat_map(|(first_id, range)| (*first_id..).zip(range))
    }

    /// Returns the item with this id.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&T> {
        let next_range = self.ranges.partition_point(|(first_id, _)| *first_id <= id);
        let (first_id, range) = self.ranges.get(next_range.checked_sub(1)?)?;
        range.get((id - first_id) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_in_any_order_of_insertion() {
        let mut items = IdMap::default();
        items.extend(10, ["ten"]);
        items.extend(2, ["two", "three"]);
        items.extend(11, ["eleven"]);
        items.extend(4, ["four"]);
        let found = |id| items.get(id).copied();
        assert_eq!([2, 3, 4].map(found), [Some("two"), Some("three"), Some("four")]);
        assert_eq!([10, 11].map(found), [Some("ten"), Some("eleven")]);
        assert_eq!([1, 5, 9, 12, u32::MAX].map(found), [None; 5]);
        assert_eq!(items.ranges.len(), 2);
        assert_eq!(items.iter().map(|(id, _)| id).collect::<Vec<_>>(), [2, 3, 4, 10, 11]);
    }

    #[test]
    fn a_range_after_a_gap_is_a_range_of_its_own() {
        let mut items = IdMap::default();
        items.extend(2, ["two"]);
        items.extend(5, ["five"]);
        assert_eq!([2, 3, 5].map(|id| items.get(id).copied()), [Some("two"), None, Some("five")]);
    }
}
