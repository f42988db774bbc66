//! Training steps: scopes that marey opens by itself, and that an optimizer closes.
//!
//! A step lies on the stack like any scope, but nobody's code leaves it. If a scope around it ends
//! first it is forgotten; if the optimizer steps inside a scope of the step, the step closes when
//! that scope does.

use super::{CLOSING, Local, STEP};
use crate::clock;
use crate::names;
use crate::tree::PYTHON_ROOT;
use marey_model::context::{NodeKind, STEP_NAME};

impl Local {
    pub(super) fn is_step(&self, at: u32) -> bool {
        self.is(at, STEP)
    }

    /// Forgets a step that no optimizer closed; what ran inside it keeps its own time.
    pub(super) fn discard_step(&mut self) {
        let children = self.top_own().map_or(0, |frame| frame.child_nanos);
        self.change_flags(self.depth() - 1, 0, CLOSING);
        self.shrink(children);
    }

    /// Opens a training step, unless one is open.
    pub(crate) fn step_begin(&mut self) {
        if !(self.inherited..self.depth()).any(|at| self.is_step(at)) {
            self.open_step();
        }
    }

    /// The optimizer has stepped: closes the open step and opens the next one in its place.
    pub(crate) fn step_end(&mut self) {
        let step = (self.inherited..self.depth()).rev().find(|&at| self.is_step(at));
        match step {
            Some(at) if at + 1 == self.depth() => self.close_step(),
            Some(at) => {
                self.change_flags(at, CLOSING, 0);
            }
            None => self.open_step(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn close_step(&mut self) {
        self.change_flags(self.depth() - 1, 0, CLOSING);
        self.pop(clock::ticks());
        self.open_step();
    }

    fn open_step(&mut self) {
        self.enter(names::intern(STEP_NAME), NodeKind::Step, PYTHON_ROOT);
        self.change_flags(self.depth() - 1, STEP, 0);
    }
}
