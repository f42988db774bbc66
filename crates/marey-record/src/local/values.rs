//! States, and the user's metrics.

use super::stack::place_of;
use super::{Entry, Local, Place, ROOTS, State};
use crate::clock;
use crate::control::{CONTROL, bit, slots};
use crate::losses;
use crate::names;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::{MetricError, MetricValue};
use std::sync::atomic::Ordering;

/// A value on its way to the log.
struct Logged<'a> {
    ticks: u64,
    metric: u32,
    value: &'a MetricValue,
}

impl Local {
    /// Sets a state below the scopes until [`Local::exit_state`].
    pub(crate) fn enter_state(&mut self, name: u32, python_leaf: u32) {
        let (active, python) = CONTROL.recording();
        let above = self.place().below_frame(python_leaf);
        let place = self.below(above, name, NodeKind::State, active, python);
        self.states.push(State { name, place, sessions: active, start_ticks: clock::ticks() });
        self.tree.state.store(name, Ordering::Relaxed);
    }

    /// Ends the innermost state; the one around it holds again. Whether there was one.
    pub(crate) fn exit_state(&mut self) -> bool {
        let now = clock::ticks();
        let Some(state) = self.states.pop() else { return false };
        let outer = self.states.last().map_or(0, |outer| outer.name);
        self.tree.state.store(outer, Ordering::Relaxed);
        self.record(&Entry::new(state.place, state.sessions, state.start_ticks..now, 0));
        true
    }

    /// State that holds now; 0 for none.
    pub(crate) fn state_name(&self) -> u32 {
        self.tree.state.load(Ordering::Relaxed)
    }

    /// Adds user metrics to the innermost scope.
    pub(crate) fn add_metrics(&mut self, values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
        let (place, state, sessions) = self.innermost();
        self.add_metrics_at(place, state, sessions, None, values)
    }

    /// The innermost scope, the state below which its metrics go (0 for none), and who sees them.
    pub(crate) fn innermost(&self) -> (Place, u32, u64) {
        match self.top() {
            Some(top) => (place_of(&top), top.state, top.sessions),
            None => (ROOTS, self.state_name(), u64::MAX),
        }
    }

    /// Marks a moment below the innermost scope, with values that belong to it.
    pub(crate) fn mark(
        &mut self,
        name: u32,
        python_leaf: u32,
        values: &[(u32, MetricValue)],
    ) -> Result<(), MetricError> {
        let now = clock::ticks();
        let (active, python) = CONTROL.recording();
        let above = self.place().below_frame(python_leaf);
        let place = self.below(above, name, NodeKind::Mark, active, python);
        let added = self.add_metrics_at(place, 0, active, Some(now), values);
        self.record(&Entry::new(place, active, now..now, 0));
        added
    }

    /// Adds user metrics at a place, below `state` unless that is 0, and tells the first that is refused.
    /// A trace has them at `ticks`, or now.
    pub(crate) fn add_metrics_at(
        &mut self,
        mut place: Place,
        state: u32,
        sessions: u64,
        ticks: Option<u64>,
        values: &[(u32, MetricValue)],
    ) -> Result<(), MetricError> {
        let active = CONTROL.active.load(Ordering::Relaxed) & sessions;
        let python = active & CONTROL.python.load(Ordering::Relaxed);
        if state != 0 {
            place = self.below(place, state, NodeKind::State, active, python);
        }
        let mut refused = Ok(());
        for (number, value) in values {
            let Some(name) = names::metric(*number) else { continue };
            for slot in slots(active) {
                let node = if python & bit(slot) == 0 { place.shadow } else { place.python };
                let Some(column) = self.tree.column(slot) else { continue };
                let added = column
                    .add_metric(node, *number, &name, value)
                    .inspect_err(|_| losses::count(LossCause::MetricRefused));
                refused = refused.and(added);
            }
            let traced = active & CONTROL.trace.load(Ordering::Relaxed);
            if traced != 0 {
                let ticks = ticks.unwrap_or_else(clock::ticks);
                let logged = Logged { ticks, metric: *number, value };
                self.log_value(place, &logged, traced & !python, traced & python);
            }
        }
        refused
    }

    /// Logs a value, as [`Local::record`] logs an entry.
    #[cold]
    fn log_value(&self, place: Place, logged: &Logged, shadow: u64, python: u64) {
        let Some(log) = self.tree.own_log() else { return };
        let &Logged { ticks, metric, value } = logged;
        if shadow != 0 {
            log.value(place.shadow, ticks, metric, value, shadow);
        }
        if python != 0 {
            log.value(place.python, ticks, metric, value, python);
        }
    }
}
