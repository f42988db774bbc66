//! Readings of the whole process: `getrusage(2)` and files of `/proc`.

use std::ffi::CStr;

/// Totals since the start of the process, over all its threads, including ended ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Time in user and kernel mode.
    pub(super) cpu_nanos: u64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) voluntary_switches: u64,
    pub(super) involuntary_switches: u64,
}

/// Bytes since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IoBytes {
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) storage_read: u64,
    pub(super) storage_written: u64,
}

/// Bytes that an interface has received and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

/// Returns the text of a file, `None` if it cannot be read.
///
/// Uses system calls, because a file of std aborts a debug build if the program has closed its
/// descriptor meanwhile.
#[expect(unsafe_code, reason = "see above")]
pub(super) fn read(path: &CStr) -> Option<String> {
    let mut text = Vec::new();
    let mut buffer = [0_u8; 4096];
    // SAFETY: a C string; the buffer has as many bytes as the call may write.
    unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return None;
        }
        while let count = libc::read(descriptor, buffer.as_mut_ptr().cast(), buffer.len())
            && count > 0
        {
            text.extend(buffer.iter().take(count.cast_unsigned()));
        }
        libc::close(descriptor);
    }
    String::from_utf8(text).ok()
}

/// Returns the sums of the process.
#[expect(unsafe_code, reason = "std has no getrusage(2)")]
pub(super) fn usage() -> Usage {
    // SAFETY: plain data, filled in below.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a valid struct; the call fails only for arguments that are wrong.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let nanos = |time: libc::timeval| {
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1000
    };
    Usage {
        cpu_nanos: nanos(usage.ru_utime) + nanos(usage.ru_stime),
        minor_faults: usage.ru_minflt.cast_unsigned(),
        major_faults: usage.ru_majflt.cast_unsigned(),
        voluntary_switches: usage.ru_nvcsw.cast_unsigned(),
        involuntary_switches: usage.ru_nivcsw.cast_unsigned(),
    }
}

/// Returns the virtual and the resident memory of the process in bytes.
pub(super) fn memory_bytes() -> Option<(u64, u64)> {
    let text = read(c"/proc/self/statm")?;
    let mut pages = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (virtual_pages, resident_pages) = (pages.next()?.ok()?, pages.next()?.ok()?);
    let page_bytes = page_bytes();
    Some((virtual_pages * page_bytes, resident_pages * page_bytes))
}

#[expect(unsafe_code, reason = "std has no page size")]
fn page_bytes() -> u64 {
    // SAFETY: a plain number; the name is known.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// Returns the bytes that the process has read and written. `marey-attach` has a parser of its own
/// for other processes, because neither crate may depend on the other.
pub(super) fn io() -> Option<IoBytes> {
    parse_io(&read(c"/proc/self/io")?)
}

fn parse_io(text: &str) -> Option<IoBytes> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.strip_prefix(": ")?.parse().ok()
    };
    Some(IoBytes {
        read: value("rchar")?,
        written: value("wchar")?,
        storage_read: value("read_bytes")?,
        storage_written: value("write_bytes")?,
    })
}

/// Returns the interfaces of the network namespace.
pub(super) fn interfaces() -> Vec<Interface> {
    let text = read(c"/proc/self/net/dev").unwrap_or_default();
    text.lines().filter_map(parse_interface).collect()
}

/// Parses a line of `/proc/net/dev`: the name, then eight columns of what was received and eight of
/// what was sent, both with the bytes first.
fn parse_interface(line: &str) -> Option<Interface> {
    let (name, columns) = line.split_once(':')?;
    let mut columns = columns.split_ascii_whitespace().map(|column| column.parse().ok());
    let received_bytes = columns.next()??;
    let sent_bytes = columns.nth(7)??;
    Some(Interface { name: name.trim().to_owned(), received_bytes, sent_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let memory = vec![1_u8; 1 << 20];
        let before = usage();
        while usage().cpu_nanos < before.cpu_nanos + 2_000_000 {}
        assert!(usage().minor_faults >= before.minor_faults);
        let (virtual_bytes, resident_bytes) = memory_bytes().unwrap();
        assert!(resident_bytes > memory.len() as u64 && virtual_bytes > resident_bytes);
    }

    #[test]
    fn bytes_are_read_by_their_names() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                    cancelled_write_bytes: 7\n";
        let io = IoBytes { read: 1, written: 2, storage_read: 5, storage_written: 6 };
        assert_eq!(parse_io(text), Some(io));
        assert_eq!(parse_io("rchar: 1\n"), None);
    }

    #[test]
    fn interfaces_have_the_bytes_of_both_directions() {
        let line = "  eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0";
        let eth0 = Interface { name: "eth0".to_owned(), received_bytes: 10, sent_bytes: 20 };
        assert_eq!(parse_interface(line), Some(eth0));
        assert_eq!(parse_interface("eth0:10 1 0 0 0 0 0 0 20 2").unwrap().received_bytes, 10);
        for other in ["", " face |bytes packets errs", "eth0: 10 1", "eth0: a 1 0 0 0 0 0 0 b"] {
            assert_eq!(parse_interface(other), None, "{other}");
        }
    }
}
