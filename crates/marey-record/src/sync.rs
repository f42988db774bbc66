//! The atomics and fences of the lock-free parts, from loom when it checks them.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// The frequent side of an asymmetric fence: orders the stores before it against the loads after
/// it, provided that the rare side calls [`heavy_fence`]. Costs no instruction.
#[inline(always)]
pub fn light_fence() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// The rare side: makes every running thread of the process pass a full fence.
///
/// Returns whether it could. Where the kernel lacks `membarrier(2)` nobody may conclude from a
/// quiet thread that it will not touch what it had seen before.
#[cfg(not(loom))]
pub fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    membarrier::expedited()
}

/// As above; loom's threads fence on both sides.
#[cfg(loom)]
pub fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// Announces to the kernel that this process will call [`heavy_fence`]. The first announcement takes
/// milliseconds once there are several threads: the sooner it comes, the better.
#[cfg(not(loom))]
pub fn announce_heavy_fences() {
    membarrier::register();
}

#[cfg(not(loom))]
mod membarrier {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    pub(super) fn expedited() -> bool {
        // The registration belongs to the address space; a second one costs a system call, on a path
        // that is rare.
        register() && call(PRIVATE_EXPEDITED)
    }

    pub(super) fn register() -> bool {
        call(REGISTER_PRIVATE_EXPEDITED)
    }

    #[expect(unsafe_code, reason = "membarrier(2) has no wrapper in std")]
    fn call(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes plain numbers, touches no memory of ours, and answers an unknown
        // command with an error.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}
