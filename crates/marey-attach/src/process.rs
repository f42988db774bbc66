//! Facts about processes and their threads from `/proc`.

use std::fs;
use std::path::PathBuf;

use marey_model::redact;

/// Returns the command line of a process with secrets redacted; empty if it cannot be read.
pub fn command_line(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    let arguments = line.split(|&byte| byte == 0);
    let arguments: Vec<_> =
        arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
    redact::redact_argv(&arguments)
}

/// Returns the descendants of a process, parents before their children.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut unvisited = vec![pid];
    while let Some(parent) = unvisited.pop() {
        let mut next = Vec::new();
        for thread in threads(parent) {
            let path = format!("/proc/{parent}/task/{thread}/children");
            let text = fs::read_to_string(path).unwrap_or_default();
            next.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        next.sort_unstable();
        found.extend(&next);
        unvisited.extend(next.into_iter().rev());
    }
    found
}

/// Returns the ids of a process's threads in the operating system, lowest first.
pub(crate) fn threads(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut ids: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

/// Whether a process exists and has not ended.
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid, pid.into()), None | Some('Z' | 'X'))
}

/// Returns the state of a thread as `ps` shows it: `R` runs, `S` sleeps, `D` waits for a device.
pub(crate) fn state(pid: u32, thread: u64) -> Option<char> {
    let stat = fs::read_to_string(thread_file(pid, thread, "stat")).ok()?;
    // The name before it is in parentheses and may contain any character.
    stat.rsplit_once(") ")?.1.chars().next()
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
