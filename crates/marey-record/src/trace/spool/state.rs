//! The state of the process in the spool: sessions, threads with their open scopes, devices, losses,
//! overhead and the clock. Each is written again when it has changed.

use super::Spool;
use crate::clock::{self, ClockReading};
use crate::control::{CONTROL, bit};
use crate::device;
use crate::local;
use crate::losses;
use crate::metadata;
use crate::scope_frame::OpenScope;
use crate::thread::ThreadTree;
use crate::trace::drain::PERIOD;
use crate::trace::thread::{SpoolOutput, ThreadWriter, VisibleScope};
use crate::trace::tracer::TraceSession;
use marey_model::json::quoted;
use marey_model::spool::{Device, SessionEvent, SpoolFrame};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The time between two writes of the clock, without the time between two drains. Together they
/// make one second.
const CLOCK_PERIOD_NANOS: u64 = 1_000_000_000 - PERIOD.as_nanos() as u64;

impl Spool {
    /// Writes the start of a session, or its state if it continues in this process.
    pub(in crate::trace) fn write_session_start(&mut self, session: &mut TraceSession) {
        let TraceSession { slot, base, start_ticks, phase, is_active, changed_ticks, .. } = session;
        let mut range = self.write_event(*slot, SessionEvent::Started, base, *start_ticks);
        if *phase > 0 {
            range = self.write_event(*slot, SessionEvent::Phase(*phase), base, *changed_ticks);
        }
        if !*is_active {
            range = self.write_event(*slot, SessionEvent::Deactivated, base, *changed_ticks);
        }
        session.phase_start = Some(range.end);
    }

    /// Writes an event of a session. Returns the range of its frame in the spool.
    pub(in crate::trace) fn write_event(
        &mut self,
        slot: u32,
        event: SessionEvent,
        base: &str,
        ticks: u64,
    ) -> Range<u64> {
        let SpoolOutput { clock, buffer, .. } = &mut self.output;
        let (time_nanos, name) = (clock.nanos_at(ticks), base.to_owned());
        let start = buffer.position_bytes();
        buffer.push(&SpoolFrame::Session { session: slot, event, name, time_nanos });
        start..buffer.position_bytes()
    }

    /// Drains the logs of these threads, and writes the process's state.
    pub(in crate::trace) fn drain(&mut self, threads: &[Arc<ThreadTree>]) {
        for thread in threads {
            self.drain_thread(thread);
        }
        self.write_state(threads);
    }

    /// Writes the open scopes, losses, devices and notes that have changed. From time to time also
    /// writes the clock.
    pub(in crate::trace) fn write_state(&mut self, threads: &[Arc<ThreadTree>]) {
        let start_ticks = clock::ticks();
        self.write_open(threads, None);
        self.write_losses();
        self.write_devices_and_notes();
        let since_clock = clock::ticks().saturating_sub(self.last_clock_ticks);
        if clock::nanos(since_clock) >= CLOCK_PERIOD_NANOS {
            self.write_overhead_and_clock();
        }
        self.flushing_nanos += clock::nanos_since(start_ticks);
    }

    /// Drains the log of a thread.
    pub(in crate::trace) fn drain_thread(&mut self, tree: &ThreadTree) {
        if let Some(log) = tree.log().filter(|log| !log.is_empty()) {
            let start_ticks = clock::ticks();
            let (thread, output) = self.thread_writer(tree);
            thread.drain(tree, log, output);
            self.flushing_nanos += clock::nanos_since(start_ticks);
        }
    }

    /// Drains the log of a thread that has ended and exited all of its scopes.
    pub(in crate::trace) fn end_thread(&mut self, tree: &ThreadTree) {
        self.drain_thread(tree);
        if let Some(thread) = self.threads.get_mut(&tree.generation) {
            thread.write_open(tree, &[], &mut self.output);
        }
        // Devices may still report activities that the thread launched.
        if tree.launches().is_none() {
            self.threads.remove(&tree.generation);
        }
    }

    /// Removes the thread with this tree. Nothing more will be written about it.
    pub(in crate::trace) fn remove_thread(&mut self, generation: u64) {
        self.threads.remove(&generation);
    }

    /// Writes the open scopes of the threads, as seen by the session in `slot` or else by all trace
    /// sessions.
    pub(in crate::trace) fn write_open(&mut self, threads: &[Arc<ThreadTree>], slot: Option<u32>) {
        let sessions = slot.map_or_else(|| CONTROL.trace_sessions.load(Ordering::Relaxed), bit);
        for tree in threads {
            let scopes = tree.open_scopes();
            let open: Vec<_> =
                scopes.iter().filter_map(|scope| visible_scope(scope, sessions)).collect();
            if !open.is_empty() || self.threads.contains_key(&tree.generation) {
                let (thread, output) = self.thread_writer(tree);
                thread.write_open(tree, &open, output);
            }
        }
    }

    pub(super) fn thread_writer(
        &mut self,
        tree: &ThreadTree,
    ) -> (&mut ThreadWriter, &mut SpoolOutput) {
        let Self { threads, thread_count, output, .. } = self;
        let thread = threads.entry(tree.generation).or_insert_with(|| {
            *thread_count += 1;
            ThreadWriter::new(*thread_count - 1, tree, &mut output.buffer)
        });
        (thread, output)
    }

    pub(super) fn write_losses(&mut self) {
        let losses = losses::snapshot();
        if losses != self.losses {
            let nonzero = losses.iter().copied().filter(|&(_, count)| count > 0).collect();
            self.output.buffer.push(&SpoolFrame::Losses(nonzero));
            self.losses = losses;
        }
    }

    /// Writes devices and notes that are new since the last call.
    fn write_devices_and_notes(&mut self) {
        let (devices, notes) = (device::devices(), device::notes());
        for device in devices.iter().filter(|device| !self.devices.contains(device)) {
            self.output.buffer.push(&SpoolFrame::Device(Device {
                number: device.number,
                device_type: device.device_type.clone(),
                name: device.name.clone(),
                properties: device::device_json(device),
            }));
        }
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            let (key, value) = (note.0.clone().into_owned(), quoted(&note.1));
            self.output.buffer.push(&SpoolFrame::Note { key, value });
        }
        (self.devices, self.notes) = (devices, notes);
    }

    /// Writes the overhead and the clock. The start of the spool does not call this, because the
    /// cost of a scope is measured only after the session has begun.
    pub(in crate::trace) fn write_overhead_and_clock(&mut self) {
        self.output.buffer.push(&SpoolFrame::Overhead(metadata::overhead(self.flushing_nanos)));
        self.write_clock(ClockReading::now());
    }

    pub(super) fn write_clock(&mut self, now: ClockReading) {
        self.last_clock_ticks = now.ticks;
        self.output.buffer.push(&SpoolFrame::Clock {
            monotonic_nanos: self.output.clock.nanos_at(now.ticks),
            unix_nanos: now.unix_nanos.cast_signed(),
        });
    }
}

/// Returns an open scope, if one of these sessions sees it and the program will exit it here.
fn visible_scope(scope: &OpenScope, sessions: u64) -> Option<VisibleScope> {
    let seen = scope.sessions & sessions;
    if seen == 0 || !local::is_entered_by_program(scope) {
        return None;
    }
    let shadow_sessions = seen & !CONTROL.python_sessions.load(Ordering::Relaxed);
    let (node, sessions) = if shadow_sessions == 0 {
        (scope.python_node, seen)
    } else {
        (scope.shadow_node, shadow_sessions)
    };
    Some(VisibleScope { node, start_ticks: scope.start_ticks, sessions })
}
