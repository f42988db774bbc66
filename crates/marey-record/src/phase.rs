//! Closed phases. Ending a phase takes its columns from the threads; its tree is merged from them
//! later.
//!
//! Merging takes as long as there are nodes. Therefore the thread that ends a phase merges after it
//! has released the sessions' lock. A thread that reads the tree before that merges it itself, or
//! waits.

use crate::column::Column;
use crate::merged::{MergedTree, SessionView};
use crate::thread::ThreadTree;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// A complete phase.
#[derive(Clone, Debug)]
pub(crate) struct ClosedPhase {
    pub(crate) tree: PhaseTree,
    /// The range of the spool that contains the phase's records, in bytes.
    pub(crate) spool_range: Range<u64>,
    pub(crate) is_written: bool,
}

/// The columns of a phase that were taken from its threads. No thread writes to them any more.
pub(crate) type TakenColumns = Vec<(Arc<ThreadTree>, Box<Column>)>;

type Merge = Box<dyn FnOnce() -> Arc<MergedTree> + Send>;

/// The tree of a closed phase, merged when it is first read.
#[derive(Clone)]
pub(crate) enum PhaseTree {
    Merged(Arc<MergedTree>),
    /// Merged once, on the first thread that reads it.
    Unread(Arc<LazyLock<Arc<MergedTree>, Merge>>),
}

impl PhaseTree {
    /// Returns the tree of these columns and of what `tree` contains.
    pub(crate) fn of_columns(
        mut tree: MergedTree,
        view: SessionView,
        columns: TakenColumns,
    ) -> Self {
        let merge = move || {
            for (thread, column) in &columns {
                tree.absorb_column(thread, view, column);
            }
            Arc::new(tree)
        };
        Self::Unread(Arc::new(LazyLock::new(Box::new(merge))))
    }

    pub(crate) fn get(&self) -> &Arc<MergedTree> {
        match self {
            Self::Merged(tree) => tree,
            Self::Unread(tree) => tree,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut Arc<MergedTree> {
        // A tree without readers has no other reference left, so changing it does not copy it.
        *self = Self::Merged(Arc::clone(self.get()));
        match self {
            Self::Merged(tree) => tree,
            Self::Unread(_) => unreachable!("it was merged above"),
        }
    }
}

impl fmt::Debug for PhaseTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhaseTree").finish_non_exhaustive()
    }
}
