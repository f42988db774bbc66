//! The atomics and fences of the lock-free code. They are loom's when loom checks that code.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// The frequent side of an asymmetric fence: orders the stores before it with the loads after it,
/// provided that the rare side calls [`heavy_fence`]. Compiles to no instruction.
#[inline(always)]
pub fn light_fence() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// The rare side: makes every running thread of the process execute a full fence.
///
/// Returns whether the kernel supports it. Without `membarrier(2)`, a thread seen outside an event
/// may still use what it read before.
#[cfg(not(loom))]
pub fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    membarrier::expedited()
}

/// The rare side under loom, where both sides use a full fence.
#[cfg(loom)]
pub fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// Registers the process for `membarrier(2)`, for later calls of [`heavy_fence`]. The first
/// registration takes milliseconds once there are several threads, so it should come early.
#[cfg(not(loom))]
pub fn register_heavy_fences() {
    membarrier::register();
}

#[cfg(not(loom))]
mod membarrier {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    pub(super) fn expedited() -> bool {
        // The registration belongs to the address space, which a child of a fork does not share.
        // Repeating it costs one system call on a rare path.
        register() && call(PRIVATE_EXPEDITED)
    }

    pub(super) fn register() -> bool {
        call(REGISTER_PRIVATE_EXPEDITED)
    }

    #[expect(unsafe_code, reason = "membarrier(2) has no wrapper in std")]
    fn call(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes plain numbers, touches none of the caller's memory, and returns
        // an error for an unknown command.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}
