//! Two looks at a rank, some time apart: frames that have not moved between them are its place.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::job::Process;
use super::place::{self, Place};
use crate::process::{self, Times};
use crate::rank::Rank;
use crate::wait::Wait;
use crate::{AttachError, Frame, ReadOptions, Snapshot, Target, Thread};

/// Share of the time between two looks above which a thread has run and not waited.
const BUSY_SHARE: f64 = 0.2;

/// The activity of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// The process used the processor between the looks, or was ready to at both.
    Runs,
    /// The process sleeps.
    Waits,
    /// A debugger or a signal has stopped the process.
    Stopped,
    /// The process has ended, and its parent has not waited for it.
    Ended,
    /// The memory of the process could not be read.
    Unreadable,
}

/// A process of a job, as two looks have found it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Member {
    /// The host that was reached by ssh; `None` for this one.
    pub host: Option<String>,
    /// Process id in the operating system.
    pub pid: u32,
    /// The place in the job; `None` if the process has none.
    pub rank: Option<Rank>,
    /// The activity of the process.
    pub state: MemberState,
    /// The code that the process runs or waits in.
    pub place: Place,
    /// Whether the stack changed between the looks.
    pub is_moving: bool,
    /// The system call that the process waits in.
    pub wait: Option<Wait>,
    /// The least time of the wait: since the thread last ran, or the first look.
    pub idle_secs: Option<f64>,
    /// Frames of the thread that both looks have in common, the innermost first.
    pub frames: Vec<Frame>,
    /// The other threads with Python frames, without those that wait for work.
    pub other_threads: Vec<Thread>,
    /// The processes that this process has started.
    pub children: Vec<Member>,
    /// The reason why the process could not be read.
    pub problem: Option<String>,
    /// A way to mend the problem, if one is known.
    pub hint: Option<String>,
}

/// The first look at a process.
pub(crate) struct FirstLook {
    process: Process,
    read: Result<(Target, Snapshot), AttachError>,
    times: Times,
    taken_at: Instant,
}

impl FirstLook {
    /// Looks at a process for the first time.
    pub(crate) fn take(process: Process) -> Self {
        let pid = process.pid;
        let options = ReadOptions { reads_waits: true, ..ReadOptions::default() };
        let read = Target::open(pid, options).and_then(|mut target| {
            let snapshot = target.snapshot()?;
            Ok((target, snapshot))
        });
        let thread_id =
            read.as_ref().map_or(pid.into(), |(_, snapshot)| judged_thread(snapshot, pid));
        let times = process::times(pid, thread_id).unwrap_or_default();
        Self { process, read, times, taken_at: Instant::now() }
    }

    /// Looks again.
    ///
    /// With `reads_native_frames`, a process that has not moved and is in its program is stopped
    /// for a moment, and its native frames are read.
    pub(crate) fn look_again(self, reads_native_frames: bool) -> Member {
        let process = self.process;
        let read_again = |(mut target, first): (Target, Snapshot)| {
            let second = target.snapshot()?;
            let is_same = process.still_has_id();
            is_same.then_some((first, second)).ok_or(AttachError::NoProcess(process.pid))
        };
        let (first, second) = match self.read.and_then(read_again) {
            Ok(snapshots) => snapshots,
            Err(error) => return unreadable_member(&process, &error),
        };
        let thread_id = judged_thread(&first, process.pid);
        let elapsed = self.taken_at.elapsed();
        let second_times = process::times(process.pid, thread_id).unwrap_or_default();
        let looks = TwoLooks {
            thread_id,
            first,
            second,
            elapsed,
            cpu_time: second_times.cpu_time.saturating_sub(self.times.cpu_time),
            idle: second_times.idle,
        };
        looks.into_member(process, reads_native_frames)
    }
}

