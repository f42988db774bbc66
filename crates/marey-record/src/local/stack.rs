//! Entering and leaving scopes.

use super::{CLOSING, Entry, FOREIGN, INHERITED, LAUNCHES, Local, Place, STEP, task};
use crate::clock;
use crate::control::{CONTROL, bit};
use crate::losses;
use crate::names;
use crate::thread::{Frame, NOBODY, OpenFrame, ThreadTree};
use crate::tree::{Key, Node, PYTHON_ROOT, SHADOW_ROOT, name_kind};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use std::sync::atomic::Ordering;

impl Local {
    /// Enters a scope; returns its id. `python_leaf` is the innermost Python frame's node, where a
    /// session asks for such paths.
    #[inline(always)]
    pub(crate) fn enter(&mut self, name: u32, kind: NodeKind, python_leaf: u32) -> u64 {
        let above = self.place_to_enter();
        self.enter_below(above, name, kind, 0, python_leaf)
    }

    /// The thread's place, once it stands where the main thread does if it follows it.
    #[inline(always)]
    pub(super) fn place_to_enter(&mut self) -> Place {
        if self.depth() == self.inherited && self.follows_main {
            self.inherit();
        }
        self.place()
    }

    /// Enters a scope below a place, which may be none of the stack's; `flags` are its frame's.
    #[inline(always)]
    fn enter_below(
        &mut self,
        above: Place,
        name: u32,
        kind: NodeKind,
        flags: u32,
        python_leaf: u32,
    ) -> u64 {
        let (active, python) = CONTROL.recording();
        let mut above = above.below_frame(python_leaf);
        let mut state = self.state_name();
        if kind == NodeKind::Operator && state != 0 {
            above = self.below(above, state, NodeKind::State, active, python);
            state = 0;
        }
        let place = self.below(above, name, kind, active, python);
        let id = self.next_id();
        self.push(&OpenFrame {
            name,
            kind_flags: kind as u32 | flags,
            shadow_node: place.shadow,
            python_node: place.python,
            state,
            sessions: active,
            start_ticks: clock::ticks(),
            child_nanos: 0,
            id,
        });
        id
    }

    /// Leaves the innermost scope called `name` (0: whatever it is called); returns its id, or 0
    /// when there is none.
    #[inline(always)]
    pub(crate) fn exit(&mut self, name: u32, now: u64) -> u64 {
        let Some(top) = self.top_own() else { return unmatched() };
        if top.kind_flags & (STEP | FOREIGN) == 0 && (name == 0 || top.name == name) {
            return self.leave(&top, now);
        }
        self.exit_below_top(name, now)
    }

