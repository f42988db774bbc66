//! The device data of the sessions: sums by phase, and the assignment of each launch to a phase by
//! its stamp.

use super::decoder::Activity;
use super::join::{LaunchTable, Launched};
use super::sums::{KernelKey, Sums};
use super::threads::LaunchingThreads;
use super::{capture, source};
use crate::control::{CONTROL, slots};
use crate::lock::{Locked, lock};
use crate::losses;
use crate::merged::{MergedTree, SessionView};
use crate::registry;
use crate::session::Session;
use crate::thread::ThreadTree;
use crate::trace;
use marey_model::context::ContextSource;
use marey_model::loss::LossCause;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

static DEVICES: LazyLock<Mutex<Devices>> = LazyLock::new(Mutex::default);
static ENDED_THREADS: Mutex<Vec<Arc<ThreadTree>>> = Mutex::new(Vec::new());

/// The state of the decoder. Readers of sums lock it; threads that record never do.
#[derive(Debug, Default)]
pub(super) struct Devices {
    launches: LaunchTable,
    pub(super) threads: LaunchingThreads,
    /// By slot.
    sessions: Vec<Option<SessionDevices>>,
}

/// The device data of one session.
#[derive(Debug)]
struct SessionDevices {
    view: SessionView,
    /// The starts of its phases, ascending.
    phase_starts: Vec<PhaseStart>,
    /// The newest last.
    phases: Vec<(u32, Sums)>,
}

/// The start of a phase of a session.
#[derive(Clone, Copy, Debug)]
struct PhaseStart {
    /// The first stamp of launches in the phase.
    first_stamp: u32,
    phase: u32,
    state: PhaseState,
    started: Instant,
}

/// The state of a phase, which decides what happens to activities that arrive for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseState {
    /// The phase is open, or closed and in memory. Its activities are added.
    InMemory,
    /// The phase was cleared. Its activities are ignored.
    Cleared,
    /// The phase was written to its file. Its activities are lost.
    Written,
}

impl PhaseStart {
    fn now(phase: u32) -> Self {
        Self {
            first_stamp: next_stamp(),
            phase,
            state: PhaseState::InMemory,
            started: Instant::now(),
        }
    }
}

/// The time after the end of a phase after which it counts as complete although activities are
/// missing. Some launches cause no activity, such as a graph without kernels, and records may be
/// lost.
const ACTIVITY_TIMEOUT: Duration = Duration::from_secs(10);

impl SessionDevices {
    /// Returns the phase of a launch. `None` if the launch belongs to an older session in the same
    /// slot, or if its phase was cleared or written. The last case is counted as a loss.
    fn phase_of_launch(&self, stamp: u32) -> Option<u32> {
        let start = self.phase_starts.iter().rev().find(|start| start.first_stamp <= stamp)?;
        if start.state == PhaseState::Written {
            losses::count(LossCause::DeviceRecord);
        }
        (start.state == PhaseState::InMemory).then_some(start.phase)
    }

    /// Sets the state of these phases, except those that were cleared before.
    fn set_state(&mut self, phases: &RangeInclusive<u32>, state: PhaseState) {
        let first = self.phase_starts.partition_point(|start| start.phase < *phases.start());
        let starts = self.phase_starts.iter_mut().skip(first);
        starts
            .take_while(|start| phases.contains(&start.phase))
            .filter(|start| start.state != PhaseState::Cleared)
            .for_each(|start| start.state = state);
        // One entry is enough for consecutive phases that are no longer in memory.
        self.phase_starts.dedup_by(|later, earlier| {
            later.state == earlier.state && later.state != PhaseState::InMemory
        });
    }

    fn sums(&self, phase: u32) -> Option<&Sums> {
        self.phases.iter().find(|(number, _)| *number == phase).map(|(_, sums)| sums)
    }

