//! The profilers' buffers: asked for, filled and handed back by the two functions of each.

#![expect(unsafe_code, reason = "the memory and the functions are the profiler's")]

use crate::activity::CLIENTS;
use crate::ffi::Address;
use crate::record::{self, Version};
use crate::thread::counts;
use crate::{attribute, lock, settings, thread};
use std::collections::BTreeMap;
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
    /// Records in it that are in progress.
    open: usize,
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
        let buffer =
            (!start.is_null()).then_some(Self { client, start, size, used: 0, room, open: 0 })?;
        if attribute::says_zeroed() && !buffer.is_zeroed() {
            counts().buffers_dirty.add(1);
        }
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

    /// Whether all that it holds has ended.
    const fn is_complete(&self) -> bool {
        self.open == 0
    }

    /// Whether it begins with zeros, where the first records of an earlier use would be. To look at all of
    /// it would take longer than to fill it.
    fn is_zeroed(&self) -> bool {
        const ENOUGH: usize = 1024;
        // SAFETY: the profiler said that `size` bytes are its to read and write, and nobody else does.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.size.min(ENOUGH)) };
        bytes.iter().all(|&byte| byte == 0)
    }

    /// Lets what is in progress end now, or a moment after it began.
    fn finish(&mut self, now: u64, version: Version) {
        if self.is_complete() {
            return;
        }
        // SAFETY: `append` has written so many bytes, and nobody else does while the buffer is ours.
        let mut rest = unsafe { std::slice::from_raw_parts_mut(self.start, self.used) };
        while let Some(size) = version.size_of(record::kind_of(rest)) {
            let Some((one, next)) = rest.split_at_mut_checked(size) else { break };
            record::finish_kernel(one, now);
            rest = next;
        }
        self.open = 0;
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
    /// Hand back what has records, all of which have ended.
    Records,
    /// Hand back every buffer. What is in progress is never told of again.
    Forced,
}

/// A client's buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Those at hand: one, or one of each thread that has launched.
    current: BTreeMap<u32, Buffer>,
    /// Those that two threads asked for at once.
    spare: Vec<Buffer>,
    /// Those that are full, and hold something in progress.
    withheld: Vec<Buffer>,
}

/// Whose buffer is used: that of all threads, or the calling one's.
pub(crate) fn lane() -> u32 {
    if settings::has_each_thread_a_buffer() { thread::id() } else { 0 }
}

/// What became of a record.
pub(crate) enum Put {
    Written,
    /// There is another buffer now. Try again.
    Again,
    /// It does not fit: this buffer is full. Hand it back and try again.
    Full(Buffer),
    /// There is no buffer. Ask for one and try again.
    Missing,
}

impl Buffers {
    pub(crate) const fn new() -> Self {
        Self { current: BTreeMap::new(), spare: Vec::new(), withheld: Vec::new() }
    }

    /// Puts a record into the buffer of a lane; `is_open` of one that is in progress.
    #[inline]
    pub(crate) fn put(&mut self, lane: u32, record: &[u8], is_open: bool) -> Put {
        let Some(buffer) = self.current.get_mut(&lane) else { return self.put_anew(lane) };
        if buffer.append(record) {
            buffer.open += usize::from(is_open);
            return Put::Written;
        }
        match self.current.remove(&lane) {
            Some(buffer) if buffer.is_complete() => Put::Full(buffer),
            buffer => {
                self.withheld.extend(buffer);
                self.put_anew(lane)
            }
        }
    }

    fn put_anew(&mut self, lane: u32) -> Put {
        match self.spare.pop() {
            Some(spare) => {
                self.current.insert(lane, spare);
                Put::Again
            }
            None => Put::Missing,
        }
    }

    pub(crate) fn add(&mut self, buffer: Buffer) {
        self.spare.push(buffer);
    }

    /// Lets everything end that is in progress.
    pub(crate) fn finish(&mut self, now: u64, version: Version) {
        let buffers = self.current.values_mut().chain(&mut self.withheld);
        buffers.for_each(|buffer| buffer.finish(now, version));
    }

    /// Takes the buffers that are to be handed back.
    pub(crate) fn take(&mut self, flush: Flush) -> Vec<Buffer> {
        if flush == Flush::Forced {
            let Self { current, spare, withheld } = std::mem::take(self);
            return spare.into_iter().chain(withheld).chain(current.into_values()).collect();
        }
        let is_due = |buffer: &mut Buffer| buffer.is_complete() && !buffer.is_empty();
        let mut due: Vec<_> = self.withheld.extract_if(.., is_due).collect();
        let current = std::mem::take(&mut self.current);
        for (lane, mut buffer) in current {
            if is_due(&mut buffer) {
                due.push(buffer);
            } else {
                self.current.insert(lane, buffer);
            }
        }
        due
    }

    /// Forgets the buffers, which their owner has left.
    pub(crate) fn forget(&mut self) {
        *self = Self::new();
    }
}
