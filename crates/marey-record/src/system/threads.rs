//! Finds the threads of the process that use the most CPU time.

use super::proc_files::read;
use std::collections::HashMap;
use std::ffi::CString;

/// The number of busiest threads of a reading.
const MAX_BUSIEST: usize = 5;
/// The minimum share of a core, in percent, for a thread to be listed.
const MIN_PERCENT: f64 = 1.0;
/// The maximum number of threads for which times are read. Each thread costs a system call.
const MAX_THREADS: usize = 1024;
/// The maximum number of threads that get a name in the life of a process.
const MAX_NAMED: usize = 64;

/// The CPU times of the threads at the last reading.
#[derive(Debug)]
pub(super) struct ThreadTimes {
    nanos: HashMap<u32, u64>,
    /// The threads that have a name, by id.
    named: HashMap<u32, String>,
}

impl ThreadTimes {
    /// Reads the times. Returns the busiest threads with their shares of a core in percent, and the
    /// sum of the shares beyond the limit of names.
    pub(super) fn read(&mut self, elapsed_nanos: f64) -> Vec<(String, f64)> {
        let nanos = cpu_nanos_of_threads();
        let mut busiest: Vec<_> = nanos
            .iter()
            .map(|(&id, &now)| {
                // If an id has less time than before, it belongs to a new thread.
                let before = self.nanos.get(&id).copied().filter(|&before| before <= now);
                (id, (now - before.unwrap_or(0)) as f64 / elapsed_nanos * 100.0)
            })
            .filter(|&(_, percent)| percent >= MIN_PERCENT)
            .collect();
        self.nanos = nanos;
        busiest.sort_by(|left, right| right.1.total_cmp(&left.1));
        busiest.truncate(MAX_BUSIEST);
        self.name(&busiest)
    }

    /// Returns the times now.
    pub(super) fn now() -> Self {
        Self { nanos: cpu_nanos_of_threads(), named: HashMap::new() }
    }

    fn name(&mut self, busiest: &[(u32, f64)]) -> Vec<(String, f64)> {
        let mut shares = Vec::with_capacity(busiest.len() + 1);
        let mut others = 0.0;
        for &(id, percent) in busiest {
            match self.source(id) {
                Some(source) => shares.push((source, percent)),
                None => others += percent,
            }
        }
        if others > 0.0 {
            shares.push(("others".to_owned(), others));
        }
        shares
    }

    /// Returns the name and id of a thread, `None` for a new one beyond the limit.
    fn source(&mut self, id: u32) -> Option<String> {
        if let Some(source) = self.named.get(&id) {
            return Some(source.clone());
        }
        if self.named.len() >= MAX_NAMED {
            return None;
        }
        let path = CString::new(format!("/proc/self/task/{id}/comm")).ok()?;
        let name = read(&path)?;
        let source = format!("{} {id}", name.trim_end());
        self.named.insert(id, source.clone());
        Some(source)
    }
}

fn cpu_nanos_of_threads() -> HashMap<u32, u64> {
    thread_ids().into_iter().filter_map(|id| Some((id, cpu_nanos(id)?))).collect()
}

/// Returns the ids of the threads, none if there are too many.
///
/// By `readdir(3)`, because `std::fs::ReadDir` panics on drop if the program has closed its
/// descriptor.
#[expect(unsafe_code, reason = "see above")]
fn thread_ids() -> Vec<u32> {
    let mut ids = Vec::new();
    // SAFETY: a C string; the result is null or a stream that only this function uses, until it
    // closes it. An entry is valid until the next call, and its name ends with a zero.
    unsafe {
        let stream = libc::opendir(c"/proc/self/task".as_ptr());
        if stream.is_null() {
            return ids;
        }
        while let entry = libc::readdir(stream)
            && !entry.is_null()
            && ids.len() <= MAX_THREADS
        {
            let name = std::ffi::CStr::from_ptr((*entry).d_name.as_ptr());
            ids.extend(name.to_str().ok().and_then(|name| name.parse::<u32>().ok()));
        }
        libc::closedir(stream);
    }
    if ids.len() > MAX_THREADS {
        ids.clear();
    }
    ids
}

/// Returns the CPU time of a thread of this process, `None` if it has ended.
#[expect(unsafe_code, reason = "std has no clocks of threads")]
fn cpu_nanos(thread: u32) -> Option<u64> {
    /// The bits of a clock that counts the time of one thread (`clock_getcpuclockid(3)`).
    const THREAD_CLOCK: i32 = 0b110;
    let clock = (!thread.cast_signed() << 3) | THREAD_CLOCK;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid struct; a clock that does not exist is an error.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    (!failed).then(|| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_thread_that_computes_is_among_the_busiest_with_its_share_of_a_core() {
        let mut times = ThreadTimes::now();
        let start = Instant::now();
        let id = crate::os::thread_id() as u32;
        let before = cpu_nanos(id).unwrap();
        while cpu_nanos(id).unwrap() < before + 5_000_000 {}
        let elapsed_nanos = start.elapsed().as_nanos() as f64;
        let shares = times.read(elapsed_nanos);
        // The thread also computed while its time was read.
        let most = 100.0 * start.elapsed().as_nanos() as f64 / elapsed_nanos + 1.0;
        let own = shares.iter().find(|(source, _)| source.ends_with(&format!(" {id}"))).unwrap();
        let least = 100.0 * 5_000_000.0 / elapsed_nanos;
        assert!(own.1 >= least && own.1 < most, "{least} {most} {shares:?}");
    }
}
