//! Reads from `/proc` the resources that a process has used: processor time, memory, storage and
//! network traffic.

use std::fs;
use std::time::Duration;

use crate::process;

/// Resources that a process has used since it began, and the memory that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on processors, of all threads.
    pub cpu_time: Duration,
    /// Memory in use (RSS).
    pub resident_bytes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Bytes written to storage.
    pub written_bytes: u64,
    /// Bytes that the network interfaces have received, without loopback. They count the traffic of
    /// all processes that share the interfaces.
    pub received_bytes: u64,
    /// Bytes that the network interfaces have sent, counted in the same way.
    pub sent_bytes: u64,
}

impl Usage {
    /// Reads the resources that a process has used. Returns `None` if it has ended.
    pub fn of_process(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        // The file `io` is not readable for processes of other users.
        let storage = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let interfaces = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
        let (received_bytes, sent_bytes) = traffic(&interfaces);
        Some(Self {
            cpu_time: process::cpu_time(pid)?,
            resident_bytes: 1_024 * field(&status, "VmRSS:").unwrap_or(0),
            threads: field(&status, "Threads:").unwrap_or(0),
            read_bytes: field(&storage, "read_bytes:").unwrap_or(0),
            written_bytes: field(&storage, "write_bytes:").unwrap_or(0),
            received_bytes,
            sent_bytes,
        })
    }
}

/// Returns the number after a label at the start of a line.
fn field(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the bytes that were received and sent, from the kernel's table of interfaces. Each line
/// has a name, eight columns for received data and eight for sent data. The first of the eight is
/// the bytes.
fn traffic(table: &str) -> (u64, u64) {
    let interfaces = table.lines().filter_map(|line| line.split_once(':'));
    let others = interfaces.filter(|(name, _)| name.trim() != "lo");
    others.fold((0, 0), |(received, sent), (_, columns)| {
        let column = |index| columns.split_ascii_whitespace().nth(index)?.parse::<u64>().ok();
        (received + column(0).unwrap_or(0), sent + column(8).unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_a_thread() {
        let usage = Usage::of_process(std::process::id()).unwrap();
        assert!(usage.resident_bytes > 100_000 && usage.threads >= 1, "{usage:?}");
        assert_eq!(field("VmRSS:\t   12 kB\nThreads:\t3\n", "Threads:"), Some(3));
    }

    #[test]
    fn traffic_is_that_of_all_interfaces_but_loopback() {
        let table = "Inter-|   Receive |  Transmit\n face |bytes packets\n\
                     lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n\
                     eth0:100 2 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n  ib0: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n";
        assert_eq!(traffic(table), (101, 32));
    }
}
