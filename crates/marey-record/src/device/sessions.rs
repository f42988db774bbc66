//! What sessions hold of devices: sums by phase, and which phase a launch belongs to.

use super::decoder::Activity;
use super::join::{Join, Launched};
use super::sums::{Row, Sums};
use super::threads::Threads;
use super::{capture, info, source};
use crate::control::{CONTROL, slots};
use crate::merged::{MergedTree, View};
use crate::registry::{self, lock};
use crate::session::Session;
use crate::thread::ThreadTree;
use marey_model::context::ContextSource;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex};

static DEVICES: LazyLock<Mutex<Devices>> = LazyLock::new(Mutex::default);
static ENDED: Mutex<Vec<Arc<ThreadTree>>> = Mutex::new(Vec::new());

/// What the decoder knows. Readers of sums lock it, threads that record never do.
#[derive(Debug, Default)]
pub(super) struct Devices {
    join: Join,
    pub(super) threads: Threads,
    sessions: BTreeMap<u32, SessionDevices>,
}

/// What one session holds.
#[derive(Debug)]
struct SessionDevices {
    view: View,
    /// From which mark on it is in which phase, ascending.
    marks: Vec<(u32, u32)>,
    phases: BTreeMap<u32, Sums>,
}

impl SessionDevices {
    /// The phase of a launch; `None` if it is of an older session in the same slot.
    fn phase_at(&self, mark: u32) -> Option<u32> {
        let passed = self.marks.partition_point(|&(from, _)| from <= mark);
        self.marks.get(passed.checked_sub(1)?).map(|&(_, phase)| phase)
    }
}

pub(super) fn devices() -> std::sync::MutexGuard<'static, Devices> {
    lock(&DEVICES)
}

impl Devices {
    /// Takes the launches over that threads have logged.
    pub(super) fn take_launches(&mut self) {
        for tree in registry::running() {
            self.take_from(&tree);
        }
        for tree in std::mem::take(&mut *lock(&ENDED)) {
            self.take_from(&tree);
            self.threads.ended(&tree);
        }
        if self.threads.are_many() {
            for session in self.sessions.values_mut() {
                for sums in session.phases.values_mut() {
                    sums.fold(session.view, &self.threads);
                }
            }
            let gone = self.threads.forget_ended(&self.join.awaited_threads());
            self.join.forget_threads(&gone);
        }
    }

    fn take_from(&mut self, tree: &Arc<ThreadTree>) {
        let Some(launches) = tree.launches().filter(|launches| !launches.is_empty()) else {
            return;
        };
        let thread = self.threads.number(tree);
        launches.take(|launch| self.join.add(launch, thread));
    }

    /// The launch with this number, if it was logged.
    #[inline]
    pub(super) fn find(&mut self, correlation: u32) -> Option<Launched> {
        self.join.find(correlation)
    }

    /// Adds a kernel's time to the sessions that saw it launched.
    #[inline]
    pub(super) fn add_kernel(&mut self, launched: &Launched, site: u32, activity: &Activity) {
        let launch = &launched.launch;
        let is_named = match site {
            0 => launch.is_named,
            site => capture::with(|sites| sites.get(site).is_some_and(|site| site.is_named)),
        };
        let name = if is_named { 0 } else { activity.name };
        for slot in slots(launch.sessions) {
            let Some(session) = self.sessions.get_mut(&slot) else { continue };
            let Some(phase) = session.phase_at(launch.mark) else { continue };
            let node = match session.view.context {
                ContextSource::Shadow => launch.shadow_node,
                ContextSource::Python => launch.python_node,
            };
            let row = Row { thread: launched.thread, node, site, name, device: activity.device };
            session.phases.entry(phase).or_default().add(row, activity.duration_nanos);
        }
    }
}

/// Adds what devices did in a phase of a session to its tree.
pub(crate) fn fold_into(slot: u32, phase: u32, tree: &mut Arc<MergedTree>) {
    let devices = devices();
    let Some(session) = devices.sessions.get(&slot) else { return };
    if let Some(sums) = session.phases.get(&phase).filter(|sums| !sums.is_empty()) {
        sums.add_to(Arc::make_mut(tree), session.view, &devices.threads);
    }
}

/// A session begins, which does not record yet.
pub(crate) fn begin_session(session: &Session) {
    let marks = vec![(next_mark(), session.phase)];
    let held = SessionDevices { view: session.view(), marks, phases: BTreeMap::new() };
    devices().sessions.insert(session.slot, held);
}

/// A session is over.
pub(crate) fn end_session(slot: u32) {
    devices().sessions.remove(&slot);
}

/// A session enters a phase: what is launched from now on belongs to it.
pub(crate) fn begin_phase(slot: u32, phase: u32) {
    let mut devices = devices();
    let Some(session) = devices.sessions.get_mut(&slot) else { return };
    session.marks.push((next_mark(), phase));
}

/// Drops what devices did in these phases.
pub(crate) fn clear_phases(slot: u32, is_meant: impl Fn(u32) -> bool) {
    if let Some(session) = devices().sessions.get_mut(&slot) {
        session.phases.retain(|&phase, _| !is_meant(phase));
    }
}

/// Whether something that was launched in a phase, or before it, has not been heard of yet.
pub(crate) fn is_waiting(slot: u32, phase: u32) -> bool {
    let mut devices = devices();
    devices.take_launches();
    let Some(session) = devices.sessions.get(&slot) else { return false };
    let next = session.marks.iter().find(|&&(_, later)| later > phase);
    next.is_some_and(|&(from, _)| devices.join.is_waiting_before(from))
}

/// Whether anything that was launched has not been heard of yet.
pub fn is_anything_waiting() -> bool {
    let mut devices = devices();
    devices.take_launches();
    devices.join.is_waiting_before(u32::MAX)
}

/// Everything that was launched before this has been heard of, or never will be.
pub fn nothing_waits() {
    devices().join.forget_waiting();
}

fn next_mark() -> u32 {
    CONTROL.mark.fetch_add(1, Ordering::SeqCst) as u32 + 1
}

/// A thread is over; what it launched may not be.
pub(crate) fn thread_ended(tree: &Arc<ThreadTree>) {
    if tree.launches().is_some() && CONTROL.is_live() {
        lock(&ENDED).push(Arc::clone(tree));
        source::ask_for_drain();
    }
}

/// Recording starts from nothing.
pub(crate) fn begin_epoch() {
    *devices() = Devices::default();
    lock(&ENDED).clear();
    capture::begin_epoch();
}

/// Holds the locks over a fork.
pub(crate) fn hold() -> impl Sized + use<> {
    (devices(), lock(&ENDED), capture::hold(), info::hold())
}

/// In the child of a fork: nothing was launched yet.
pub(crate) fn begin_child<'a>(sessions: impl Iterator<Item = &'a Session>) {
    begin_epoch();
    sessions.for_each(begin_session);
}
