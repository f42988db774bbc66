//! Two looks at a rank, some time apart: frames that have not moved between them are its place.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::job::Process;
use super::place::{self, Place};
use crate::process::{self, Times};
use crate::rank::Rank;
use crate::wait::Wait;
use crate::{AttachError, Frame, Options, Snapshot, Target, Thread};

/// Share of the time between two looks above which a thread has run and not waited.
const BUSY_SHARE: f64 = 0.2;

/// The activity of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It used the processor between the looks, or was ready to at both.
    Runs,
    /// It sleeps.
    Waits,
    /// A debugger or a signal has stopped it.
    Stopped,
    /// It has ended, and its parent has not waited for it.
    Ended,
    /// Its memory could not be read.
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
    pub state: State,
    /// Its place.
    pub place: Place,
    /// Whether the stack changed between the looks.
    pub is_moving: bool,
    /// The system call that it waits in.
    pub wait: Option<Wait>,
    /// Time for which it has waited at least: since its thread last ran, or the first look.
    pub idle_secs: Option<f64>,
    /// Frames of its thread that both looks have in common, the innermost first.
    pub frames: Vec<Frame>,
    /// Its other threads with Python frames, without those that wait for work.
    pub other_threads: Vec<Thread>,
    /// The processes that it has started.
    pub children: Vec<Member>,
    /// Why it could not be read.
    pub problem: Option<String>,
    /// How to mend the problem, if that is known.
    pub hint: Option<String>,
}

/// The first look at a process.
pub(crate) struct Look {
    process: Process,
    read: Result<(Target, Snapshot), AttachError>,
    times: Times,
    time: Instant,
}

impl Look {
    /// Looks at a process for the first time.
    pub(crate) fn begin(process: Process) -> Self {
        let pid = process.pid;
        let options = Options { reads_waits: true, ..Options::default() };
        let read = Target::open(pid, options).and_then(|mut target| {
            let snapshot = target.snapshot()?;
            Ok((target, snapshot))
        });
        let id = read.as_ref().map_or(pid.into(), |(_, snapshot)| thread_of(snapshot, pid));
        let times = process::times(pid, id).unwrap_or_default();
        Self { process, read, times, time: Instant::now() }
    }

    /// Looks again.
    ///
    /// With `reads_native_frames`, a process that has not moved and is in its program is stopped for a moment, and
    /// its native frames are read.
    pub(crate) fn end(self, reads_native_frames: bool) -> Member {
        let process = self.process;
        let (pid, rank) = (process.pid, process.rank.clone());
        let unreadable = |error: &AttachError| Member {
            host: None,
            pid,
            rank: rank.clone(),
            state: match process::state(pid, pid.into()) {
                _ if !process.still_has_id() => State::Ended,
                None | Some('Z' | 'X') => State::Ended,
                Some('T' | 't') => State::Stopped,
                Some(_) => State::Unreadable,
            },
            place: Place::Program,
            is_moving: false,
            wait: None,
            idle_secs: None,
            frames: Vec::new(),
            other_threads: Vec::new(),
            children: Vec::new(),
            problem: Some(error.to_string()),
            hint: error.hint(),
        };
        let (mut target, first) = match self.read {
            Ok(read) => read,
            Err(error) => return unreadable(&error),
        };
        let id = thread_of(&first, pid);
        let second = match target.snapshot() {
            Ok(second) => second,
            Err(error) => return unreadable(&error),
        };
        if !process.still_has_id() {
            return unreadable(&AttachError::NoProcess(pid));
        }
        let elapsed = self.time.elapsed();
        let times = process::times(pid, id).unwrap_or_default();
        let ran = times.cpu.saturating_sub(self.times.cpu);
        let frames_of = |snapshot: &Snapshot| {
            let thread = snapshot.threads.iter().find(|thread| thread.os_id == Some(id));
            thread.map(|thread| thread.frames.clone()).unwrap_or_default()
        };
        // On a processor that others use too, a thread that is ready may hardly run.
        let is_ready = |snapshot: &Snapshot| {
            snapshot.threads.iter().any(|thread| thread.os_id == Some(id) && thread.is_running)
        };
        let is_always_ready = is_ready(&first) && is_ready(&second);
        let (before, after) = (frames_of(&first), frames_of(&second));
        let mut frames = common_frames(&before, &after);
        let mut place = Place::of_frames(&frames);
        if reads_native_frames
            && place == Place::Program
            && before == after
            && let Some(merged) = native_frames(pid, id)
        {
            place = Place::of_frames(&merged);
            frames = merged;
        }
        let state = match process::state(pid, id) {
            Some('T' | 't') => State::Stopped,
            _ if is_always_ready || ran.as_secs_f64() > BUSY_SHARE * elapsed.as_secs_f64() => {
                State::Runs
            }
            _ => State::Waits,
        };
        // A thread that looks now and then whether it may go on has waited since before the looks.
        let idle = match times.idle {
            Some(idle) if before == after => Some(idle.max(elapsed)),
            None if before == after => Some(elapsed),
            idle => idle,
        };
        let (own, other): (Vec<Thread>, Vec<Thread>) =
            second.threads.into_iter().partition(|thread| thread.os_id == Some(id));
        let is_shown = |thread: &Thread| !thread.frames.is_empty() && !place::is_of_pool(thread);
        Member {
            host: None,
            pid,
            rank,
            state,
            place,
            is_moving: before != after,
            wait: own.into_iter().find_map(|thread| thread.wait).filter(|_| state == State::Waits),
            idle_secs: idle.filter(|_| state != State::Runs).map(|idle| idle.as_secs_f64()),
            frames,
            other_threads: other.into_iter().filter(is_shown).collect(),
            children: Vec::new(),
            problem: None,
            hint: None,
        }
    }
}

impl Member {
    /// Looks at the processes that this one has started.
    pub(crate) fn add_children(&mut self, interval: Duration) {
        let children = process::children(self.pid).into_iter();
        let looks: Vec<Look> = children.map(|pid| Look::begin(Process::with_id(pid))).collect();
        if !looks.is_empty() {
            pause(interval);
        }
        self.children = looks.into_iter().map(|look| look.end(false)).collect();
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
    let options = Options { reads_native_frames: true, ..Options::default() };
    let threads = Target::open(pid, options).ok()?.snapshot().ok()?.threads;
    let thread = threads.into_iter().find(|thread| thread.os_id == Some(id))?;
    thread.has_native_frames.then_some(thread.frames)
}

/// Returns the thread by which a process is judged: one in a collective, else the first one.
fn thread_of(snapshot: &Snapshot, pid: u32) -> u64 {
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
        let look = |process| Look::begin(process).end(false).state;
        // Not Python.
        assert_eq!(look(Process::with_id(program.id())), State::Unreadable);
        assert_eq!(look(Process::ended_with_id(program.id())), State::Ended);
        program.kill().unwrap();
        program.wait().unwrap();
    }

    #[test]
    fn frames_up_to_the_first_that_moved_are_common() {
        let stack = |calls: &[(&str, i32)]| -> Vec<Frame> {
            let frame = |&(function, line): &(&str, i32)| Frame {
                function: function.into(),
                file: "f".into(),
                line,
                is_native: false,
                is_entry: true,
                locals: Vec::new(),
            };
            calls.iter().map(frame).collect()
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
