//! Assigns ids to texts and contexts, which all processes of a run share, and makes the rows of the
//! tables `strings` and `contexts` from them.

use std::hash::BuildHasher;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::UInt32Type;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use marey_model::context::{NodeKind, ROOT_NAME};
use marey_model::table::Table;
use marey_model::table::stored::{CONTEXTS, STRINGS};

use crate::columns::{ids, maybe_ids, texts};
use crate::parts::{LazyPart, Parts};
use crate::{Run, StoreError};

/// Maximum bytes of texts in a batch. The offsets of an Arrow string array have 32 bits.
const BATCH_BYTES: usize = 16 << 20;

/// The context of the root.
pub(crate) const ROOT: u32 = 0;

/// The texts and contexts of a run.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Vec<Box<str>>,
    /// Text ids, by text.
    text_ids: HashTable<u32>,
    hasher: DefaultHashBuilder,
    contexts: Vec<ContextRow>,
    context_ids: HashMap<(u32, NodeKind, u32), u32>,
}

/// A node of the calling-context tree.
#[derive(Clone, Copy, Debug)]
struct ContextRow {
    parent_id: Option<u32>,
    depth: u32,
    kind: NodeKind,
    name_id: u32,
}

impl Names {
    /// Creates the names of an empty run.
    pub(crate) fn new() -> Self {
        let mut names = Self::default();
        names.add_root();
        names
    }

    /// Reads the names of a run.
    pub(crate) fn read(run: &Run) -> Result<Self, StoreError> {
        let mut names = Self::default();
        names.read_texts(&run.read(&STRINGS)?).ok_or_else(|| inconsistent_ids(run, &STRINGS))?;
        names
            .read_contexts(&run.read(&CONTEXTS)?)
            .ok_or_else(|| inconsistent_ids(run, &CONTEXTS))?;
        if names.contexts.is_empty() {
            names.add_root();
        }
        Ok(names)
    }

    fn add_root(&mut self) {
        let name_id = self.text_id(ROOT_NAME);
        self.contexts.push(ContextRow { parent_id: None, depth: 0, kind: NodeKind::Root, name_id });
    }

    fn read_texts(&mut self, rows: &RecordBatch) -> Option<()> {
        let ids = rows.column(0).as_primitive::<UInt32Type>();
        let texts = rows.column(1).as_string::<i32>();
        for (&id, text) in ids.values().iter().zip(texts) {
            (self.text_id(text?) == id).then_some(())?;
        }
        Some(())
    }

    fn read_contexts(&mut self, rows: &RecordBatch) -> Option<()> {
        let ids = rows.column(0).as_primitive::<UInt32Type>();
        let parent_ids = rows.column(1).as_primitive::<UInt32Type>();
        let kinds = rows.column(3).as_string::<i32>();
        let name_ids = rows.column(4).as_primitive::<UInt32Type>();
        for (row, &id) in ids.values().iter().enumerate() {
            let kind = NodeKind::ALL.into_iter().find(|kind| kind.as_str() == kinds.value(row))?;
            let name_id = name_ids.value(row);
            (id as usize == self.contexts.len() && (name_id as usize) < self.texts.len())
                .then_some(())?;
            if kind == NodeKind::Root {
                self.contexts.push(ContextRow { parent_id: None, depth: 0, kind, name_id });
            } else {
                let parent_id = parent_ids.value(row);
                (parent_id < id).then_some(())?;
                self.context_id(parent_id, kind, name_id);
            }
        }
        Some(())
    }

    /// Returns the id of a text.
    pub(crate) fn text_id(&mut self, text: &str) -> u32 {
        let Self { texts, text_ids, hasher, .. } = self;
        let hash = hasher.hash_one(text);
        if let Some(&id) = text_ids.find(hash, |&id| *texts[id as usize] == *text) {
            return id;
        }
        let id = texts.len() as u32;
        texts.push(text.into());
        text_ids.insert_unique(hash, id, |&id| hasher.hash_one(&*texts[id as usize]));
        id
    }

    /// Returns the text of an id.
    pub(crate) fn text_of(&self, id: u32) -> &str {
        &self.texts[id as usize]
    }

    /// Returns the id of a context below `parent_id`.
    pub(crate) fn context_id(&mut self, parent_id: u32, kind: NodeKind, name_id: u32) -> u32 {
        let next_id = self.contexts.len() as u32;
        let id = *self.context_ids.entry((parent_id, kind, name_id)).or_insert(next_id);
        if id == next_id {
            let depth = self.contexts[parent_id as usize].depth + 1;
            self.contexts.push(ContextRow { parent_id: Some(parent_id), depth, kind, name_id });
        }
        id
    }

    /// Returns the parent of a context. The root has none.
    pub(crate) fn parent(&self, context_id: u32) -> Option<u32> {
        self.contexts[context_id as usize].parent_id
    }

    /// Returns the text id of a context's name.
    pub(crate) fn name_id(&self, context_id: u32) -> u32 {
        self.contexts[context_id as usize].name_id
    }

    /// Returns the number of texts, which is the next id.
    pub(crate) fn text_count(&self) -> u32 {
        self.texts.len() as u32
    }

    /// Returns the number of contexts, which is the next id.
    pub(crate) fn context_count(&self) -> u32 {
        self.contexts.len() as u32
    }

    /// Writes the texts from the id `first_id` on, as a part.
    pub(crate) fn write_texts(&self, first_id: u32, parts: &mut Parts) -> Result<(), StoreError> {
        let mut part = LazyPart::new(&STRINGS);
        let mut id = first_id;
        while id < self.text_count() {
            let mut bytes = 0;
            let batch_texts = self.texts[id as usize..].iter().take_while(|text| {
                let has_room = bytes < BATCH_BYTES;
                bytes += text.len();
                has_room
            });
            let batch_texts: Vec<&str> = batch_texts.map(|text| &**text).collect();
            let next_id = id + batch_texts.len() as u32;
            part.write(vec![ids(id..next_id), texts(batch_texts.into_iter())], parts)?;
            id = next_id;
        }
        part.finish(None, parts)
    }

    /// Returns the rows of contexts from the id `first_id` on.
    pub(crate) fn context_columns(&self, first_id: u32) -> Vec<ArrayRef> {
        let new_contexts = self.contexts[first_id as usize..].iter();
        vec![
            ids(first_id..self.context_count()),
            maybe_ids(new_contexts.clone().map(|context| context.parent_id)),
            ids(new_contexts.clone().map(|context| context.depth)),
            texts(new_contexts.clone().map(|context| context.kind.as_str())),
            ids(new_contexts.map(|context| context.name_id)),
        ]
    }
}

fn inconsistent_ids(run: &Run, table: &Table) -> StoreError {
    let part = format!("tables/{}", table.name);
    StoreError::part(run.path(), &part, "the ids of its rows are not consecutive")
}