    fn sums_mut(&mut self, phase: u32) -> &mut Sums {
        let index =
            self.phases.iter().rposition(|(number, _)| *number == phase).unwrap_or_else(|| {
                self.phases.push((phase, Sums::default()));
                self.phases.len() - 1
            });
        &mut self.phases[index].1
    }
}

pub(super) fn devices() -> Locked<'static, Devices> {
    lock(&DEVICES)
}

impl Devices {
    /// Takes the launches that threads have logged.
    pub(super) fn take_launches(&mut self) {
        for tree in registry::running_threads() {
            self.take_thread_launches(&tree);
        }
        for tree in std::mem::take(&mut *lock(&ENDED_THREADS)) {
            self.take_thread_launches(&tree);
            // The thread has ended, and every other reader of its log takes the lock that this
            // thread holds.
            drop(tree.take_launches());
            self.threads.mark_ended(&tree);
        }
        if self.threads.has_too_many_ended() {
            for session in self.sessions.iter_mut().flatten() {
                for (_, sums) in &mut session.phases {
                    sums.fold(session.view, &self.threads);
                }
            }
            let removed = self.threads.remove_ended(&self.launches.awaited_threads());
            self.launches.remove_threads(&removed);
            trace::remove_threads(removed.into_values());
        }
    }

    fn take_thread_launches(&mut self, tree: &Arc<ThreadTree>) {
        let is_current = tree.epoch == CONTROL.epoch.load(Ordering::SeqCst);
        let launches = tree.launches().filter(|launches| is_current && !launches.is_empty());
        let Some(launches) = launches else { return };
        let thread = self.threads.number_or_assign(tree);
        launches.drain(|record| self.launches.add(record, thread));
    }

    fn session(&self, slot: u32) -> Option<&SessionDevices> {
        self.sessions.get(slot as usize)?.as_ref()
    }

    #[inline]
    fn session_mut(&mut self, slot: u32) -> Option<&mut SessionDevices> {
        self.sessions.get_mut(slot as usize)?.as_mut()
    }

    fn session_entry(&mut self, slot: u32) -> &mut Option<SessionDevices> {
        let index = slot as usize;
        if self.sessions.len() <= index {
            self.sessions.resize_with(index + 1, || None);
        }
        &mut self.sessions[index]
    }

    /// Returns the launch with this correlation id, if it was logged.
    #[inline]
    pub(super) fn find_launch(&mut self, correlation_id: u32) -> Option<Launched> {
        self.launches.find(correlation_id)
    }

    /// Adds a kernel's duration to the sessions that saw its launch.
    #[inline]
    pub(super) fn add_kernel(
        &mut self,
        launched: &Launched,
        site_number: u32,
        activity: &Activity,
    ) {
        let launch = &launched.launch;
        let is_named = match site_number {
            // A graph that was made before recording began may contain many kernels.
            0 => launch.is_named && activity.graph_node == 0,
            number => {
                capture::with_sites(|sites| sites.get(number).is_some_and(|site| site.is_named))
            }
        };
        let name_id = if is_named { 0 } else { activity.name_id };
        for slot in slots(launch.sessions) {
            let Some(session) = self.session_mut(slot) else { continue };
            let Some(phase) = session.phase_of_launch(launch.stamp) else { continue };
            let node = match session.view.context {
                ContextSource::Shadow => launch.shadow_node,
                ContextSource::Python => launch.python_node,
            };
            let key = KernelKey {
                thread_number: launched.thread_number,
                node,
                site_number,
                name_id,
                device: activity.device,
            };
            session.sums_mut(phase).add(key, activity.duration_nanos);
        }
    }
}

/// Adds the device data of a phase to its tree.
pub(crate) fn add_to_tree(slot: u32, phase: u32, tree: &mut Arc<MergedTree>) {
    let devices = devices();
    let Some(session) = devices.session(slot) else { return };
    if let Some(sums) = session.sums(phase).filter(|sums| !sums.is_empty()) {
        sums.add_to(Arc::make_mut(tree), session.view, &devices.threads);
    }
}

