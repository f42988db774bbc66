//! What cannot go on, such as a disk that hangs, keeps nothing else from going on.

use crate::harness::{Role, Turn, exit, fork, part, scope, tell_ready, wait_until_ready};
use marey_record::device::LaunchKind;
use marey_record::device::{self, Flush, Source};
use marey_record::{SessionId, SessionOptions, api};
use std::any::Any;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::thread;

/// Ends this process if it hangs.
#[expect(unsafe_code, reason = "std has no alarms")]
fn end_if_it_hangs() {
    const PATIENCE_SECS: u32 = 60;
    // SAFETY: a plain number.
    unsafe { libc::alarm(PATIENCE_SECS) };
}

/// A disk that takes the beginning of a file and hangs: where the recorder makes it, there is a pipe.
struct HungDisk(File);

#[expect(unsafe_code, reason = "std makes no pipes with names")]
impl HungDisk {
    fn new(folder: &Path, file: &str) -> Self {
        let path = folder.join(format!(".{file}.{}.tmp", std::process::id()));
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let open = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        Self(open.unwrap())
    }

    /// Waits until somebody writes the file, which is longer than a pipe.
    fn wait_until_written(&self) {
        let mut asked = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor that can be written to.
        assert_eq!(unsafe { libc::poll(&raw mut asked, 1, -1) }, 1);
    }

    /// Takes everything, until the writer closes the file or the process ends.
    fn go_on(mut self) {
        // SAFETY: plain numbers.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETFL, 0) };
        let take = move || while self.0.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {};
        thread::Builder::new().name("disk".to_owned()).spawn(take).unwrap();
    }
}

/// Starts a session with more scopes than a pipe holds the names of.
fn start_large(folder: &Path, name: &str, flush_phases: bool) -> SessionId {
    let options = SessionOptions::named(folder.join(name).to_str().unwrap());
    let session = api::start(&SessionOptions { flush_phases, ..options }).unwrap();
    (0..1000).for_each(|at| scope(&format!("scope {at} {}", "x".repeat(100)), || ()));
    session
}

/// In the child of a fork: ends all sessions.
fn finalize_all() -> i32 {
    scope("in the child", || ());
    let all: Result<Vec<_>, _> =
        api::alive().into_iter().map(|id| api::finalize(id, None)).collect();
    i32::from(all.is_err())
}

#[test]
fn a_fork_does_not_wait_for_a_checkpoint_that_hangs() {
    const TEST: &str = "stalls::a_fork_does_not_wait_for_a_checkpoint_that_hangs";
    if let Some((_, folder)) = part() {
        end_if_it_hangs();
        let disk = HungDisk::new(&folder, "profile.hatchet");
        let session = start_large(&folder, "profile", false);
        disk.wait_until_written();
        assert_eq!(fork(finalize_all), 0);
        assert_eq!(fork(finalize_all), 0);
        scope("after", || ());
        disk.go_on();
        api::finalize(session, None).unwrap();
        return;
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[("MAREY_CHECKPOINT_SECS", "0.01")]);
    let [first, second, own] = &*turn.files() else { panic!("{:?}", turn.files()) };
    for child in [first, second] {
        assert_eq!(turn.read(child).counts(), [("in the child", 1)], "{child}");
    }
    assert!(turn.read(own).counts().contains(&("after", 1)));
}

#[test]
fn nothing_waits_for_a_phase_whose_file_hangs() {
    const TEST: &str = "stalls::nothing_waits_for_a_phase_whose_file_hangs";
    if let Some((_, folder)) = part() {
        end_if_it_hangs();
        let disk = HungDisk::new(&folder, "phases.part_0.hatchet");
        let session = start_large(&folder, "phases", true);
        thread::scope(|threads| {
            let advance = threads.spawn(|| api::advance_phase(session).unwrap());
            disk.wait_until_written();
            let other = api::start(&SessionOptions::named(folder.join("other").to_str().unwrap()));
            scope("meanwhile", || ());
            assert_eq!(fork(|| 0), 0);
            api::finalize(other.unwrap(), None).unwrap();
            disk.go_on();
            assert_eq!(advance.join().unwrap(), 1);
        });
        api::discard(session).unwrap();
        return;
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[("MAREY_CHECKPOINT_SECS", "0")]);
    assert_eq!(turn.read("other.hatchet").counts(), [("meanwhile", 1)]);
}

#[expect(unsafe_code, reason = "std has no signals")]
fn send_sigterm(thread: libc::pthread_t) {
    // SAFETY: a thread that goes on for as long as the process does.
    unsafe { libc::pthread_kill(thread, libc::SIGTERM) };
}

