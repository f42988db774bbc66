//! What wakes the background thread: a word that anybody sets bits of, also a signal handler.
//!
//! A futex and not a pipe: a program may close every descriptor that it finds, and open files of its
//! own under the same numbers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The word; each call is a bit.
#[derive(Debug)]
pub(crate) struct Bell(AtomicU32);

impl Bell {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Makes a call. One that has been made and not heard yet costs no system call.
    pub(crate) fn ring(&self, call: u32) {
        if self.0.load(Ordering::Relaxed) & call == 0
            && self.0.fetch_or(call, Ordering::SeqCst) & call == 0
        {
            self.wake();
        }
    }

    /// Waits for calls and takes them; 0 if the time was over first, or for no reason.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> u32 {
        if self.0.load(Ordering::Relaxed) == 0 {
            self.sleep(timeout);
        }
        self.take()
    }

    /// Takes the calls that were made.
    pub(crate) fn take(&self) -> u32 {
        self.0.swap(0, Ordering::SeqCst)
    }

    /// Takes back a call that nobody has heard yet.
    pub(crate) fn withdraw(&self, call: u32) {
        self.0.fetch_and(!call, Ordering::SeqCst);
    }

    #[expect(unsafe_code, reason = "futex(2) has no wrapper in std that a signal handler may use")]
    fn wake(&self) {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel takes the word's address as a key and does not write to it.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), wake, 1) };
    }

    /// Sleeps while the word is zero.
    #[expect(unsafe_code, reason = "futex(2), as above")]
    fn sleep(&self, timeout: Option<Duration>) {
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word is readable, and the timeout null or valid until the call returns.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), wait, 0, timeout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_wakes_and_is_heard_once() {
        let bell = Bell::new();
        assert_eq!(bell.wait(Some(Duration::from_millis(1))), 0);
        std::thread::scope(|threads| {
            let sleeper = threads.spawn(|| bell.wait(None));
            bell.ring(4);
            assert_eq!(sleeper.join().unwrap(), 4);
        });
        bell.ring(1);
        bell.ring(1);
        bell.ring(2);
        assert_eq!(bell.wait(None), 3);
        assert_eq!(bell.take(), 0);
    }
}
