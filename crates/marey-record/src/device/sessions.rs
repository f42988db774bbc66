//! What sessions hold of devices: sums by phase, and which phase a launch belongs to.

use super::decoder::Activity;
use super::join::{Join, Launched};
use super::sums::{Row, Sums};
use super::threads::Threads;
use super::{capture, info, source};
use crate::control::{CONTROL, slots};
use crate::lock::{Locked, lock};
use crate::losses;
use crate::merged::{MergedTree, View};
use crate::registry;
use crate::session::Session;
use crate::thread::ThreadTree;
use crate::trace;
use marey_model::context::ContextSource;
use marey_model::loss::LossCause;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

static DEVICES: LazyLock<Mutex<Devices>> = LazyLock::new(Mutex::default);
static ENDED: Mutex<Vec<Arc<ThreadTree>>> = Mutex::new(Vec::new());

/// What the decoder knows. Readers of sums lock it, threads that record never do.
#[derive(Debug, Default)]
pub(super) struct Devices {
    join: Join,
    pub(super) threads: Threads,
    /// By slot.
    sessions: Vec<Option<SessionDevices>>,
}

/// What one session holds.
#[derive(Debug)]
struct SessionDevices {
    view: View,
    /// Since when it is in which phase, ascending.
    marks: Vec<Mark>,
    /// The newest last.
    phases: Vec<(u32, Sums)>,
}

/// A session enters a phase.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The first mark of launches in it.
    from: u32,
    phase: u32,
    fate: Fate,
    at: Instant,
}

/// What became of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is open, or closed and still here.
    Kept,
    /// Nobody wants to know of its launches.
    Cleared,
    /// It is in its file: what comes of its launches now is lost.
    Written,
}

impl Mark {
    fn now(phase: u32) -> Self {
        Self { from: next_mark(), phase, fate: Fate::Kept, at: Instant::now() }
    }
}

/// A phase is complete so long after its end, whatever has not been heard of: nothing comes of some
/// launches, as of a graph without kernels, and records get lost.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl SessionDevices {
    /// The phase of a launch; `None` if it is of an older session in the same slot, was cleared, or is in
    /// its file, which is counted as a loss.
    fn phase_at(&self, mark: u32) -> Option<u32> {
        let passed = self.marks.iter().rev().find(|passed| passed.from <= mark)?;
        if passed.fate == Fate::Written {
            losses::count(LossCause::DeviceRecord);
        }
        (passed.fate == Fate::Kept).then_some(passed.phase)
    }

    fn sums(&self, phase: u32) -> Option<&Sums> {
        self.phases.iter().find(|(of, _)| *of == phase).map(|(_, sums)| sums)
    }

    fn sums_mut(&mut self, phase: u32) -> &mut Sums {
        let at = self.phases.iter().rposition(|(of, _)| *of == phase).unwrap_or_else(|| {
            self.phases.push((phase, Sums::default()));
            self.phases.len() - 1
        });
        &mut self.phases[at].1
    }
}

pub(super) fn devices() -> Locked<'static, Devices> {
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
            // The thread is over, and others look at its log under the lock that we hold.
            drop(tree.take_launches());
            self.threads.ended(&tree);
        }
        if self.threads.are_many() {
            for session in self.sessions.iter_mut().flatten() {
                for (_, sums) in &mut session.phases {
                    sums.fold(session.view, &self.threads);
                }
            }
            let gone = self.threads.forget_ended(&self.join.awaited_threads());
            self.join.forget_threads(&gone);
            trace::forget_threads(gone.into_values());
        }
    }

    fn take_from(&mut self, tree: &Arc<ThreadTree>) {
        let is_of_now = tree.epoch == CONTROL.epoch.load(Ordering::SeqCst);
        let launches = tree.launches().filter(|launches| is_of_now && !launches.is_empty());
        let Some(launches) = launches else { return };
        let thread = self.threads.number(tree);
        launches.take(|record| self.join.add(record, thread));
    }

    fn session(&self, slot: u32) -> Option<&SessionDevices> {
        self.sessions.get(slot as usize)?.as_ref()
    }

    #[inline]
    fn session_mut(&mut self, slot: u32) -> Option<&mut SessionDevices> {
        self.sessions.get_mut(slot as usize)?.as_mut()
    }

    fn place_of(&mut self, slot: u32) -> &mut Option<SessionDevices> {
        let at = slot as usize;
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        &mut self.sessions[at]
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
            // A graph that was made before anybody listened may be many kernels.
            0 => launch.is_named && activity.graph_node == 0,
            site => capture::with(|sites| sites.get(site).is_some_and(|site| site.is_named)),
        };
        let name = if is_named { 0 } else { activity.name };
        for slot in slots(launch.sessions) {
            let Some(session) = self.session_mut(slot) else { continue };
            let Some(phase) = session.phase_at(launch.mark) else { continue };
            let node = match session.view.context {
                ContextSource::Shadow => launch.shadow_node,
                ContextSource::Python => launch.python_node,
            };
            let row = Row { thread: launched.thread, node, site, name, device: activity.device };
            session.sums_mut(phase).add(row, activity.duration_nanos);
        }
    }
}