/// Adds the device data of a phase to its tree, which is about to be written to its file.
/// Activities that arrive later are lost.
pub(crate) fn add_final_to_tree(slot: u32, phase: u32, tree: &mut Arc<MergedTree>) {
    if let Some(session) = devices().session_mut(slot) {
        session.set_state(&(phase..=phase), PhaseState::Written);
    }
    add_to_tree(slot, phase, tree);
}

/// Adds a session, before it records.
pub(crate) fn begin_session(session: &Session) {
    let phase_starts = vec![PhaseStart::now(session.phase)];
    let data = SessionDevices { view: session.view(), phase_starts, phases: Vec::new() };
    *devices().session_entry(session.slot) = Some(data);
}

/// Removes a session.
pub(crate) fn end_session(slot: u32) {
    *devices().session_entry(slot) = None;
}

/// Begins a phase of a session: launches from now on belong to it.
pub(crate) fn begin_phase(slot: u32, phase: u32) {
    let mut devices = devices();
    let Some(session) = devices.session_mut(slot) else { return };
    session.phase_starts.push(PhaseStart::now(phase));
}

/// Drops the device data of these phases.
pub(crate) fn clear_phases(slot: u32, phases: &RangeInclusive<u32>) {
    if let Some(session) = devices().session_mut(slot) {
        session.phases.retain(|(phase, _)| !phases.contains(phase));
        session.set_state(phases, PhaseState::Cleared);
    }
}

/// Drops the device data of a phase after [`add_final_to_tree`].
pub(crate) fn drop_phase(slot: u32, phase: u32) {
    if let Some(session) = devices().session_mut(slot) {
        session.phases.retain(|&(number, _)| number != phase);
    }
}

/// Whether a launch in this phase or an earlier one still has no activity.
pub(crate) fn is_phase_waiting(slot: u32, phase: u32) -> bool {
    let mut devices = devices();
    devices.take_launches();
    let Some(session) = devices.session(slot) else { return false };
    let next = session.phase_starts.iter().find(|start| start.phase > phase);
    next.is_some_and(|next| {
        next.started.elapsed() < ACTIVITY_TIMEOUT
            && devices.launches.is_waiting_before(next.first_stamp)
    })
}

/// Begins a flush. Returns a stamp that is newer than the stamps of all launches so far.
pub fn begin_flush() -> u32 {
    next_stamp()
}

/// Whether a launch with an older stamp still has no activity.
pub fn is_waiting_before(stamp: u32) -> bool {
    let mut devices = devices();
    devices.take_launches();
    devices.launches.is_waiting_before(stamp)
}

/// Stops waiting for launches with older stamps. Returns how many kernels among them have no
/// activity.
pub fn stop_waiting_before(stamp: u32) -> u64 {
    devices().launches.stop_waiting_before(stamp)
}

fn next_stamp() -> u32 {
    CONTROL.stamp.fetch_add(1, Ordering::SeqCst) as u32 + 1
}

/// Keeps the log of a thread that has ended, because its launches may not have finished.
pub(crate) fn end_thread(tree: &Arc<ThreadTree>) {
    if tree.launches().is_some() && CONTROL.is_live() {
        lock(&ENDED_THREADS).push(Arc::clone(tree));
        source::request_drain();
    }
}

/// Resets the state at the start of an epoch.
pub(crate) fn begin_epoch() {
    *devices() = Devices::default();
    lock(&ENDED_THREADS).clear();
    capture::begin_epoch();
}

/// Takes the locks for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized + use<> {
    (devices(), lock(&ENDED_THREADS), capture::lock_for_fork())
}

/// Resets the state in the child of a fork, which has launched nothing.
pub(crate) fn begin_child<'a>(sessions: impl Iterator<Item = &'a Session>) {
    begin_epoch();
    sessions.for_each(begin_session);
}
