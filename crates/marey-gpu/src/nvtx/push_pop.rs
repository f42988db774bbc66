//! Records NVTX's push/pop ranges as scopes of the thread's stack.
//!
//! NVTX has a stack for each domain and thread, but the recorder has one stack per thread. So this
//! file stores the scope of each pushed range, recorded or not. A pop exits the scope of its own
//! push, or none.

use marey_record::{NodeKind, api};
use std::cell::RefCell;
use std::ffi::c_int;

/// Return value of NVTX for ranges that are not tracked.
pub(super) const NOT_TRACKED: c_int = -2;
/// Return value for a pop without a push.
const NOT_PUSHED: c_int = -1;

/// A pushed range.
struct PushedRange {
    domain_id: u32,
    /// Number of enclosing ranges in the same domain.
    level: c_int,
    /// Scope id; 0 if it was not recorded.
    scope_id: u64,
}

thread_local! {
    /// Pushed ranges of all domains, innermost last.
    static PUSHED: RefCell<Vec<PushedRange>> = const { RefCell::new(Vec::new()) };
}

/// Pushes a range; `name` is called only if the range is recorded. Returns its level, and whether
/// it is recorded.
pub(super) fn push(domain_id: u32, name: impl FnOnce() -> u32) -> (c_int, bool) {
    let push_range = |stack: &mut Vec<PushedRange>| {
        let enclosing = stack.iter().rev().find(|range| range.domain_id == domain_id);
        let level = enclosing.map_or(0, |range| range.level.saturating_add(1));
        let scope_id = if api::is_live() { api::enter(name(), NodeKind::Scope) } else { 0 };
        stack.push(PushedRange { domain_id, level, scope_id });
        (level, scope_id != 0)
    };
    with_stack(push_range).unwrap_or((NOT_TRACKED, false))
}

/// Pops the innermost range of a domain and returns its level.
pub(super) fn pop(domain_id: u32) -> c_int {
    let pop_range = |stack: &mut Vec<PushedRange>| {
        let Some(index) = stack.iter().rposition(|range| range.domain_id == domain_id) else {
            api::count_unmatched_exit();
            return NOT_PUSHED;
        };
        let PushedRange { level, scope_id, .. } = stack.remove(index);
        if scope_id != 0 {
            api::exit_only(scope_id);
        }
        level
    };
    with_stack(pop_range).unwrap_or(NOT_TRACKED)
}

/// Runs `run` on the stack. Returns `None` if the thread is ending, or in a signal handler that
/// interrupted this function.
fn with_stack<T>(run: impl FnOnce(&mut Vec<PushedRange>) -> T) -> Option<T> {
    let run = |stack: &RefCell<Vec<PushedRange>>| Some(run(&mut *stack.try_borrow_mut().ok()?));
    PUSHED.try_with(run).ok().flatten()
}