/// Adds what devices did in a phase of a session to its tree.
pub(crate) fn fold_into(slot: u32, phase: u32, tree: &mut Arc<MergedTree>) {
    let devices = devices();
    let Some(session) = devices.session(slot) else { return };
    if let Some(sums) = session.sums(phase).filter(|sums| !sums.is_empty()) {
        sums.add_to(Arc::make_mut(tree), session.view, &devices.threads);
    }
}

/// The same for a phase that goes to its file now: what devices tell of it later is lost.
pub(crate) fn fold_for_good(slot: u32, phase: u32, tree: &mut Arc<MergedTree>) {
    if let Some(session) = devices().session_mut(slot) {
        let is_kept = |mark: &&mut Mark| mark.phase == phase && mark.fate == Fate::Kept;
        for mark in session.marks.iter_mut().filter(is_kept) {
            mark.fate = Fate::Written;
        }
        // Of phases in a row that are written, the first mark stands for all.
        session.marks.dedup_by(|later, earlier| {
            (later.fate, earlier.fate) == (Fate::Written, Fate::Written)
        });
    }
    fold_into(slot, phase, tree);
}

/// A session begins, which does not record yet.
pub(crate) fn begin_session(session: &Session) {
    let marks = vec![Mark::now(session.phase)];
    let held = SessionDevices { view: session.view(), marks, phases: Vec::new() };
    *devices().place_of(session.slot) = Some(held);
}

/// A session is over.
pub(crate) fn end_session(slot: u32) {
    *devices().place_of(slot) = None;
}

/// A session enters a phase: what is launched from now on belongs to it.
pub(crate) fn begin_phase(slot: u32, phase: u32) {
    let mut devices = devices();
    let Some(session) = devices.session_mut(slot) else { return };
    session.marks.push(Mark::now(phase));
}

/// Drops what devices did in these phases.
pub(crate) fn clear_phases(slot: u32, is_meant: impl Fn(u32) -> bool) {
    if let Some(session) = devices().session_mut(slot) {
        session.phases.retain(|&(phase, _)| !is_meant(phase));
        for mark in session.marks.iter_mut().filter(|mark| is_meant(mark.phase)) {
            mark.fate = Fate::Cleared;
        }
    }
}

/// Lets go of what devices did in a phase that [`fold_for_good`] was called for.
pub(crate) fn forget_phase(slot: u32, phase: u32) {
    if let Some(session) = devices().session_mut(slot) {
        session.phases.retain(|&(of, _)| of != phase);
    }
}

/// Whether something that was launched in a phase, or before it, has not been heard of yet.
pub(crate) fn is_waiting(slot: u32, phase: u32) -> bool {
    let mut devices = devices();
    devices.take_launches();
    let Some(session) = devices.session(slot) else { return false };
    let next = session.marks.iter().find(|mark| mark.phase > phase);
    next.is_some_and(|next| {
        next.at.elapsed() < LONGEST_WAIT && devices.join.is_waiting_before(next.from)
    })
}

/// A flush begins. Returns the mark that all launches before it are older than.
pub fn begin_flush() -> u32 {
    next_mark()
}

/// Whether anything of an older mark than this has not been heard of yet.
pub fn is_waiting_before(mark: u32) -> bool {
    let mut devices = devices();
    devices.take_launches();
    devices.join.is_waiting_before(mark)
}

/// Waits no more for what is of an older mark than this. Returns how many kernels have not been heard of.
pub fn nothing_waits_before(mark: u32) -> u64 {
    devices().join.forget_waiting_before(mark)
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