/// Returns the member of a process that cannot be read.
fn unreadable_member(process: &Process, error: &AttachError) -> Member {
    let pid = process.pid;
    let state = match process::state(pid, pid.into()) {
        _ if !process.still_has_id() => MemberState::Ended,
        None | Some('Z' | 'X') => MemberState::Ended,
        Some('T' | 't') => MemberState::Stopped,
        Some(_) => MemberState::Unreadable,
    };
    Member {
        problem: Some(error.to_string()),
        hint: error.hint(),
        ..Member::with_state(pid, process.rank.clone(), state)
    }
}

/// Both looks at a process, and the times of the thread by which it is judged.
struct TwoLooks {
    thread_id: u64,
    first: Snapshot,
    second: Snapshot,
    /// Time between the looks.
    elapsed: Duration,
    /// Time between the looks for which the thread was on a processor.
    cpu_time: Duration,
    /// Time since the thread last ran, at the second look.
    idle: Option<Duration>,
}

impl TwoLooks {
    fn into_member(self, process: Process, reads_native_frames: bool) -> Member {
        let pid = process.pid;
        let (before, after) = (self.frames_in(&self.first), self.frames_in(&self.second));
        let is_moving = before != after;
        let mut frames = common_frames(&before, &after);
        let mut place = Place::of_frames(&frames);
        if reads_native_frames
            && place == Place::Program
            && !is_moving
            && let Some(merged) = native_frames(pid, self.thread_id)
        {
            place = Place::of_frames(&merged);
            frames = merged;
        }
        let state = self.state(pid);
        let idle = self.idle_time(is_moving).filter(|_| state != MemberState::Runs);
        let (judged_threads, other_threads): (Vec<Thread>, Vec<Thread>) = self
            .second
            .threads
            .into_iter()
            .partition(|thread| thread.os_id == Some(self.thread_id));
        let is_shown = |thread: &Thread| !thread.frames.is_empty() && !place::is_of_pool(thread);
        let wait = judged_threads.into_iter().find_map(|thread| thread.wait);
        Member {
            place,
            is_moving,
            wait: wait.filter(|_| state == MemberState::Waits),
            idle_secs: idle.map(|idle| idle.as_secs_f64()),
            frames,
            other_threads: other_threads.into_iter().filter(is_shown).collect(),
            ..Member::with_state(pid, process.rank, state)
        }
    }

    /// Returns the thread by which the process is judged, as a snapshot has it.
    fn thread_in<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Thread> {
        snapshot.threads.iter().find(|thread| thread.os_id == Some(self.thread_id))
    }

    fn frames_in(&self, snapshot: &Snapshot) -> Vec<Frame> {
        self.thread_in(snapshot).map(|thread| thread.frames.clone()).unwrap_or_default()
    }

    fn state(&self, pid: u32) -> MemberState {
        // On a processor that others use too, a thread that is ready may hardly run.
        let is_ready =
            |snapshot: &Snapshot| self.thread_in(snapshot).is_some_and(|thread| thread.is_running);
        let is_always_ready = is_ready(&self.first) && is_ready(&self.second);
        let is_busy = self.cpu_time.as_secs_f64() > BUSY_SHARE * self.elapsed.as_secs_f64();
        match process::state(pid, self.thread_id) {
            Some('T' | 't') => MemberState::Stopped,
            _ if is_always_ready || is_busy => MemberState::Runs,
            _ => MemberState::Waits,
        }
    }

    /// Returns the time for which the thread has waited at least, if it is known.
    fn idle_time(&self, is_moving: bool) -> Option<Duration> {
        // A thread that looks now and then whether it may go on has waited since before the looks.
        match self.idle {
            Some(idle) if !is_moving => Some(idle.max(self.elapsed)),
            None if !is_moving => Some(self.elapsed),
            idle => idle,
        }
    }
}

impl Member {
    /// Returns a process of this host of which nothing else is known.
    pub(super) const fn with_state(pid: u32, rank: Option<Rank>, state: MemberState) -> Self {
        Self {
            host: None,
            pid,
            rank,
            state,
            place: Place::Program,
            is_moving: false,
            wait: None,
            idle_secs: None,
            frames: Vec::new(),
            other_threads: Vec::new(),
            children: Vec::new(),
            problem: None,
            hint: None,
        }
    }

