//! The wake-up of a background thread: a word of request bits, which any thread and any signal
//! handler can set.
//!
//! It is a futex rather than a pipe, because a program may close every descriptor that it finds and
//! open files of its own under the same numbers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A set of pending requests, one bit each.
#[derive(Debug)]
pub(crate) struct Requests(AtomicU32);

impl Requests {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Adds a request and wakes the waiting thread. A request that is already pending costs no
    /// system call.
    pub(crate) fn add(&self, request: u32) {
        if self.0.load(Ordering::Relaxed) & request == 0
            && self.0.fetch_or(request, Ordering::SeqCst) & request == 0
        {
            self.wake();
        }
    }

    /// Waits for requests and removes them. Returns 0 after the timeout or a spurious wake-up.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> u32 {
        if self.0.load(Ordering::Relaxed) == 0 {
            self.sleep(timeout);
        }
        self.take()
    }

    /// Removes and returns the pending requests.
    pub(crate) fn take(&self) -> u32 {
        self.0.swap(0, Ordering::SeqCst)
    }

    /// Withdraws a request that is still pending.
    pub(crate) fn withdraw(&self, request: u32) {
        self.0.fetch_and(!request, Ordering::SeqCst);
    }

    #[expect(unsafe_code, reason = "futex(2) has no wrapper in std that a signal handler may use")]
    fn wake(&self) {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel uses the word's address as a key and does not write to it.
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
    fn a_request_wakes_the_waiter_and_is_returned_once() {
        let requests = Requests::new();
        assert_eq!(requests.wait(Some(Duration::from_millis(1))), 0);
        std::thread::scope(|threads| {
            let sleeper = threads.spawn(|| requests.wait(None));
            requests.add(4);
            assert_eq!(sleeper.join().unwrap(), 4);
        });
        requests.add(1);
        requests.add(1);
        requests.add(2);
        assert_eq!(requests.wait(None), 3);
        assert_eq!(requests.take(), 0);
    }
}
