//! The counters of one thread, in groups of events that the kernel counts together.
//!
//! A group is pinned: the kernel counts all its events all the time or none, so that no count is an
//! extrapolation. Only the thread that opened a group may read it.

use super::event::PerfEvent;
use super::page::CounterPage;
use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use thiserror::Error;

/// The maximum number of events. Processors count four to eight at once.
pub(crate) const MAX_EVENTS: usize = 8;

/// One number for each event; 0 beyond them.
pub(crate) type Counts = [u64; MAX_EVENTS];

/// An event that this process may not count, or this machine cannot.
#[derive(Debug, Error)]
#[error("performance event `{event}` cannot be counted: {reason}")]
pub struct Refusal {
    event: String,
    reason: String,
}

pub(super) struct CounterGroups {
    groups: Vec<CounterGroup>,
    last_counts: Counts,
}

impl CounterGroups {
    /// Opens the events, at most [`MAX_EVENTS`] and sorted by source, for the calling thread.
    pub(super) fn open(events: &[PerfEvent]) -> Result<Self, Refusal> {
        let groups = events.chunk_by(|event, next| event.source() == next.source());
        let groups = groups.map(CounterGroup::open).collect::<Result<Vec<_>, _>>()?;
        let mut counters = Self { groups, last_counts: Counts::default() };
        counters.last_counts = counters.read().unwrap_or_default();
        Ok(counters)
    }

    /// Returns the counts since the previous call, or since the counters were opened. `None` if the
    /// kernel has stopped counting.
    pub(super) fn advance(&mut self) -> Option<Counts> {
        let counts = self.read()?;
        let previous_counts = std::mem::replace(&mut self.last_counts, counts);
        Some(std::array::from_fn(|index| counts[index].wrapping_sub(previous_counts[index])))
    }

    /// Returns the totals at the latest [`Self::advance`], or when the counters were opened.
    pub(super) fn latest(&self) -> Counts {
        self.last_counts
    }

    fn read(&self) -> Option<Counts> {
        let mut counts = Counts::default();
        let mut unread_counts = counts.as_mut_slice();
        for group in &self.groups {
            let (group_counts, other_counts) =
                unread_counts.split_at_mut_checked(group.counters.len())?;
            group.read(group_counts)?;
            unread_counts = other_counts;
        }
        Some(counts)
    }
}

/// The counters of events with one source.
struct CounterGroup {
    counters: Vec<Counter>,
}

struct Counter {
    file: OwnedFd,
    page: Option<SharedPage>,
}

impl CounterGroup {
    fn open(events: &[PerfEvent]) -> Result<Self, Refusal> {
        let mut counters: Vec<Counter> = Vec::with_capacity(events.len());
        for event in events {
            let leader = counters.first().map_or(-1, |leader| leader.file.as_raw_fd());
            let file = open_event(event, leader).map_err(|error| Refusal {
                event: event.name.clone(),
                reason: reason(&error, leader >= 0),
            })?;
            let page = SharedPage::map(&file);
            counters.push(Counter { file, page });
        }
        let group = Self { counters };
        let is_counting = group.read(&mut Counts::default()).is_some();
        is_counting.then_some(group).ok_or_else(|| Refusal {
            event: events.first().map_or_else(String::new, |event| event.name.clone()),
            reason: "another program uses the processor's counters, such as the kernel's NMI \
                     watchdog (sysctl kernel.nmi_watchdog=0 ends it)"
                .to_owned(),
        })
    }

    /// Writes the count of each event. Returns `None` if the kernel has stopped counting.
    fn read(&self, counts: &mut [u64]) -> Option<()> {
        self.read_pages(counts).or_else(|| self.read_file(counts))
    }

    /// Reads all counters without a system call, if that is possible now.
    fn read_pages(&self, counts: &mut [u64]) -> Option<()> {
        for (counter, count) in self.counters.iter().zip(counts) {
            *count = counter.page.as_ref()?.count()?;
        }
        Some(())
    }

    /// Reads all counters by one system call: the number of events, then their counts.
    #[expect(unsafe_code, reason = "std reads files, not descriptors")]
    fn read_file(&self, counts: &mut [u64]) -> Option<()> {
        let leader = self.counters.first()?.file.as_raw_fd();
        let mut answer = [0_u64; 1 + MAX_EVENTS];
        // SAFETY: the kernel writes at most the given number of bytes to the array.
        let read_bytes =
            unsafe { libc::read(leader, answer.as_mut_ptr().cast(), size_of_val(&answer)) };
        // The file of a pinned group that the kernel could not schedule is at its end.
        if read_bytes < (size_of::<u64>() * (1 + self.counters.len())).cast_signed() {
            return None;
        }
        let [_event_count, values @ ..] = answer;
        counts.iter_mut().zip(values).for_each(|(count, value)| *count = value);
        Some(())
    }
}

