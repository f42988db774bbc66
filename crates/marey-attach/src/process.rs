//! Reads facts about processes and their threads from `/proc`: states, times, names and ids.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use marey_model::redact;

/// Returns the command line of a process with secrets redacted. It is empty if it cannot be read.
pub fn command_line(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    let arguments = line.split(|&byte| byte == 0);
    let arguments: Vec<_> =
        arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
    redact::redact_argv(&arguments)
}

/// Returns the descendants of a process, parents before their children.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut descendants = Vec::new();
    let mut unvisited = vec![pid];
    while let Some(parent) = unvisited.pop() {
        let mut children = Vec::new();
        for thread in threads(parent) {
            let path = format!("/proc/{parent}/task/{thread}/children");
            let text = fs::read_to_string(path).unwrap_or_default();
            children
                .extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        children.sort_unstable();
        descendants.extend(&children);
        unvisited.extend(children.into_iter().rev());
    }
    descendants
}

/// Returns the processes of this machine, lowest id first.
pub(crate) fn all_pids() -> Vec<u32> {
    numbers_in("/proc")
}

/// Returns the ids of a process's threads in the operating system, lowest first.
pub fn threads(pid: u32) -> Vec<u64> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// Returns the names in a folder that are numbers, lowest first.
fn numbers_in<T: FromStr + Ord>(folder: &str) -> Vec<T> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<T> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Whether a process exists and has not ended.
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid, pid.into()), None | Some('Z' | 'X'))
}

/// Whether a signal has stopped a process, as Ctrl-Z does.
pub fn is_stopped(pid: u32) -> bool {
    state(pid, pid.into()) == Some('T')
}

/// Returns the parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid, pid.into())?.split(' ').nth(1)?.parse().ok()
}

/// Returns the time at which a process began, in clock ticks since the machine started. It tells a
/// process from an earlier one with the same id.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    stat(pid, pid.into())?.split(' ').nth(19)?.parse().ok()
}

/// Returns the state of a thread as `ps` shows it, such as `R` (runs), `S` (sleeps) or `D` (waits
/// for a device).
pub fn state(pid: u32, thread: u64) -> Option<char> {
    stat(pid, thread)?.chars().next()
}

/// Returns the state in the contents of the kernel's file `stat`.
pub(crate) fn state_in(stat: &[u8]) -> Option<u8> {
    // The state follows the name, which is in parentheses and may contain any character.
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(name_end + 2).copied()
}

/// Returns the part of the kernel's file `stat` after the name of a thread. It begins with the
/// state.
fn stat(pid: u32, thread: u64) -> Option<String> {
    let stat = fs::read_to_string(thread_file(pid, thread, "stat")).ok()?;
    // The name is in parentheses and may contain any character.
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

/// Processor time of a thread, and the time since it last ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// Time on a processor since the thread began.
    pub(crate) cpu_time: Duration,
    /// Time since it last ran, if the kernel tells. It may be some seconds off where a hypervisor
    /// withholds processor time.
    pub(crate) idle: Option<Duration>,
}

/// Returns the times of a thread, `None` if it has ended.
pub(crate) fn times(pid: u32, thread: u64) -> Option<Times> {
    let sched = fs::read_to_string(thread_file(pid, thread, "sched")).unwrap_or_default();
    match (sched_field(&sched, "se.sum_exec_runtime"), sched_field(&sched, "se.exec_start")) {
        (Some(cpu_time), Some(last_ran)) => {
            let own_sched = fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
            let now = sched_field(&own_sched, "se.exec_start");
            Some(Times { cpu_time, idle: now.map(|now| now.saturating_sub(last_ran)) })
        }
        _ => Some(Times { cpu_time: cpu_of_stat(&stat(pid, thread)?)?, idle: None }),
    }
}

/// Returns the processor time of all threads of a process.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    cpu_of_stat(stat.rsplit_once(") ")?.1)
}

/// Returns a field of the kernel's file `sched`, whose times are in milliseconds.
fn sched_field(sched: &str, name: &str) -> Option<Duration> {
    let line = sched.lines().find(|line| line.split(' ').next() == Some(name))?;
    let millis: f64 = line.rsplit_once(':')?.1.trim().parse().ok()?;
    Duration::try_from_secs_f64(millis / 1e3).ok()
}

/// Returns the processor time in the part of `stat` after the name, which has it in hundredths of a
/// second.
fn cpu_of_stat(stat: &str) -> Option<Duration> {
    let mut fields = stat.split(' ').skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(Duration::from_millis(10 * (user + system)))
}

