//! Records states and user metrics of the calling thread.

use super::stack::open_scope_nodes;
use super::{CompletedEntry, Local, NodePair, OpenState, ROOTS};
use crate::clock;
use crate::control::{CONTROL, bit, slots};
use crate::losses;
use crate::names;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::{MetricError, MetricValue};
use std::sync::atomic::Ordering;

/// A metric value to be logged.
struct LoggedValue<'a> {
    ticks: u64,
    metric_id: u32,
    value: &'a MetricValue,
}

/// The innermost scope of a thread, to which values are added.
pub(crate) struct InnermostScope {
    pub(crate) nodes: NodePair,
    /// The id of the name of the state below which its metrics are stored; 0 for none.
    pub(crate) state_name_id: u32,
    /// The sessions that see it.
    pub(crate) sessions: u64,
}

impl Local {
    /// Enters a state, which applies to the scopes of this thread until [`Local::exit_state`].
    pub(crate) fn enter_state(&mut self, name_id: u32, python_leaf: u32) {
        let (active_sessions, python_sessions) = CONTROL.recording_sessions();
        let parent = self.top_nodes().with_python_leaf(python_leaf);
        let nodes =
            self.child_nodes(parent, name_id, NodeKind::State, active_sessions, python_sessions);
        self.open_states.push(OpenState {
            name_id,
            nodes,
            sessions: active_sessions,
            start_ticks: clock::ticks(),
        });
        self.tree.state_name_id.store(name_id, Ordering::Relaxed);
    }

    /// Exits the innermost state, so that the state around it applies again. Returns whether there
    /// was one.
    pub(crate) fn exit_state(&mut self) -> bool {
        let now = clock::ticks();
        let Some(state) = self.open_states.pop() else { return false };
        let outer = self.open_states.last().map_or(0, |outer| outer.name_id);
        self.tree.state_name_id.store(outer, Ordering::Relaxed);
        self.record(&CompletedEntry::new(state.nodes, state.sessions, state.start_ticks..now, 0));
        true
    }

    /// Returns the id of the name of the innermost state, 0 for none.
    pub(crate) fn state_name_id(&self) -> u32 {
        self.tree.state_name_id.load(Ordering::Relaxed)
    }

    /// Adds user metrics to the innermost scope.
    pub(crate) fn add_metrics(&mut self, values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
        let InnermostScope { nodes, state_name_id, sessions } = self.innermost();
        let active_sessions = CONTROL.active_sessions.load(Ordering::Relaxed) & sessions;
        self.add_metrics_at(nodes, state_name_id, active_sessions, None, values)
    }

    /// Returns the innermost scope, or the root.
    pub(crate) fn innermost(&self) -> InnermostScope {
        match self.top() {
            Some(top) => InnermostScope {
                nodes: open_scope_nodes(&top),
                state_name_id: top.state_name_id,
                sessions: top.sessions,
            },
            None => InnermostScope {
                nodes: ROOTS,
                state_name_id: self.state_name_id(),
                sessions: u64::MAX,
            },
        }
    }

    /// Records an instant below the innermost scope, with metrics of its own.
    pub(crate) fn record_instant(
        &mut self,
        name_id: u32,
        python_leaf: u32,
        values: &[(u32, MetricValue)],
    ) -> Result<(), MetricError> {
        let now = clock::ticks();
        let (active_sessions, python_sessions) = CONTROL.recording_sessions();
        let parent = self.top_nodes().with_python_leaf(python_leaf);
        let nodes =
            self.child_nodes(parent, name_id, NodeKind::Mark, active_sessions, python_sessions);
        let added = self.add_metrics_at(nodes, 0, active_sessions, Some(now), values);
        self.record(&CompletedEntry::new(nodes, active_sessions, now..now, 0));
        added
    }

    /// Adds user metrics to nodes in the sessions that record, below the
    /// state with this name unless that is 0. In a trace their time is `ticks`, by default now. Returns
    /// the first error.
    pub(crate) fn add_metrics_at(
        &mut self,
        mut nodes: NodePair,
        state_name_id: u32,
        active_sessions: u64,
        ticks: Option<u64>,
        values: &[(u32, MetricValue)],
    ) -> Result<(), MetricError> {
        let python_sessions = active_sessions & CONTROL.python_sessions.load(Ordering::Relaxed);
        if state_name_id != 0 {
            nodes = self.child_nodes(
                nodes,
                state_name_id,
                NodeKind::State,
                active_sessions,
                python_sessions,
            );
        }
        let mut result = Ok(());
        for (metric_id, value) in values {
            let Some(name) = names::metric(*metric_id) else { continue };
            for slot in slots(active_sessions) {
                let node = if python_sessions & bit(slot) == 0 {
                    nodes.shadow_node
                } else {
                    nodes.python_node
                };
                let Some(column) = self.tree.column(slot) else { continue };
                let added = column
                    .add_metric(node, *metric_id, &name, value)
                    .inspect_err(|_| losses::count(LossCause::MetricRefused));
                result = result.and(added);
            }
            let trace_sessions = active_sessions & CONTROL.trace_sessions.load(Ordering::Relaxed);
            if trace_sessions != 0 {
                let ticks = ticks.unwrap_or_else(clock::ticks);
                let logged = LoggedValue { ticks, metric_id: *metric_id, value };
                self.log_value(
                    nodes,
                    &logged,
                    trace_sessions & !python_sessions,
                    trace_sessions & python_sessions,
                );
            }
        }
        result
    }

    /// Logs a value for the sessions of each of the two trees.
    #[cold]
    fn log_value(
        &self,
        nodes: NodePair,
        logged: &LoggedValue,
        shadow_sessions: u64,
        python_sessions: u64,
    ) {
        let Some(log) = self.tree.log_or_create() else { return };
        let &LoggedValue { ticks, metric_id, value } = logged;
        if shadow_sessions != 0 {
            log.push_value(nodes.shadow_node, ticks, metric_id, value, shadow_sessions);
        }
        if python_sessions != 0 {
            log.push_value(nodes.python_node, ticks, metric_id, value, python_sessions);
        }
    }
}
