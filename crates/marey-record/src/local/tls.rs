//! The thread-local word that points to the calling thread's tree.
//!
//! On x86-64 the word is read through a TLS descriptor. That costs two instructions and a call of
//! two instructions if the library has static TLS. It has, unless libraries that were loaded late
//! have used up the reserve; then a thread's first access allocates. Rust's own code would call
//! `__tls_get_addr`, which takes several times as long.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) use self::portable::{get, set};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) use self::x86_64::{get, set};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[expect(unsafe_code, reason = "Rust has no way to choose how a thread-local word is reached")]
mod x86_64 {
    use crate::thread::ThreadTree;
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.marey_recorder, \"awT\", @nobits",
        ".globl marey_recorder",
        ".hidden marey_recorder",
        ".type marey_recorder, @object",
        ".size marey_recorder, 8",
        ".p2align 3",
        "marey_recorder:",
        ".zero 8",
        ".popsection",
    );

    /// Returns the calling thread's pointer, null before it is set.
    #[inline(always)]
    pub(in crate::local) fn get() -> *const ThreadTree {
        let pointer;
        // SAFETY: a TLS descriptor's function takes its argument and returns its result in RAX, and
        // preserves all registers except those listed. The thread's word is 8 bytes, aligned, and
        // initially zero.
        unsafe {
            asm!(
                "lea rax, [rip + marey_recorder@tlsdesc]",
                "call [rax + marey_recorder@tlscall]",
                "mov rax, fs:[rax]",
                out("rax") pointer,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            );
        }
        pointer
    }

    /// Sets the calling thread's pointer.
    #[inline(never)]
    pub(in crate::local) fn set(pointer: *const ThreadTree) {
        // SAFETY: as for `get`, a TLS descriptor's function preserves all registers except those
        // listed; the thread's word is 8 bytes and aligned.
        unsafe {
            asm!(
                "lea rax, [rip + marey_recorder@tlsdesc]",
                "call [rax + marey_recorder@tlscall]",
                "mov fs:[rax], {}",
                in(reg) pointer,
                out("rax") _,
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod portable {
    use crate::thread::ThreadTree;
    use std::cell::Cell;

    thread_local! {
        static RECORDER: Cell<*const ThreadTree> = const { Cell::new(std::ptr::null()) };
    }

    /// Returns the calling thread's pointer, null before it is set.
    #[inline(always)]
    pub(in crate::local) fn get() -> *const ThreadTree {
        RECORDER.get()
    }

    /// Sets the calling thread's pointer.
    pub(in crate::local) fn set(pointer: *const ThreadTree) {
        RECORDER.set(pointer);
    }
}