#[test]
fn sigterm_in_the_middle_of_a_call_loses_no_profile() {
    const TEST: &str = "stalls::sigterm_in_the_middle_of_a_call_loses_no_profile";
    if let Some((_, folder)) = part() {
        end_if_it_hangs();
        let path = |name| folder.join(name).to_str().unwrap().to_owned();
        api::start(&SessionOptions::named(path("kept"))).unwrap();
        scope("done", || ());
        let other = api::start(&SessionOptions::named(path("other"))).unwrap();
        // SAFETY: no arguments.
        #[expect(unsafe_code, reason = "std has no number that signals go to")]
        let own = unsafe { libc::pthread_self() };
        let send = move || send_sigterm(own);
        thread::Builder::new().name("sends".to_owned()).spawn(send).unwrap();
        tell_ready();
        // Nearly all of this is in the middle of calls.
        while api::clear(other, 0, false).is_ok() {}
    }
    let turn = Turn::begin();
    let mut child = Role::new(TEST, "run", &turn).spawn(&[("MAREY_CHECKPOINT_SECS", "0")]);
    drop(wait_until_ready(&mut child));
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert_eq!(turn.read("kept.hatchet").counts(), [("done", 1)]);
    assert_eq!(turn.read("kept.hatchet").about()["process"]["complete"], true);
}

static DISK: Mutex<Option<HungDisk>> = Mutex::new(None);

extern "C" fn disk_goes_on() {
    DISK.lock().unwrap().take().unwrap().go_on();
}

#[test]
fn the_end_of_a_process_waits_for_a_thread_that_writes() {
    const TEST: &str = "stalls::the_end_of_a_process_waits_for_a_thread_that_writes";
    if let Some((_, folder)) = part() {
        end_if_it_hangs();
        let disk = HungDisk::new(&folder, "profile.hatchet");
        let session = start_large(&folder, "profile", false);
        let finalize = move || api::finalize(session, None).unwrap();
        thread::Builder::new().name("daemon".to_owned()).spawn(finalize).unwrap();
        disk.wait_until_written();
        *DISK.lock().unwrap() = Some(disk);
        // SAFETY: the function lives as long as the process. It runs before the recorder's own.
        #[expect(unsafe_code, reason = "atexit takes a C function")]
        unsafe {
            libc::atexit(disk_goes_on);
            libc::exit(0);
        }
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[("MAREY_CHECKPOINT_SECS", "0")]);
    // A file has this name only once it is whole.
    assert_eq!(turn.files(), ["profile.hatchet"]);
}

/// A source that keeps a thread in the middle of an event.
struct Keeps;

static STATE: Mutex<(bool, bool)> = Mutex::new((false, false));
static CHANGED: Condvar = Condvar::new();

impl Source for Keeps {
    fn flush(&self, _how: Flush) {}

    fn ask_for_drain(&self) {
        let mut state = STATE.lock().unwrap();
        state.0 = true;
        CHANGED.notify_all();
        drop(CHANGED.wait_while(state, |state| !state.1).unwrap());
    }

    fn stop(&self) {}

    fn hold(&self) -> Box<dyn Any> {
        Box::new(())
    }

    fn begin_child(&self) {}
}

#[test]
fn a_thread_that_stays_in_an_event_holds_nothing_up() {
    const TEST: &str = "stalls::a_thread_that_stays_in_an_event_holds_nothing_up";
    if let Some((_, folder)) = part() {
        end_if_it_hangs();
        device::set_source(&Keeps);
        let start = |name| {
            let name = folder.join(name);
            api::start(&SessionOptions::named(name.to_str().unwrap())).unwrap()
        };
        let first = start("first");
        scope("whole", || ());
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
            drop(CHANGED.wait_while(STATE.lock().unwrap(), |state| !state.0).unwrap());
            api::advance_phase(first).unwrap();
            api::finalize(first, None).unwrap();
            let second = start("second");
            scope("later", || ());
            api::finalize(second, None).unwrap();
            STATE.lock().unwrap().1 = true;
            CHANGED.notify_all();
        });
        return;
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[("MAREY_LAUNCH_BUFFER_BYTES", "64")]);
    let first = turn.read("first.part_0.hatchet");
    assert_eq!(first.counts(), [("before", 1), ("whole", 1)]);
    assert_eq!(first.about()["losses"]["stuck_threads"], 1);
    assert_eq!(turn.read("second.hatchet").counts(), [("later", 1)]);
}