/// The first version of `struct perf_event_attr`, which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// `PERF_FORMAT_GROUP`.
const READ_GROUP: u64 = 1 << 3;
const FLAG_PINNED: u64 = 1 << 2;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// Opens an event for the calling thread, in the group of `leader` unless that is -1.
#[expect(unsafe_code, reason = "neither std nor libc has perf_event_open(2)")]
fn open_event(event: &PerfEvent, leader: RawFd) -> io::Result<OwnedFd> {
    let pinned_flag = if leader < 0 { FLAG_PINNED } else { 0 };
    let user_only_flags =
        if event.excludes_kernel() { FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HYPERVISOR } else { 0 };
    let attributes = EventAttributes {
        kind: event.kind,
        size: size_of::<EventAttributes>() as u32,
        config: event.config,
        read_format: READ_GROUP,
        flags: pinned_flag | user_only_flags,
        ..EventAttributes::default()
    };
    // SAFETY: the kernel reads `size` bytes of the struct, which lives until the call returns.
    let file = unsafe {
        let (this_thread, any_cpu) = (0, -1);
        let attributes = &raw const attributes;
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes,
            this_thread,
            any_cpu,
            leader,
            CLOSE_ON_EXEC,
        )
    };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(file as RawFd) })
}

/// Returns the reason for an error of `perf_event_open(2)`, and a remedy if there is one.
fn reason(error: &io::Error, has_others: bool) -> String {
    match error.raw_os_error().unwrap_or_default() {
        libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV => {
            "this machine does not count it; a virtual machine often has no hardware counters"
                .to_owned()
        }
        libc::EACCES | libc::EPERM => {
            let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let level = level.as_deref().map_or("unknown", str::trim);
            format!(
                "the system does not allow it (kernel.perf_event_paranoid is {level}): it needs \
                 sysctl kernel.perf_event_paranoid=1 or the capability CAP_PERFMON, and a container \
                 --cap-add PERFMON"
            )
        }
        libc::ENOSYS => "this kernel has no performance events".to_owned(),
        libc::EMFILE | libc::ENFILE => {
            "too many files are open; each thread needs one for each event (ulimit -n)".to_owned()
        }
        libc::EINVAL if has_others => {
            "the processor cannot count it together with the events before it; record fewer events"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

/// A mapped [`CounterPage`].
struct SharedPage {
    page: NonNull<CounterPage>,
}

impl SharedPage {
    /// Maps the page of an event, `None` if the kernel does not allow it.
    #[expect(unsafe_code, reason = "std has no mmap(2)")]
    fn map(event: &OwnedFd) -> Option<Self> {
        if !cfg!(target_arch = "x86_64") {
            return None; // counters are read by a system call
        }
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address = unsafe {
            let (anywhere, from_start) = (std::ptr::null_mut(), 0);
            let (bytes, file) = (size_of::<CounterPage>(), event.as_raw_fd());
            libc::mmap(anywhere, bytes, libc::PROT_READ, libc::MAP_SHARED, file, from_start)
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(address.cast()).map(|page| Self { page })
    }

    #[expect(unsafe_code, reason = "reads memory that the kernel shares")]
    fn count(&self) -> Option<u64> {
        // SAFETY: mapped until `self` is dropped; the kernel initialises the page and changes only
        // the fields that are atomics.
        unsafe { self.page.as_ref() }.count(read_counter)
    }
}

impl Drop for SharedPage {
    #[expect(unsafe_code, reason = "unmaps what `map` has mapped")]
    fn drop(&mut self) {
        // SAFETY: the mapping is of this length, and nobody else refers to it.
        unsafe { libc::munmap(self.page.as_ptr().cast(), size_of::<CounterPage>()) };
    }
}

/// Reads a counter of the processor. Only while a [`CounterPage`] says that it may be read.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "std has no rdpmc")]
fn read_counter(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads registers only. The kernel has set the capability in the page of an event that
    // this thread has mapped, so the instruction is allowed.
    unsafe {
        std::arch::asm!("rdpmc", in("ecx") number, out("eax") low, out("edx") high, options(nomem, nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Returns 0. Never called on this architecture, because no page is mapped.
#[cfg(not(target_arch = "x86_64"))]
fn read_counter(_number: u32) -> u64 {
    0
}