/// Returns the value of a line of `/proc/PID/status`, such as `NSpid`.
pub fn status(pid: u32, key: &str) -> Option<String> {
    status_of_thread(pid, pid.into(), key)
}

fn status_of_thread(pid: u32, thread: u64, key: &str) -> Option<String> {
    let text = fs::read_to_string(thread_file(pid, thread, "status")).ok()?;
    let mut values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    values.next().map(|value| value.trim().to_owned())
}

/// Returns the id that a process has in its own pid namespace, such as that of a container.
pub fn inner_pid(pid: u32) -> Option<u32> {
    innermost_id(&status(pid, "NSpid")?)
}

/// Returns the id in the innermost pid namespace, which is the last one of `NSpid`.
fn innermost_id<T: FromStr>(ids: &str) -> Option<T> {
    ids.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Returns the inode number of a process's pid namespace, `None` if this process may not see it.
pub fn pid_namespace(pid: u32) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/ns/pid")).map(|metadata| metadata.ino()).ok()
}

/// Returns the process that has this id in a pid namespace, such as that of a container.
pub fn pid_in_namespace(own_pid: u32, namespace: u64) -> Option<u32> {
    let mut pids = all_pids().into_iter();
    pids.find(|&pid| pid_namespace(pid) == Some(namespace) && inner_pid(pid) == Some(own_pid))
}

/// Translates the ids of threads that a process itself knows to those in this `/proc`. They differ
/// if the process runs in another pid namespace.
#[derive(Debug)]
pub(crate) struct ThreadIds {
    pid: u32,
    is_same_namespace: bool,
    /// Ids in this `/proc`, by those in the namespace of the process.
    by_inner: HashMap<u64, u64>,
}

impl ThreadIds {
    pub(crate) fn new(pid: u32) -> Self {
        // `NSpid` has one id for each namespace, from that of this `/proc` inwards.
        let ids = status(pid, "NSpid").unwrap_or_default();
        let is_same_namespace = ids.split_ascii_whitespace().nth(1).is_none();
        Self { pid, is_same_namespace, by_inner: HashMap::new() }
    }

    /// Reads the ids again if a thread is not known or has ended. Another thread may have the id of
    /// one that has ended.
    pub(crate) fn update(&mut self, inner_ids: impl IntoIterator<Item = u64>) {
        if self.is_same_namespace || inner_ids.into_iter().all(|id| self.is_current(id)) {
            return;
        }
        let id_pair =
            |thread| Some((innermost_id(&status_of_thread(self.pid, thread, "NSpid")?)?, thread));
        self.by_inner = threads(self.pid).into_iter().filter_map(id_pair).collect();
    }

    /// Returns the id in this `/proc` of a thread that the last update found.
    pub(crate) fn outer_id(&self, inner: u64) -> Option<u64> {
        if self.is_same_namespace { Some(inner) } else { self.by_inner.get(&inner).copied() }
    }

    /// Whether the id of a thread is known and a thread with it exists.
    fn is_current(&self, inner: u64) -> bool {
        let exists = |&outer: &u64| thread_file(self.pid, outer, "stat").exists();
        self.by_inner.get(&inner).is_some_and(exists)
    }
}

/// Whether a library or program has the name of a free-threaded build, such as `python3.13t`.
pub fn is_free_threaded(name: &str) -> bool {
    let version = name.strip_prefix("libpython3.").or_else(|| name.strip_prefix("python3."));
    let suffix = version.map(|version| version.trim_start_matches(|c: char| c.is_ascii_digit()));
    suffix.is_some_and(|suffix| suffix.starts_with('t'))
}

/// Returns the name of a thread in the kernel, at most 15 bytes.
pub(crate) fn thread_name(pid: u32, thread: u64) -> String {
    let name = fs::read(thread_file(pid, thread, "comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Returns the path of a file with facts about a thread.
pub(crate) fn thread_file(pid: u32, thread: u64, name: &str) -> PathBuf {
    format!("/proc/{pid}/task/{thread}/{name}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_run_and_its_time_is_read_from_either_file() {
        let own = u64::from(std::process::id());
        let times = times(std::process::id(), own).unwrap();
        assert!(times.cpu_time < Duration::from_hours(1), "{times:?}");
        let sched = "a (1, #threads: 2)\n---\nse.exec_start        :  47870566.485767\n";
        assert_eq!(
            sched_field(sched, "se.exec_start"),
            Some(Duration::from_nanos(47_870_566_485_767))
        );
        assert_eq!(sched_field(sched, "se.exec"), None);
        let stat = "S 1 2 3 0 -1 4194560 7 8 9 10 150 25 0 0";
        assert_eq!(cpu_of_stat(stat), Some(Duration::from_millis(1_750)));
    }
}
