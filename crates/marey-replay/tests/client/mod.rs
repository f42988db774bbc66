//! A minimal profiler that subscribes and keeps all callbacks and records.

#![expect(unsafe_code, reason = "calls of the C interface")]
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(clippy::unused_self, reason = "only the test that holds the lock may call")]

use marey_replay as _; // the library with the C functions declared here
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

pub(crate) const KERNEL: u32 = 10;

type Callback = extern "C" fn(*mut c_void, u32, u32, *const c_void);
type Request = extern "C" fn(*mut *mut u64, *mut usize, *mut usize);
type Complete = extern "C" fn(*mut c_void, u32, *mut u64, usize, usize);

unsafe extern "C" {
    fn replay_load(text: *const u8, size: usize) -> i32;
    fn replay_error() -> *const c_char;
    fn replay_play(part: *const c_char) -> i32;
    fn replay_calls(function: *const c_char) -> u64;
    pub(crate) safe fn replay_run() -> i32;
    pub(crate) safe fn cuptiSubscribe(
        subscriber: &mut usize,
        callback: Callback,
        user_data: usize,
    ) -> i32;
    pub(crate) safe fn cuptiUnsubscribe(subscriber: usize) -> i32;
    pub(crate) safe fn cuptiEnableDomain(enable: u32, subscriber: usize, domain: u32) -> i32;
    pub(crate) safe fn cuptiActivityRegisterCallbacks(request: Request, complete: Complete) -> i32;
    pub(crate) safe fn cuptiActivityEnable(kind: u32) -> i32;
    pub(crate) safe fn cuptiActivityFlushAll(flag: u32) -> i32;
    pub(crate) safe fn cuptiActivityGetNumDroppedRecords(
        context: usize,
        stream: u32,
        dropped: &mut usize,
    ) -> i32;
    pub(crate) safe fn cuptiFinalize() -> i32;
    pub(crate) safe fn cuptiGetTimestamp(timestamp: &mut u64) -> i32;
    pub(crate) safe fn cuptiGetVersion(version: &mut u32) -> i32;
    fn cuptiActivityGetNextRecord(buffer: *mut u64, valid: usize, record: *mut *mut u64) -> i32;
    pub(crate) safe fn cuptiGetGraphId(graph: usize, id: &mut u32) -> i32;
    pub(crate) safe fn cuptiGetGraphNodeId(node: usize, id: &mut u64) -> i32;
    pub(crate) safe fn cuptiGetGraphExecId(executable: usize, id: &mut u32) -> i32;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallbackCall {
    pub domain: u32,
    pub cbid: u32,
    /// For calls: 0 at entry and 1 at exit.
    pub site: u32,
    pub correlation: u32,
    /// For launches: the address of the kernel's name, and its text during the callback.
    pub symbol: (usize, String),
    /// For graphs: graph, original graph, node, original node, executable graph.
    pub graph: [usize; 5],
}

/// A record, and the thread that delivered it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub bytes: Vec<u8>,
    /// For kernels: the name at the delivery.
    pub name: String,
    pub thread: ThreadId,
}

impl Record {
    pub(crate) fn word(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[offset..offset + 4].try_into().unwrap())
    }

    pub(crate) fn long(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes[offset..offset + 8].try_into().unwrap())
    }

    pub(crate) fn kind(&self) -> u32 {
        self.word(0)
    }

    /// Returns the string that a record points to.
    pub(crate) fn text(&self, offset: usize) -> String {
        text_at(usize::try_from(self.long(offset)).unwrap())
    }
}

/// Returns the string at this address.
pub(crate) fn text_at(address: usize) -> String {
    // SAFETY: strings that records and callbacks point to are never freed.
    unsafe { CStr::from_ptr(address as *const c_char) }.to_str().unwrap().to_owned()
}

static CALLBACKS: Mutex<Vec<CallbackCall>> = Mutex::new(Vec::new());
static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());
static BUFFER_BYTES: AtomicUsize = AtomicUsize::new(0);
static HAS_BUFFERS: AtomicBool = AtomicBool::new(true);
static LOCK: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn on_callback(_: *mut c_void, domain: u32, cbid: u32, data: *const c_void) {
    let read = |offset: usize| {
        // SAFETY: the data are longer than the offsets read here: 72 bytes for a call, 24 for a
        // resource, 56 for a graph.
        unsafe { data.cast::<u8>().add(offset).cast::<usize>().read_unaligned() }
    };
    let symbol = (0, String::new());
    let mut call = CallbackCall { domain, cbid, site: 0, correlation: 0, symbol, graph: [0; 5] };
    if domain < 3 {
        let symbol = read(32);
        if symbol != 0 {
            call.symbol = (symbol, text_at(symbol));
        }
        call.site = u32::try_from(read(0) & 0xffff_ffff).unwrap();
        call.correlation = u32::try_from(read(64) & 0xffff_ffff).unwrap();
    } else if domain == 3 && (9..=20).contains(&cbid) {
        let graph = read(16) as *const usize;
        // SAFETY: as above; these are words of the graph descriptor.
        call.graph = [0, 1, 2, 3, 6].map(|word| unsafe { graph.add(word).read() });
    }
    lock(&CALLBACKS).push(call);
}

