//! Scopes that do not lie on a thread's stack: those of coroutines, which interleave.
//!
//! Such a scope knows its parent itself. Whoever enters it keeps it, hands it to the scopes inside
//! it, and leaves it in any order and on any thread. A [place](Detached::here) of a thread's stack is one that
//! was left already: values that arrive late are added to it.

use crate::clock;
use crate::control::CONTROL;
use crate::local::{self, Entry, Local, Place};
use crate::thread::ThreadTree;
use crate::tree::SHADOW_ROOT;
use marey_model::context::NodeKind;
use marey_model::metric::{MetricError, MetricValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An entered scope outside of any stack.
#[derive(Debug)]
pub struct Detached {
    parent: Option<Arc<Detached>>,
    state: u32,
    sessions: u64,
    epoch: u64,
    start_ticks: u64,
    child_nanos: AtomicU64,
    is_left: AtomicBool,
    /// Scopes above that had been left already when the next one below them was entered.
    left_above: u32,
    id: u64,
    /// Without a parent: id of the innermost scope of the thread's stack, 0 for none.
    host: u64,
    /// The tree of the thread that entered it, and where it is there.
    origin: Arc<ThreadTree>,
    place: Place,
}

impl Drop for Detached {
    /// Not by recursion: a chain of scopes may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut scope) = next {
            next = Arc::get_mut(&mut scope).and_then(|scope| scope.parent.take());
        }
    }
}

impl Detached {
    /// Enters a scope below `parent`, or below what the thread is in. `None` if the thread cannot
    /// record.
    pub fn enter(
        parent: Option<Arc<Self>>,
        name: u32,
        kind: NodeKind,
        python_leaf: u32,
    ) -> Option<Arc<Self>> {
        local::event(|local| {
            let (active, python) = CONTROL.recording();
            let epoch = CONTROL.epoch.load(Ordering::Relaxed);
            let parent = parent.filter(|parent| parent.epoch == epoch).and_then(Self::adopter);
            let above = match &parent {
                Some(parent) => parent.place_in(local),
                None => local.place(),
            };
            let above = above.below_frame(python_leaf);
            Some(Arc::new(Self {
                left_above: parent
                    .as_ref()
                    .map_or(0, |parent| parent.left_above + u32::from(parent.is_left())),
                parent,
                state: local.state_name(),
                sessions: active,
                epoch,
                start_ticks: clock::ticks(),
                child_nanos: AtomicU64::new(0),
                is_left: AtomicBool::new(false),
                host: local.top_id(),
                id: local.next_id(),
                origin: Arc::clone(&local.tree),
                place: local.below(above, name, kind, active, python),
            }))
        })
    }

    /// Where the thread is, for values that are known only later: its innermost scope, as one that was
    /// left. `None` if the thread cannot record.
    pub fn here() -> Option<Arc<Self>> {
        local::event(|local| {
            let (place, state, sessions) = local.innermost();
            Some(Arc::new(Self {
                parent: None,
                state,
                sessions: sessions & CONTROL.active.load(Ordering::Relaxed),
                epoch: CONTROL.epoch.load(Ordering::Relaxed),
                start_ticks: clock::ticks(),
                child_nanos: AtomicU64::new(0),
                is_left: AtomicBool::new(true),
                left_above: 0,
                id: local.top_id(),
                host: 0,
                origin: Arc::clone(&local.tree),
                place,
            }))
        })
    }

    /// The scope below which one that is entered inside this one belongs: this one, or the one around
    /// it where scopes that were left have piled up. A callback that schedules itself again would
    /// otherwise nest deeper and deeper, for ever.
    fn adopter(self: Arc<Self>) -> Option<Arc<Self>> {
        if self.is_past() { self.parent.clone() } else { Some(self) }
    }

    fn is_past(&self) -> bool {
        const MOST_LEFT_ABOVE: u32 = 8;
        self.is_left() && self.left_above >= MOST_LEFT_ABOVE
    }

    /// Returns the scope to which a launch inside this one belongs, as [`Detached::adopter`] does; `None` for
    /// one of a recording that is over.
    #[inline]
    pub(crate) fn in_force(&self) -> Option<&Self> {
        if self.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
            return None;
        }
        if self.is_past() { self.parent.as_deref() } else { Some(self) }
    }

    /// The calling thread runs the task whose innermost scope this is, as it does when the task has entered
    /// the scope: PyTorch's threads that run backward for it stand there, too.
    pub fn stand(&self) {
        local::event(|local| {
            if self.epoch == CONTROL.epoch.load(Ordering::Relaxed) {
                let place = self.place_in(local);
                local.stand_in_task(place.shadow);
            }
        });
    }

    pub(crate) fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// The scope's id.
    pub fn id(&self) -> u64 {
        self.id
    }

    fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    /// Leaves the scope; a second time does nothing.
    pub fn exit(&self) {
        let now = clock::ticks();
        if self.is_left.swap(true, Ordering::Relaxed) {
            return;
        }
        local::event(|local| {
            // What was entered before a fork the parent records.
            let is_foreign = self.origin.is_of_parent();
            if is_foreign || self.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
                return;
            }
            let child_nanos = self.child_nanos.load(Ordering::Relaxed);
            let place = self.place_in(local);
            let entry = Entry::new(place, self.sessions, self.start_ticks..now, child_nanos);
            local.record(&entry);
            let nanos = entry.nanos;
            if local.tree.task.node() == place.shadow {
                local.stand_in_task(self.parent_node_in(&local.tree));
            }
            match &self.parent {
                Some(parent) => {
                    parent.child_nanos.fetch_add(nanos, Ordering::Relaxed);
                }
                None if Arc::ptr_eq(&self.origin, &local.tree) => {
                    local.add_child_nanos(self.host, nanos);
                }
                None => {}
            }
        });
    }

    /// Adds user metrics to the scope. A trace has them at the time when it was entered if it was left since.
    pub fn add_metrics(&self, values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
        let added = local::event(|local| {
            if self.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
                return None;
            }
            let place = self.place_in(local);
            let ticks = self.is_left().then_some(self.start_ticks);
            Some(local.add_metrics_at(place, self.state, self.sessions, ticks, values))
        });
        added.unwrap_or(Ok(()))
    }

    /// Enters an operator inside the scope, on the stack of the calling thread; returns its id.
    pub(crate) fn enter_operator(&self, name: u32, python_leaf: u32) -> u64 {
        local::event(|local| {
            let is_current = self.epoch == CONTROL.epoch.load(Ordering::Relaxed);
            let above = is_current.then(|| self.place_in(local));
            local.enter_operator(name, python_leaf, above)
        })
    }

    /// The node of the scope around it, if that is of this tree; else none, which is the root.
    fn parent_node_in(&self, tree: &Arc<ThreadTree>) -> u32 {
        let parent = self.parent.as_ref().filter(|parent| Arc::ptr_eq(&parent.origin, tree));
        parent.map_or(SHADOW_ROOT, |parent| parent.place.shadow)
    }

    /// Where the scope is in the caller's tree; its path is made there if need be.
    #[inline]
    pub(crate) fn place_in(&self, local: &mut Local) -> Place {
        if Arc::ptr_eq(&self.origin, &local.tree) {
            return self.place;
        }
        let Place { shadow, python } = self.place;
        local.foreign_place(self.id, |local| Place {
            shadow: local.copy_path(&self.origin, shadow),
            python: local.copy_path(&self.origin, python),
        })
    }
}
