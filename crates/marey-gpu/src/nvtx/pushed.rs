//! Ranges that are pushed and popped.
//!
//! Each domain has a stack of its own on each thread, while the recorder has one a thread. So the
//! scopes of what is pushed are remembered here, also of what was not recorded: a pop leaves the
//! scope of its own push, or nothing.

use marey_record::{NodeKind, api};
use std::cell::RefCell;
use std::ffi::c_int;

/// What NVTX returns where ranges are not tracked.
pub(super) const NOT_TRACKED: c_int = -2;
/// A pop without a push.
const NOT_PUSHED: c_int = -1;

/// A range that was pushed.
struct Pushed {
    domain: u32,
    /// How many ranges of its domain are around it.
    level: c_int,
    /// Id of its scope; 0 if it was not recorded.
    scope: u64,
}

thread_local! {
    /// Of all domains, innermost last.
    static PUSHED: RefCell<Vec<Pushed>> = const { RefCell::new(Vec::new()) };
}

/// Pushes a range, whose name is asked for only where something is recorded; returns its level, and
/// whether its scope was entered.
pub(super) fn push(domain: u32, name: impl FnOnce() -> u32) -> (c_int, bool) {
    let pushed = |stack: &mut Vec<Pushed>| {
        let around = stack.iter().rev().find(|range| range.domain == domain);
        let level = around.map_or(0, |range| range.level.saturating_add(1));
        let scope = if api::is_live() { api::enter(name(), NodeKind::Scope) } else { 0 };
        stack.push(Pushed { domain, level, scope });
        (level, scope != 0)
    };
    on_stack(pushed).unwrap_or((NOT_TRACKED, false))
}

/// Pops the innermost range of a domain; returns its level.
pub(super) fn pop(domain: u32) -> c_int {
    let popped = |stack: &mut Vec<Pushed>| {
        let Some(at) = stack.iter().rposition(|range| range.domain == domain) else {
            api::count_unmatched_exit();
            return NOT_PUSHED;
        };
        let Pushed { level, scope, .. } = stack.remove(at);
        if scope != 0 {
            api::exit_only(scope);
        }
        level
    };
    on_stack(popped).unwrap_or(NOT_TRACKED)
}

/// `None` where the thread ends, or in a signal handler that has interrupted this.
fn on_stack<T>(run: impl FnOnce(&mut Vec<Pushed>) -> T) -> Option<T> {
    let run = |stack: &RefCell<Vec<Pushed>>| Some(run(&mut *stack.try_borrow_mut().ok()?));
    PUSHED.try_with(run).ok().flatten()
}
