//! Tells in words what a thread waits for, from the system call that it is in.

use std::borrow::Cow;
use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::process::thread_file;

/// A system call that a thread waits in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Wait {
    /// The thing that the thread waits for, such as `a lock`, `data` or `a timer`.
    #[serde(rename = "for")]
    pub target: Cow<'static, str>,
    /// The system call, such as `futex`.
    pub call: Cow<'static, str>,
    /// The file, pipe or socket that it waits for, if the call names one.
    pub file: Option<String>,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waits for {} ({}", self.target, self.call)?;
        match &self.file {
            Some(file) => write!(f, " on {file})"),
            None => f.write_str(")"),
        }
    }
}

/// A system call in which threads wait.
struct WaitCall {
    number: libc::c_long,
    name: &'static str,
    /// The thing that they wait for.
    target: &'static str,
    /// Whether its first argument is a file descriptor.
    has_file: bool,
}

/// Returns a call that waits for the file of its first argument.
const fn on_file(number: libc::c_long, name: &'static str, target: &'static str) -> WaitCall {
    WaitCall { number, name, target, has_file: true }
}

/// Returns a call that waits for no single file.
const fn elsewhere(number: libc::c_long, name: &'static str, target: &'static str) -> WaitCall {
    WaitCall { number, name, target, has_file: false }
}

const CALLS: [WaitCall; 29] = [
    elsewhere(libc::SYS_futex, "futex", "a lock"),
    on_file(libc::SYS_read, "read", "data"),
    on_file(libc::SYS_readv, "readv", "data"),
    on_file(libc::SYS_pread64, "pread64", "a file"),
    on_file(libc::SYS_write, "write", "a reader of its data"),
    on_file(libc::SYS_writev, "writev", "a reader of its data"),
    on_file(libc::SYS_recvfrom, "recvfrom", "data"),
    on_file(libc::SYS_recvmsg, "recvmsg", "data"),
    on_file(libc::SYS_sendto, "sendto", "a reader of its data"),
    on_file(libc::SYS_sendmsg, "sendmsg", "a reader of its data"),
    on_file(libc::SYS_accept, "accept", "a connection"),
    on_file(libc::SYS_accept4, "accept4", "a connection"),
    on_file(libc::SYS_connect, "connect", "a connection"),
    elsewhere(libc::SYS_ppoll, "ppoll", "one of several files"),
    elsewhere(libc::SYS_pselect6, "pselect6", "one of several files"),
    elsewhere(libc::SYS_epoll_pwait, "epoll_pwait", "one of several files"),
    elsewhere(libc::SYS_nanosleep, "nanosleep", "a timer"),
    elsewhere(libc::SYS_clock_nanosleep, "clock_nanosleep", "a timer"),
    elsewhere(libc::SYS_wait4, "wait4", "a child process"),
    elsewhere(libc::SYS_waitid, "waitid", "a child process"),
    elsewhere(libc::SYS_rt_sigtimedwait, "rt_sigtimedwait", "a signal"),
    elsewhere(libc::SYS_rt_sigsuspend, "rt_sigsuspend", "a signal"),
    on_file(libc::SYS_flock, "flock", "a lock on a file"),
    on_file(libc::SYS_fcntl, "fcntl", "a lock on a file"),
    on_file(libc::SYS_fsync, "fsync", "a disk"),
    on_file(libc::SYS_fdatasync, "fdatasync", "a disk"),
    on_file(libc::SYS_ioctl, "ioctl", "a device"),
    elsewhere(libc::SYS_semtimedop, "semtimedop", "a semaphore"),
    elsewhere(libc::SYS_mq_timedreceive, "mq_timedreceive", "a message"),
];

/// Old system calls that only x86-64 has.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[WaitCall] = &[
    elsewhere(libc::SYS_poll, "poll", "one of several files"),
    elsewhere(libc::SYS_select, "select", "one of several files"),
    elsewhere(libc::SYS_epoll_wait, "epoll_wait", "one of several files"),
    elsewhere(libc::SYS_pause, "pause", "a signal"),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[WaitCall] = &[];

/// Returns the thing that a sleeping thread waits for, `None` if the system does not tell.
pub(crate) fn of_thread(pid: u32, thread: u64) -> Option<Wait> {
    let line = fs::read_to_string(thread_file(pid, thread, "syscall")).ok()?;
    parse(&line, |descriptor| file_of(pid, descriptor))
}

/// Parses a line of `/proc/PID/task/TID/syscall`. It has the number of the call and its arguments
/// in hexadecimal digits. It is `running` if the thread runs, and begins with `-1` if the thread
/// waits outside of a call.
fn parse(line: &str, file_of: impl FnOnce(u64) -> Option<String>) -> Option<Wait> {
    let mut words = line.split_ascii_whitespace();
    let call_number = words.next()?.parse().ok()?;
    let first_argument = words.next().and_then(|word| word.strip_prefix("0x"));
    of_call(
        call_number,
        first_argument.and_then(|digits| u64::from_str_radix(digits, 16).ok()),
        file_of,
    )
}

/// Returns the thing that a thread in a system call waits for, by the number and the first argument
/// of the call.
pub(crate) fn of_call(
    call_number: libc::c_long,
    first_argument: Option<u64>,
    file_of: impl FnOnce(u64) -> Option<String>,
) -> Option<Wait> {
    let call = CALLS.iter().chain(OLD_CALLS).find(|call| call.number == call_number)?;
    // CPython 3.10 sleeps by a `select` of no files.
    let is_sleep = matches!(call.name, "select" | "pselect6") && first_argument == Some(0);
    let target = if is_sleep { "a timer" } else { call.target };
    let file = first_argument.filter(|_| call.has_file).and_then(file_of);
    Some(Wait { target: target.into(), call: call.name.into(), file })
}

fn file_of(pid: u32, descriptor: u64) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_on_a_file_names_the_file() {
        let line = format!("{} 0x1f 0x7f00 0x10 0x0 0x0 0x0 0x7ffd 0x7f01\n", libc::SYS_read);
        let wait = parse(&line, |file| Some(format!("pipe:[{file}]"))).unwrap();
        assert_eq!(wait.to_string(), "waits for data (read on pipe:[31])");
    }

    #[test]
    fn a_lock_is_named_without_a_file() {
        let line = format!("{} 0x7f00 0x189 0x0", libc::SYS_futex);
        let wait = parse(&line, |_| panic!("a futex is not a file")).unwrap();
        assert_eq!(wait.to_string(), "waits for a lock (futex)");
    }

    #[test]
    fn a_select_without_files_is_a_timer() {
        for (files, expected) in [("0x0", "a timer"), ("0x5", "one of several files")] {
            let line = format!("{} {files} 0x0 0x0", libc::SYS_pselect6);
            assert_eq!(parse(&line, |_| None).unwrap().target, expected);
        }
    }

    #[test]
    fn a_running_thread_and_an_unknown_call_have_no_reason() {
        for line in ["running\n", "-1 0x7ffd 0x7f01\n", "999999 0x0", "", "x"] {
            assert_eq!(parse(line, |_| None), None, "{line}");
        }
    }
}