    /// The thread's place: the innermost scope, or the roots.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        task::place_of(self.top_frame())
    }

    /// Finds or makes a child below `place`, in the trees of the sessions concerned.
    #[inline(always)]
    pub(crate) fn below(
        &mut self,
        place: Place,
        name: u32,
        kind: NodeKind,
        active: u64,
        python: u64,
    ) -> Place {
        let shadow = active & !python;
        let mut child = place;
        if shadow != 0 {
            child.shadow = self.child(place.shadow, name, kind, shadow);
        }
        if python != 0 {
            child.python = self.child(place.python, name, kind, python);
        }
        child
    }

    /// Finds or makes one node; `<lost>` below the root when the tree is full.
    #[inline(always)]
    pub(crate) fn child(&mut self, parent: u32, name: u32, kind: NodeKind, sessions: u64) -> u32 {
        let key = Key { parent, name, kind, sessions };
        match self.index.child(&self.tree.nodes, &key) {
            Some(node) => node,
            None => self.lost(parent),
        }
    }

    #[cold]
    fn lost(&mut self, parent: u32) -> u32 {
        losses::count(LossCause::Nodes);
        let root = if self.is_python(parent) { PYTHON_ROOT } else { SHADOW_ROOT };
        let key =
            Key { parent: root, name: names::LOST, kind: NodeKind::Scope, sessions: u64::MAX };
        self.index.child_beyond_limit(&self.tree.nodes, &key).unwrap_or(root)
    }

    fn is_python(&self, mut node: u32) -> bool {
        while node > PYTHON_ROOT {
            node = self.tree.nodes.get(node).map_or(SHADOW_ROOT, Node::parent);
        }
        node == PYTHON_ROOT
    }

    #[inline(always)]
    pub(super) fn push(&mut self, frame: &OpenFrame) {
        let Some(slot) = self.tree.frames.ensure(self.depth()) else { return };
        slot.lay_on(self.top_frame());
        self.fill(slot, frame);
        self.note_next(slot);
        self.tree.stand_on(slot);
        self.open_operators += u32::from(is_own_operator(frame.kind_flags));
    }

    /// Writes a frame into its place.
    #[inline(always)]
    fn fill(&self, slot: &Frame, frame: &OpenFrame) {
        slot.set(frame);
        let key = name_kind(frame.name, frame.kind_flags & 0xff);
        let node = self.tree.nodes.get(frame.shadow_node);
        slot.node.set(node.filter(|node| node.is(key, frame.sessions)));
        settle(slot);
    }

    /// Notes for the next time that a scope's node comes next here, if it is a child of the innermost scope's.
    #[inline(always)]
    #[expect(unsafe_code, reason = "links are reached through links")]
    fn note_next(&self, slot: &Frame) {
        // SAFETY: a link of a node of the tree, which `self` holds.
        let expected = unsafe { self.tree.expected.get() };
        if let (Some(expected), Some(node)) = (expected, slot.node_in(self.top_frame())) {
            expected.set(Some(node));
        }
    }

    /// The innermost frame, or the one below all scopes.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the frame is reached by a pointer")]
    pub(super) fn top_frame(&self) -> &Frame {
        // SAFETY: a frame of the tree, which `self` holds; `lay_bottom` has set the first.
        unsafe { self.tree.top.get_set() }
    }

    /// Frames on the stack, inherited ones included.
    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        self.top_frame().depth()
    }

    /// The innermost frame.
    #[inline(always)]
    pub(super) fn top(&self) -> Option<OpenFrame> {
        let top = self.top_frame();
        (top.depth() > 0).then(|| top.copy())
    }

    #[inline(always)]
    pub(super) fn frame(&self, at: u32) -> Option<OpenFrame> {
        self.tree.frames.get(at).map(Frame::copy)
    }

    /// The innermost frame, if it is the thread's to leave.
    #[inline(always)]
    pub(super) fn top_own(&self) -> Option<OpenFrame> {
        let top = self.top_frame();
        (top.depth() > self.inherited).then(|| top.copy())
    }

    /// Takes the innermost frame off and records it.
    #[inline(always)]
    fn leave(&mut self, top: &OpenFrame, now: u64) -> u64 {
        let version = CONTROL.version();
        let entry = entry_of(top, now);
        self.record(&entry);
        self.note_usual(self.top_frame(), version);
        self.shrink(entry.nanos);
        top.id
    }

    pub(super) fn pop(&mut self, now: u64) -> u64 {
        self.top_own().map_or(0, |top| self.leave(&top, now))
    }

    /// Forgets the innermost frame, whose time goes to its parent's children.
    #[inline(always)]
    pub(super) fn shrink(&mut self, nanos: u64) {
        let top = self.top_frame();
        let (was_operator, outer) = (is_own_operator(top.kind_flags()), top.below());
        let Some(outer) = outer else { return };
        match top.node_in(outer) {
            Some(node) => self.tree.stand_at(outer, Some(&node.next)),
            None => self.tree.stand_on(outer),
        }
        outer.add_child_nanos(nanos);
        let closes_step = outer.kind_flags() & CLOSING != 0;
        self.open_operators -= u32::from(was_operator);
        if closes_step {
            self.close_step();
        }
    }

    /// Leaves a scope that is not the innermost one, and those inside it that nobody has left: a step
    /// that marey opened, forgotten exits, scopes of another greenlet.
    #[cold]
    #[inline(never)]
    fn exit_below_top(&mut self, name: u32, now: u64) -> u64 {
        let own = self.inherited..self.depth();
        let is_called = |frame: OpenFrame| name == 0 || frame.name == name;
        let wanted =
            own.rev().find(|&at| !self.is_step(at) && self.frame(at).is_some_and(is_called));
        let Some(wanted) = wanted else { return unmatched() };
        while self.depth() > wanted + 1 {
            self.close_inner(now);
        }
        if self.is(wanted, FOREIGN) { self.leave_foreign() } else { self.pop(now) }
    }

    /// Leaves the scope with this id, if it is still open; what was entered inside it stays open, but
    /// for steps that marey opened. Whether it was.
    #[inline(always)]
    pub(crate) fn leave_only(&mut self, id: u64) -> bool {
        let now = clock::ticks();
        match self.top_own() {
            Some(top) if top.id == id && top.kind_flags & FOREIGN == 0 => {
                self.leave(&top, now);
                true
            }
            _ => self.leave_only_below_top(id, now),
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_only_below_top(&mut self, id: u64, now: u64) -> bool {
        let mut own = (self.inherited..self.depth()).rev();
        let Some(at) = own.find(|&at| self.frame(at).is_some_and(|frame| frame.id == id)) else {
            return false;
        };
        while self.depth() > at + 1 && self.is_step(self.depth() - 1) {
            self.discard_step();
        }
        if self.depth() > at + 1 {
            self.take_out(at, now);
        } else if self.is(at, FOREIGN) {
            self.leave_foreign();
        } else {
            self.pop(now);
        }
        true
    }

    /// Takes a frame from below others, which keep their places in the tree, and records it.
    fn take_out(&mut self, at: u32, now: u64) {
        let Some(frame) = self.frame(at) else { return };
        if frame.kind_flags & FOREIGN == 0 {
            let entry = entry_of(&frame, now);
            self.record(&entry);
            if let Some(parent) = at.checked_sub(1).and_then(|at| self.tree.frames.get(at)) {
                parent.add_child_nanos(entry.nanos);
            }
        }
        self.open_operators -= u32::from(is_own_operator(frame.kind_flags));
        for at in at + 1..self.depth() {
            if let (Some(inner), Some(slot)) = (self.frame(at), self.tree.frames.get(at - 1)) {
                self.fill(slot, &inner);
            }
        }
        if let Some(outer) = self.top_frame().below() {
            self.tree.stand_on(outer);
        }
    }

    /// Closes the innermost frame because one around it ends.
    pub(super) fn close_inner(&mut self, now: u64) {
        let at = self.depth() - 1;
        if self.is_step(at) {
            self.discard_step();
        } else if self.is(at, FOREIGN) {
            self.leave_foreign();
        } else {
            losses::count(LossCause::Unclosed);
            self.pop(now);
        }
    }

    pub(super) fn is(&self, at: u32, flag: u32) -> bool {
        self.frame(at).is_some_and(|frame| frame.kind_flags & flag != 0)
    }

    pub(super) fn change_flags(&self, at: u32, set: u32, clear: u32) {
        if let Some(frame) = self.tree.frames.get(at) {
            frame.change_flags(set, clear);
            settle(frame);
            // The frame above, if there is one, may have to close this one.
            if at + 1 < self.depth()
                && let Some(inner) = self.tree.frames.get(at + 1)
            {
                settle(inner);
            }
        }
    }

    /// Leaves a scope that the parent process entered and will record.
    pub(super) fn leave_foreign(&mut self) -> u64 {
        let id = self.top_own().map_or(0, |frame| frame.id);
        self.shrink(0);
        id
    }

    /// Enters an operator, unless one is in progress: below `above`, or where the thread is.
    pub(crate) fn enter_operator(
        &mut self,
        name: u32,
        python_leaf: u32,
        above: Option<Place>,
    ) -> u64 {
        if self.open_operators > 0 {
            self.nested_operators += 1;
            return 0;
        }
        let above = above.unwrap_or_else(|| self.place_to_enter());
        self.enter_below(above, name, NodeKind::Operator, LAUNCHES, python_leaf)
    }

    /// Leaves the operator in progress.
    pub(crate) fn exit_operator(&mut self, name: u32) -> u64 {
        if self.nested_operators > 0 {
            self.nested_operators -= 1;
            return 0;
        }
        self.exit(name, clock::ticks())
    }

    /// Leaves the scope with this id, and those inside it, if it is still open; returns its id or 0.
    pub(crate) fn exit_id(&mut self, id: u64) -> u64 {
        let now = clock::ticks();
        let mut own = (self.inherited..self.depth()).rev();
        let Some(wanted) = own.find(|&at| self.frame(at).is_some_and(|frame| frame.id == id))
        else {
            return 0;
        };
        while self.depth() > wanted + 1 {
            self.close_inner(now);
        }
        if self.is(wanted, FOREIGN) { self.leave_foreign() } else { self.pop(now) }
    }

    /// Id of the innermost scope; 0 for none.
    pub(crate) fn top_id(&self) -> u64 {
        self.top().map_or(0, |top| top.id)
    }

    /// Counts time as that of a child of the scope with this id, if it is still open. Children that
    /// overlap may sum up to more than the scope's time, which then has none of its own.
    pub(crate) fn add_child_nanos(&self, id: u64, nanos: u64) {
        let own = (self.inherited..self.depth()).rev();
        let frame = own.filter_map(|at| self.tree.frames.get(at)).find(|frame| frame.id() == id);
        if let Some(frame) = frame {
            frame.add_child_nanos(nanos);
        }
    }

    /// Name of the innermost scope that the thread itself entered; 0 for none.
    pub(crate) fn top_name(&self) -> u32 {
        (self.inherited..self.depth())
            .rev()
            .find(|&at| !self.is_step(at))
            .and_then(|at| self.frame(at))
            .map_or(0, |frame| frame.name)
    }

    /// Scopes of the stack that a session sees.
    pub(crate) fn depth_of(&self, slot: u32) -> u32 {
        let visible = (0..self.depth())
            .filter(|&at| self.frame(at).is_some_and(|frame| frame.sessions & bit(slot) != 0));
        visible.count() as u32
    }
}

/// Says of a frame whether it is left in the usual way.
#[inline(always)]
fn settle(frame: &Frame) {
    let (name, kind_flags) = frame.name_and_kind_flags();
    let is_usual = kind_flags & (INHERITED | STEP | FOREIGN) == 0
        && frame.below().is_some_and(|below| {
            below.kind_flags() & CLOSING == 0 && frame.node_in(below).is_some()
        });
    frame.left_as.store(if is_usual { name.into() } else { NOBODY }, Ordering::Relaxed);
}

/// Lays what is below all scopes of a thread that begins.
pub(super) fn lay_bottom(tree: &ThreadTree) {
    tree.bottom.set(&OpenFrame {
        name: names::LOST,
        kind_flags: NodeKind::Root as u32 | INHERITED,
        shadow_node: SHADOW_ROOT,
        python_node: PYTHON_ROOT,
        state: 0,
        sessions: u64::MAX,
        start_ticks: 0,
        child_nanos: 0,
        id: 0,
    });
    tree.bottom.left_as.store(NOBODY, Ordering::Relaxed);
    tree.bottom.node.set(tree.nodes.get(SHADOW_ROOT));
    tree.stand_on(&tree.bottom);
}

#[inline(always)]
pub(super) fn place_of(frame: &OpenFrame) -> Place {
    Place { shadow: frame.shadow_node, python: frame.python_node }
}

#[inline(always)]
fn entry_of(frame: &OpenFrame, now: u64) -> Entry {
    Entry::new(place_of(frame), frame.sessions, frame.start_ticks..now, frame.child_nanos)
}

/// Whether a frame is an operator of the thread's own.
#[inline(always)]
fn is_own_operator(kind_flags: u32) -> bool {
    kind_flags as u8 == NodeKind::Operator as u8 && kind_flags & INHERITED == 0
}

#[cold]
fn unmatched() -> u64 {
    losses::count(LossCause::UnmatchedExit);
    0
}
