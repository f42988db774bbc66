//! Builds the paths of contexts on demand from their names, for the SQL function `path`. They are
//! not stored, because with deep stacks all paths of a run together may exceed memory.

use std::collections::HashMap;

use datafusion::arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, StringViewBuilder, UInt32Array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::UInt32Type;
use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;

/// Size of the buffers for the paths of a batch.
const BLOCK_BYTES: u32 = 1 << 20;

/// The contexts of a run. The path of a context consists of the names of its ancestors, without
/// the root, and its own name.
pub(super) struct Paths {
    names: ArrayRef,
    name_ids: UInt32Array,
    /// Null for the root, and for ids without a context.
    parent_ids: UInt32Array,
}

impl Paths {
    /// Creates the paths of contexts. Fails unless each context comes after its parent and has a
    /// name.
    pub(super) fn new(names: ArrayRef, name_ids: &ArrayRef, parent_ids: &ArrayRef) -> Result<Self> {
        let [name_ids, parent_ids] =
            [name_ids, parent_ids].map(|ids| ids.as_primitive::<UInt32Type>().clone());
        for (context, parent) in (0_u32..).zip(&parent_ids) {
            let Some(parent) = parent else { continue };
            let name = name_ids.value(context as usize) as usize;
            if parent >= context || name >= names.len() {
                return exec_err!("context {context} has no parent or no name before it");
            }
        }
        Ok(Self { names, name_ids, parent_ids })
    }

    /// The number of ids, which start at 0.
    pub(super) fn count(&self) -> usize {
        self.parent_ids.len()
    }

    /// Returns the paths of ids. A null id gives null.
    pub(super) fn build(&self, ids: &UInt32Array) -> Result<ArrayRef> {
        let mut paths = StringViewBuilder::new().with_fixed_block_size(BLOCK_BYTES);
        let mut rows = HashMap::new();
        let mut path = String::new();
        let mut row = |id: u32| {
            *rows.entry(id).or_insert_with(|| {
                path.clear();
                self.append_path(id as usize, &mut path);
                paths.append_value(&path);
                paths.len() as u32 - 1
            })
        };
        let rows: UInt32Array = ids.iter().map(|id| id.map(&mut row)).collect();
        Ok(take(&paths.finish(), &rows, None)?)
    }

    /// Appends the path of a context.
    fn append_path(&self, context: usize, path: &mut String) {
        let mut names: Vec<&str> =
            self.self_and_ancestors(context).map(|context| self.name(context)).collect();
        names.reverse();
        for (level, name) in names.into_iter().enumerate() {
            if level > 0 {
                path.push('/');
            }
            path.push_str(name);
        }
    }

    /// Iterates over a context and its ancestors, innermost first, without the root.
    fn self_and_ancestors(&self, context: usize) -> impl Iterator<Item = usize> {
        let mut next = Some(context);
        std::iter::from_fn(move || {
            let context = next.filter(|&context| self.parent_ids.is_valid(context))?;
            next = Some(self.parent_ids.value(context) as usize);
            Some(context)
        })
    }

    fn name(&self, context: usize) -> &str {
        self.names.as_string_view().value(self.name_ids.value(context) as usize)
    }

    /// Returns, for each context, the first context with the same path. Contexts of different kinds
    /// may share a path, and so may contexts whose names contain a `/`.
    pub(super) fn first_ids_with_same_value(
        &self,
        reservation: &MemoryReservation,
    ) -> Result<Vec<u32>> {
        const BYTES_PER_CONTEXT: usize = 64; // in the trie, and in the three lists
        reservation.try_grow(self.count() * BYTES_PER_CONTEXT)?;
        // A trie whose edges are the parts of paths between `/`, so that equal paths lead to the
        // same node.
        let mut edges: HashMap<(u32, &str), u32> = HashMap::new();
        let mut node_by_context: Vec<u32> = Vec::with_capacity(self.count());
        let mut first_context_by_node: HashMap<u32, u32> = HashMap::new();
        let mut first_contexts = Vec::with_capacity(self.count());
        for context in 0..self.count() {
            let mut node = TRIE_ROOT;
            if self.parent_ids.is_valid(context) {
                node = node_by_context[self.parent_ids.value(context) as usize];
                for name_part in self.name(context).split('/') {
                    let next_node = edges.len() as u32 + 1;
                    node = *edges.entry((node, name_part)).or_insert(next_node);
                }
            }
            node_by_context.push(node);
            // A context with an empty name below the root has the same path as the root.
            let is_empty_path = edges.get(&(TRIE_ROOT, "")) == Some(&node);
            let key = if is_empty_path { TRIE_ROOT } else { node };
            first_contexts.push(*first_context_by_node.entry(key).or_insert(context as u32));
        }
        Ok(first_contexts)
    }
}

/// The root of the trie.
const TRIE_ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringViewArray;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 5] = ["a", "b", "a/b", "", "/"];

    /// Contexts, each with a name and a parent before it.
    fn paths(contexts: &[(usize, usize)]) -> Paths {
        let names: ArrayRef = Arc::new(StringViewArray::from_iter_values(NAMES));
        let parent_ids = contexts
            .iter()
            .enumerate()
            .map(|(index, (parent, _))| Some((parent % (index + 1)) as u32));
        let parent_ids: ArrayRef =
            Arc::new([None].into_iter().chain(parent_ids).collect::<UInt32Array>());
        let name_ids = contexts.iter().map(|(_, name)| (name % NAMES.len()) as u32);
        let name_ids: ArrayRef =
            Arc::new([0].into_iter().chain(name_ids).map(Some).collect::<UInt32Array>());
        Paths::new(names, &name_ids, &parent_ids).unwrap()
    }

    fn texts(paths: &Paths) -> Vec<String> {
        let ids = (0..paths.count() as u32).map(Some).collect();
        let texts = paths.build(&ids).unwrap();
        texts.as_string_view().iter().map(|text| text.unwrap().to_owned()).collect()
    }

    #[test]
    fn a_path_joins_the_names_from_the_root() {
        let paths = paths(&[(0, 0), (1, 1), (2, 2), (0, 3), (4, 0)]);
        assert_eq!(texts(&paths), ["", "a", "a/b", "a/b/a/b", "", "/a"]);
        let array = paths.build(&UInt32Array::from(vec![Some(2), None, Some(2)])).unwrap();
        let expected = StringViewArray::from(vec![Some("a/b"), None, Some("a/b")]);
        assert_eq!(array.as_string_view(), &expected);
    }

    proptest! {
        #[test]
        fn the_first_with_the_same_path_is_the_first_with_the_same_text(
            contexts in prop::collection::vec((0_usize..50, 0_usize..5), 0..30),
        ) {
            let paths = paths(&contexts);
            let texts = texts(&paths);
            let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
            let reservation = MemoryConsumer::new("test").register(&pool);
            let firsts = paths.first_ids_with_same_value(&reservation).unwrap();
            for (index, first) in firsts.into_iter().enumerate() {
                let first_equal = texts.iter().position(|text| *text == texts[index]).unwrap();
                prop_assert_eq!(first as usize, first_equal);
            }
        }
    }
}