    /// Looks at the processes that this one has started.
    pub(crate) fn add_children(&mut self, interval: Duration) {
        let children = process::descendants(self.pid).into_iter();
        let looks: Vec<FirstLook> =
            children.map(|pid| FirstLook::take(Process::with_id(pid))).collect();
        if !looks.is_empty() {
            pause(interval);
        }
        self.children = looks.into_iter().map(|look| look.look_again(false)).collect();
    }
}

/// Waits for the time between two looks.
pub(crate) fn pause(interval: Duration) {
    let start = Instant::now();
    while let Some(left) = interval.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}

/// Returns the native and Python frames of a thread, `None` if native ones cannot be read.
fn native_frames(pid: u32, id: u64) -> Option<Vec<Frame>> {
    let options = ReadOptions { reads_native_frames: true, ..ReadOptions::default() };
    let threads = Target::open(pid, options).ok()?.snapshot().ok()?.threads;
    let thread = threads.into_iter().find(|thread| thread.os_id == Some(id))?;
    thread.has_native_frames.then_some(thread.frames)
}

/// Returns the thread by which a process is judged: one in a collective, else the first one.
fn judged_thread(snapshot: &Snapshot, pid: u32) -> u64 {
    let is_first = |thread: &Thread| thread.os_id == Some(pid.into());
    let is_collective =
        |thread: &Thread| matches!(Place::of_frames(&thread.frames), Place::Collective { .. });
    let threads = || snapshot.threads.iter();
    let found = threads().find(|thread| is_first(thread) && is_collective(thread));
    let found = found.or_else(|| threads().find(|thread| is_collective(thread)));
    found.and_then(|thread| thread.os_id).unwrap_or_else(|| pid.into())
}

/// Returns the outermost frames that two stacks share. The line of the frame in which they part
/// comes from the second.
fn common_frames(before: &[Frame], after: &[Frame]) -> Vec<Frame> {
    let is_same_call = |a: &Frame, b: &Frame| (&a.function, &a.file) == (&b.function, &b.file);
    let pairs = before.iter().rev().zip(after.iter().rev());
    let mut common = 0;
    for (a, b) in pairs {
        if !is_same_call(a, b) {
            break;
        }
        common += 1;
        if a.line != b.line {
            break;
        }
    }
    after[after.len() - common..].to_vec()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_with_the_id_of_an_ended_one_is_not_that_process() {
        let mut program = Command::new("sleep").arg("100").spawn().unwrap();
        let look = |process| FirstLook::take(process).look_again(false).state;
        // Not Python.
        assert_eq!(look(Process::with_id(program.id())), MemberState::Unreadable);
        assert_eq!(look(Process::ended_with_id(program.id())), MemberState::Ended);
        program.kill().unwrap();
        program.wait().unwrap();
    }

    #[test]
    fn frames_up_to_the_first_that_moved_are_common() {
        let stack = |calls: &[(&str, i32)]| -> Vec<Frame> {
            calls.iter().map(|&(function, line)| Frame::of_python(function, "f", line)).collect()
        };
        let before = stack(&[("inner", 1), ("step", 5), ("main", 9)]);
        for (after, expected) in [
            (stack(&[("inner", 1), ("step", 5), ("main", 9)]), 3),
            (stack(&[("inner", 2), ("step", 5), ("main", 9)]), 3),
            (stack(&[("other", 1), ("step", 5), ("main", 9)]), 2),
            (stack(&[("inner", 1), ("step", 6), ("main", 9)]), 2),
            (stack(&[("main", 8)]), 1),
            (stack(&[("other", 8)]), 0),
            (stack(&[]), 0),
        ] {
            assert_eq!(common_frames(&before, &after).len(), expected, "{after:?}");
        }
    }
}
