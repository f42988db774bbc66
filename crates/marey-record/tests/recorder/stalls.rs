//! A stalled operation, such as a write to a hanging disk, does not block anything else.

use crate::harness::{
    Fixture, Subprocess, exit, finalize_all, fork, options, run_in_subprocess, scope, start,
};
use marey_record::device::LaunchKind;
use marey_record::device::{self, ActivitySource, FlushMode};
use marey_record::{Format, SessionId, SessionOptions, api};
use std::any::Any;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

/// Ends this process by SIGALRM if the test hangs.
#[expect(unsafe_code, reason = "std has no alarms")]
fn set_hang_timeout() {
    const TIMEOUT_SECS: u32 = 60;
    // SAFETY: a plain number.
    unsafe { libc::alarm(TIMEOUT_SECS) };
}

/// A disk that hangs in the middle of a file: a named pipe at the path of the recorder's file.
struct HungDisk(File);

#[expect(unsafe_code, reason = "std makes no pipes with names")]
impl HungDisk {
    fn new(file: &str) -> Self {
        let path = format!(".{file}.{}.tmp", std::process::id());
        let name = CString::new(path.as_str()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let open = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        Self(open.unwrap())
    }

    /// Waits until the file is being written, which is longer than the pipe's buffer.
    fn wait_until_written(&self) {
        let mut poll_fd = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor that can be written to.
        assert_eq!(unsafe { libc::poll(&raw mut poll_fd, 1, -1) }, 1);
    }

    /// Reads everything until the writer closes the file or the process ends.
    fn unblock(mut self) {
        // SAFETY: plain numbers.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETFL, 0) };
        let drain = move || while self.0.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {};
        thread::Builder::new().name("disk".to_owned()).spawn(drain).unwrap();
    }
}

/// Starts a session whose file is longer than a pipe's buffer.
fn start_large(options: &SessionOptions) -> SessionId {
    let session = api::start(options).unwrap();
    (0..1000).for_each(|number| scope(&format!("scope {number} {}", "x".repeat(100)), || ()));
    session
}

/// In the child of a fork: records a scope and ends all sessions.
fn record_and_end() -> i32 {
    scope("in the child", || ());
    i32::from(!finalize_all())
}

#[test]
fn a_fork_does_not_wait_for_a_hanging_checkpoint() {
    let Some(fixture) = run_in_subprocess(&[("MAREY_CHECKPOINT_SECS", "0.01")], || {
        set_hang_timeout();
        let disk = HungDisk::new("profile.hatchet");
        let session = start_large(&options("profile", Format::Hatchet));
        disk.wait_until_written();
        assert_eq!(fork(record_and_end), 0);
        assert_eq!(fork(record_and_end), 0);
        scope("after", || ());
        disk.unblock();
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let [first, second, own] = &*fixture.files() else { panic!("{:?}", fixture.files()) };
    for child in [first, second] {
        assert_eq!(fixture.read(child).counts(), [("in the child", 1)], "{child}");
    }
    assert!(fixture.read(own).counts().contains(&("after", 1)));
}

#[test]
fn a_phase_whose_file_hangs_blocks_nothing() {
    let Some(fixture) = run_in_subprocess(&[("MAREY_CHECKPOINT_SECS", "0")], || {
        set_hang_timeout();
        let disk = HungDisk::new("phases.part_0.hatchet");
        let options = options("phases", Format::Hatchet);
        let session = start_large(&SessionOptions { flush_phases: true, ..options });
        thread::scope(|threads| {
            let advance = threads.spawn(|| api::advance_phase(session).unwrap());
            disk.wait_until_written();
            let other = start("other", Format::Hatchet);
            scope("meanwhile", || ());
            assert_eq!(fork(|| 0), 0);
            api::finalize(other, None).unwrap();
            disk.unblock();
            assert_eq!(advance.join().unwrap(), 1);
        });
        api::discard(session).unwrap();
    }) else {
        return;
    };
    assert_eq!(fixture.read("other.hatchet").counts(), [("meanwhile", 1)]);
}

#[expect(unsafe_code, reason = "std has no signals")]
fn send_sigterm(thread: libc::pthread_t) {
    // SAFETY: a thread that runs as long as the process.
    unsafe { libc::pthread_kill(thread, libc::SIGTERM) };
}

static CALLS: AtomicU32 = AtomicU32::new(0);

#[test]
fn sigterm_in_the_middle_of_a_call_loses_no_profile() {
    let Some(subprocess) = Subprocess::of(|_| {
        set_hang_timeout();
        start("kept", Format::Hatchet);
        scope("done", || ());
        let other = start("other", Format::Hatchet);
        // SAFETY: no arguments.
        #[expect(unsafe_code, reason = "std has no number that signals go to")]
        let main_thread = unsafe { libc::pthread_self() };
        let send_later = move || {
            while CALLS.load(Ordering::Relaxed) < 1000 {
                thread::yield_now();
            }
            send_sigterm(main_thread);
        };
        thread::Builder::new().name("sends".to_owned()).spawn(send_later).unwrap();
        // The loop is nearly always in the middle of a call.
        while api::clear_phases(other, 0..=0).is_ok() {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    let mut child = subprocess.spawn("run", &fixture, &[("MAREY_CHECKPOINT_SECS", "0")]);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert_eq!(fixture.read("kept.hatchet").counts(), [("done", 1)]);
    assert_eq!(fixture.read("kept.hatchet").metadata()["process"]["complete"], true);
}

static DISK: Mutex<Option<HungDisk>> = Mutex::new(None);

extern "C" fn unblock_disk() {
    DISK.lock().unwrap().take().unwrap().unblock();
}

#[test]
fn process_exit_waits_for_a_writing_thread() {
    let Some(fixture) = run_in_subprocess(&[("MAREY_CHECKPOINT_SECS", "0")], || {
        set_hang_timeout();
        let disk = HungDisk::new("profile.hatchet");
        let session = start_large(&options("profile", Format::Hatchet));
        let finalize = move || api::finalize(session, None).unwrap();
        thread::Builder::new().name("daemon".to_owned()).spawn(finalize).unwrap();
        disk.wait_until_written();
        *DISK.lock().unwrap() = Some(disk);
        // SAFETY: the function lives as long as the process. It runs before the recorder's own exit
        // handler.
        #[expect(unsafe_code, reason = "atexit takes a C function")]
        unsafe {
            libc::atexit(unblock_disk);
            libc::exit(0);
        }
    }) else {
        return;
    };
    // A file has this name only once it is complete.
    assert_eq!(fixture.files(), ["profile.hatchet"]);
}

/// A source that blocks a thread in the middle of an event.
struct BlockingSource;

/// Whether a thread is blocked in the source, and whether it may continue.
struct Block {
    is_reached: bool,
    is_released: bool,
}

static BLOCK: Mutex<Block> = Mutex::new(Block { is_reached: false, is_released: false });
static CHANGED: Condvar = Condvar::new();

impl ActivitySource for BlockingSource {
    fn flush(&self, _mode: FlushMode) {}

    fn request_drain(&self) {
        let mut block = BLOCK.lock().unwrap();
        block.is_reached = true;
        CHANGED.notify_all();
        drop(CHANGED.wait_while(block, |block| !block.is_released).unwrap());
    }

    fn stop(&self) {}

    fn lock_for_fork(&self) -> Box<dyn Any> {
        Box::new(())
    }

    fn begin_child(&self) {}
}

/// Returns how often this thread has given up the processor until something wakes it.
#[expect(unsafe_code, reason = "std has no statistics of a thread")]
fn times_slept() -> i64 {
    // SAFETY: all bytes of these numbers may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the statistics can be written.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
    usage.ru_nvcsw
}

#[test]
fn a_thread_stuck_in_an_event_blocks_nothing() {
    let Some(fixture) = run_in_subprocess(&[("MAREY_LAUNCH_BUFFER_BYTES", "64")], || {
        set_hang_timeout();
        device::set_source(&BlockingSource);
        let first = start("first", Format::Hatchet);
        scope("complete", || ());
        thread::scope(|threads| {
            threads.spawn(|| {
                scope("before", || ());
                api::enter(api::intern("cut"), marey_record::NodeKind::Scope);
                for correlation in 1..10 {
                    api::launch_enter(correlation, api::intern("launch"), LaunchKind::Kernel);
                    api::launch_exit(correlation, true);
                }
                exit("cut");
            });
            drop(CHANGED.wait_while(BLOCK.lock().unwrap(), |block| !block.is_reached).unwrap());
            let before = times_slept();
            api::advance_phase(first).unwrap();
            let times = times_slept() - before;
            api::finalize(first, None).unwrap();
            let second = start("second", Format::Hatchet);
            scope("later", || ());
            api::finalize(second, None).unwrap();
            BLOCK.lock().unwrap().is_released = true;
            CHANGED.notify_all();
            // A thread of `SCHED_FIFO` that only yields keeps the other one from running.
            assert!(times > 20, "the waiting thread slept {times} times");
        });
    }) else {
        return;
    };
    let first = fixture.read("first.part_0.hatchet");
    assert_eq!(first.counts(), [("before", 1), ("complete", 1)]);
    assert_eq!(first.metadata()["losses"]["stuck_threads"], 1);
    assert_eq!(fixture.read("second.hatchet").counts(), [("later", 1)]);
}
