//! The profilers' buffers: asked for, filled and handed back by the two functions of each.

#![expect(unsafe_code, reason = "the memory and the functions are the profiler's")]

use crate::activity::CLIENTS;
use crate::ffi::Address;
use crate::thread::counts;
use crate::{lock, thread};
use std::ffi::c_void;
use std::sync::Mutex;

/// Asks for a buffer: where it is, its bytes, and how many records it may hold (0: as many as fit).
pub(crate) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Hands a buffer back: context, stream, buffer, its bytes, and those with records.
pub(crate) type Complete = extern "C" fn(Address, u32, *mut u8, usize, usize);
/// The same of a subscriber beside others, with more about it at the end.
pub(crate) type ScopedRequest =
    extern "C" fn(*mut *mut u8, *mut usize, *mut usize, &mut RequestInfo);
/// The same.
pub(crate) type ScopedComplete = extern "C" fn(*mut u8, usize, usize, &mut CompleteInfo);

/// `CUpti_BufferCallbackRequestInfo`.
#[repr(C)]
pub(crate) struct RequestInfo {
    size: usize,
}

/// `CUpti_BufferCallbackCompleteInfo`.
#[repr(C)]
pub(crate) struct CompleteInfo {
    size: usize,
    thread: u64,
    layouts: *const c_void,
    layout_count: usize,
}

/// A client's two functions.
#[derive(Clone, Copy)]
pub(crate) enum Functions {
    Process(Request, Complete),
    Scoped(ScopedRequest, ScopedComplete),
}

static FUNCTIONS: Mutex<[Option<Functions>; CLIENTS]> = Mutex::new([None; CLIENTS]);

/// The client's functions, from now on; none once it is gone.
pub(crate) fn register(client: usize, functions: Option<Functions>) {
    lock(&FUNCTIONS)[client] = functions;
}

/// Forgets all functions.
pub(crate) fn unregister_all() {
    *lock(&FUNCTIONS) = [None; CLIENTS];
}

pub(crate) fn is_registered(client: usize) -> bool {
    lock(&FUNCTIONS)[client].is_some()
}

pub(crate) fn is_any_registered() -> bool {
    lock(&FUNCTIONS).iter().any(Option::is_some)
}

/// A buffer of the profiler's.
pub(crate) struct Buffer {
    client: usize,
    start: *mut u8,
    size: usize,
    used: usize,
    room: usize,
}

// SAFETY: the profiler gave the memory away until it is handed back, to whatever thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Asks a client for one that holds at least one record of this size; one that is too small goes
    /// back as it is.
    pub(crate) fn request(client: usize, least: usize) -> Option<Self> {
        let functions = lock(&FUNCTIONS)[client]?;
        let (mut start, mut size, mut most) = (std::ptr::null_mut(), 0, 0);
        let answers = (&raw mut start, &raw mut size, &raw mut most);
        match functions {
            Functions::Process(request, _) => request(answers.0, answers.1, answers.2),
            Functions::Scoped(request, _) => {
                let mut info = RequestInfo { size: size_of::<RequestInfo>() };
                request(answers.0, answers.1, answers.2, &mut info);
            }
        }
        counts().buffers_requested.add(1);
        let room = if most == 0 { usize::MAX } else { most };
        let buffer = (!start.is_null()).then_some(Self { client, start, size, used: 0, room })?;
        if size < least {
            buffer.complete();
            return None;
        }
        Some(buffer)
    }

    /// Appends a record; false where it does not fit.
    pub(crate) fn append(&mut self, record: &[u8]) -> bool {
        if self.room == 0 || self.size - self.used < record.len() {
            return false;
        }
        // SAFETY: the profiler said that `size` bytes are its to write, and so many are left.
        unsafe {
            let target = self.start.add(self.used);
            target.copy_from_nonoverlapping(record.as_ptr(), record.len());
        }
        self.used += record.len();
        self.room -= 1;
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Hands it back. No lock of ours is held meanwhile, since the profiler calls us from there.
    pub(crate) fn complete(self) {
        let Some(functions) = lock(&FUNCTIONS)[self.client] else { return };
        counts().buffers_completed.add(1);
        let (start, size, used) = (self.start, self.size, self.used);
        match functions {
            Functions::Process(_, complete) => complete(std::ptr::null_mut(), 0, start, size, used),
            Functions::Scoped(_, complete) => {
                let mut info = CompleteInfo {
                    size: size_of::<CompleteInfo>(),
                    thread: thread::id().into(),
                    layouts: std::ptr::null(),
                    layout_count: 0,
                };
                complete(start, size, used, &mut info);
            }
        }
    }
}

/// What is done with the buffer at hand when the profiler wants its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Hand back what has records.
    Records,
    /// Hand back every buffer.
    Forced,
}

/// The buffer at hand, and those that two threads asked for at once.
#[derive(Default)]
pub(crate) struct Buffers {
    current: Option<Buffer>,
    spare: Vec<Buffer>,
}

/// What became of a record.
pub(crate) enum Put {
    Written,
    /// It does not fit: this buffer is full. Hand it back and try again.
    Full(Buffer),
    /// There is no buffer. Ask for one and try again.
    Missing,
}

impl Buffers {
    pub(crate) const fn new() -> Self {
        Self { current: None, spare: Vec::new() }
    }

    #[inline]
    pub(crate) fn put(&mut self, record: &[u8]) -> Put {
        if self.current.is_none() {
            self.current = self.spare.pop();
        }
        let Some(buffer) = &mut self.current else { return Put::Missing };
        if buffer.append(record) {
            return Put::Written;
        }
        self.current.take().map_or(Put::Missing, Put::Full)
    }

    pub(crate) fn add(&mut self, buffer: Buffer) {
        self.spare.push(buffer);
    }

    /// Takes the buffers that are to be handed back.
    pub(crate) fn take(&mut self, flush: Flush) -> Vec<Buffer> {
        let mut buffers = std::mem::take(&mut self.spare);
        buffers.extend(self.current.take());
        if flush == Flush::Records {
            let (empty, full) = buffers.into_iter().partition(Buffer::is_empty);
            self.spare = empty;
            return full;
        }
        buffers
    }

    /// Forgets the buffers, which their owner has left.
    pub(crate) fn forget(&mut self) {
        *self = Self::new();
    }
}