extern "C" fn on_request(buffer: *mut *mut u64, size: *mut usize, max_records: *mut usize) {
    let bytes = BUFFER_BYTES.load(SeqCst);
    let start = if HAS_BUFFERS.load(SeqCst) {
        Box::leak(vec![0_u64; bytes / 8].into_boxed_slice()).as_mut_ptr()
    } else {
        std::ptr::null_mut()
    };
    // SAFETY: the library passes three writable addresses.
    unsafe {
        *buffer = start;
        *size = bytes;
        *max_records = 0;
    }
}

extern "C" fn on_complete(_: *mut c_void, _: u32, buffer: *mut u64, size: usize, valid: usize) {
    let mut last = std::ptr::null_mut();
    let mut starts = Vec::new();
    // SAFETY: the buffer comes from `on_request`, and `valid` bytes of it contain records.
    while unsafe { cuptiActivityGetNextRecord(buffer, valid, &raw mut last) } == 0 {
        starts.push(last as usize - buffer as usize);
    }
    // SAFETY: `on_request` leaked it with this length.
    let words = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(buffer, size / 8)) };
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let ends = starts.iter().skip(1).copied().chain([valid]);
    let thread = std::thread::current().id();
    let records = starts.iter().zip(ends).map(|(start, end)| {
        let bytes = bytes[*start..end].to_vec();
        let mut record = Record { bytes, name: String::new(), thread };
        if record.kind() == KERNEL {
            record.name = record.text(104);
        }
        record
    });
    lock(&RECORDS).extend(records);
}

/// The profiler. It holds a lock, because the process has only one double.
pub(crate) struct Client {
    pub subscriber: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Client {
    /// Loads a script, subscribes to all calls and graph resources, and enables these activity
    /// kinds.
    pub(crate) fn new(script: &str, kinds: &[u32]) -> Self {
        let turn = lock(&LOCK);
        HAS_BUFFERS.store(true, SeqCst);
        BUFFER_BYTES.store(4096, SeqCst);
        assert_eq!(load(script), Ok(()));
        lock(&CALLBACKS).clear();
        lock(&RECORDS).clear();
        let mut subscriber = 0;
        assert_eq!(cuptiSubscribe(&mut subscriber, on_callback, 0), 0);
        for domain in 1..=4 {
            assert_eq!(cuptiEnableDomain(1, subscriber, domain), 0);
        }
        assert_eq!(cuptiActivityRegisterCallbacks(on_request, on_complete), 0);
        for kind in kinds {
            assert_eq!(cuptiActivityEnable(*kind), 0);
        }
        Self { subscriber, _turn: turn }
    }

    /// Plays the script and flushes. Returns the records.
    pub(crate) fn play(&self) -> Vec<Record> {
        assert_eq!(replay_run(), 0);
        self.flush(0)
    }

    /// Flushes. Returns all records so far.
    pub(crate) fn flush(&self, flag: u32) -> Vec<Record> {
        assert_eq!(cuptiActivityFlushAll(flag), 0);
        lock(&RECORDS).clone()
    }

    /// Returns the callbacks so far.
    pub(crate) fn callbacks(&self) -> Vec<CallbackCall> {
        lock(&CALLBACKS).clone()
    }

    /// Returns domain, callback id, site and correlation id of each callback so far.
    pub(crate) fn calls(&self) -> Vec<(u32, u32, u32, u32)> {
        let callbacks = lock(&CALLBACKS);
        callbacks.iter().map(|t| (t.domain, t.cbid, t.site, t.correlation)).collect()
    }

    /// Returns the graph of each callback of a resource so far.
    pub(crate) fn graphs(&self, cbid: u32) -> Vec<[usize; 5]> {
        let callbacks = lock(&CALLBACKS);
        let of_resource = callbacks.iter().filter(|t| (t.domain, t.cbid) == (3, cbid));
        of_resource.map(|t| t.graph).collect()
    }

    /// Sets the size of buffers from now on, or provides none.
    pub(crate) fn provide_buffers(&self, bytes: Option<usize>) {
        HAS_BUFFERS.store(bytes.is_some(), SeqCst);
        BUFFER_BYTES.store(bytes.unwrap_or_default(), SeqCst);
    }

    pub(crate) fn dropped(&self) -> usize {
        let mut dropped = 0;
        assert_eq!(cuptiActivityGetNumDroppedRecords(0, 0, &mut dropped), 0);
        dropped
    }

    /// Subscribes again. Returns the code.
    pub(crate) fn subscribe_again(&self) -> i32 {
        cuptiSubscribe(&mut 0, on_callback, 0)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The next script may make this call fail, as intended.
        cuptiFinalize();
    }
}

/// Loads a script, or returns its error.
pub(crate) fn load(script: &str) -> Result<(), String> {
    // SAFETY: the text is passed with its size, and the error is valid until the next load.
    unsafe {
        match replay_load(script.as_ptr(), script.len()) {
            0 => Ok(()),
            _ => Err(CStr::from_ptr(replay_error()).to_str().unwrap().to_owned()),
        }
    }
}

pub(crate) fn calls(function: &str) -> u64 {
    let function = CString::new(function).unwrap();
    // SAFETY: the string is NUL-terminated.
    unsafe { replay_calls(function.as_ptr()) }
}

/// Plays a part of the script.
pub(crate) fn play(part: &str) {
    let part = CString::new(part).unwrap();
    // SAFETY: the string is NUL-terminated.
    assert_eq!(unsafe { replay_play(part.as_ptr()) }, 0);
}
