//! Recording through CUPTI: from becoming its subscriber to letting go of it.

use super::abi::calls::{Call, driver};
use super::abi::constants::{domain, flush, kind, resource};
use super::abi::result;
use super::buffers;
use super::callback;
use super::driver::Driver;
use super::functions::{CuContext, Functions, Subscriber};
use super::library::{self, Library};
use super::reader::{self, DRAIN, WORKER};
use super::search::Hints;
use super::unavailable::{Step, Unavailable};
use marey_record::device::{self, DeviceInfo, Flush, Source};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Besides kernels, everything that devices did, and the calls that made them do it.
    pub activities: bool,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// CUPTI in use.
#[derive(Debug)]
struct Session {
    library: &'static Library,
    subscriber: SubscriberHandle,
    kinds: BTreeSet<u32>,
    callbacks: BTreeSet<(u32, u32)>,
}

/// The library's number of its subscriber, which any thread may use.
#[derive(Clone, Copy, Debug)]
struct SubscriberHandle(Subscriber);

#[expect(unsafe_code, reason = "a handle of the library, which serves all threads")]
// SAFETY: the library takes the handle from any thread; we only hand it back.
unsafe impl Send for SubscriberHandle {}

fn session() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to record, or records more than before. Starts the driver, if the program has not.
pub fn start(hints: &Hints, wanted: Wanted) -> Result<&'static Library, Unavailable> {
    let mut session = session();
    let library = library::open(hints)?;
    if session.is_none() {
        *session = Some(Session::begin(library)?);
    }
    if let Some(begun) = session.as_mut()
        && let Err(error) = begun.enable(wanted)
    {
        if let Some(begun) = session.take() {
            begun.end();
        }
        return Err(error);
    }
    announce_devices();
    device::set_source(&CUPTI);
    marey_record::api::start_source(&WORKER);
    Ok(library)
}

/// Whether devices are being recorded.
pub fn is_running() -> bool {
    session().is_some()
}

impl Session {
    fn begin(library: &'static Library) -> Result<Self, Unavailable> {
        callback::prepare(&library.functions);
        let subscriber = subscribe(library)?;
        let begun =
            Self { library, subscriber, kinds: BTreeSet::new(), callbacks: BTreeSet::new() };
        let unread = |code| refused(library, Step::Enable, "cuptiGetTimestamp", code);
        match begun.register().and_then(|()| reader::prepare(library).map_err(unread)) {
            Ok(()) => Ok(begun),
            Err(refusal) => {
                begun.end();
                Err(refusal)
            }
        }
    }

    #[expect(unsafe_code, reason = "a call of the library")]
    fn register(&self) -> Result<(), Unavailable> {
        let functions = &self.library.functions;
        // SAFETY: both functions keep to what the library asks of them, for as long as the process
        // lives.
        let code = unsafe { (functions.activity_register_callbacks)(requested, completed) };
        self.check(code, Step::Enable, "cuptiActivityRegisterCallbacks")
    }

    fn enable(&mut self, wanted: Wanted) -> Result<(), Unavailable> {
        let version = self.library.api_version;
        let mut calls: Vec<Call> = [driver::LAUNCHES, driver::GRAPH_LAUNCHES]
            .into_iter()
            .flat_map(|calls| calls.known_to(version))
            .collect();
        if wanted.activities {
            let more = [driver::COPIES, driver::SETS, driver::WAITS];
            calls.extend(more.into_iter().flat_map(|calls| calls.known_to(version)));
        }
        let captures = [driver::BEGIN_CAPTURES, driver::END_CAPTURES];
        calls.extend(captures.into_iter().flat_map(|calls| calls.known_to(version)));
        for call in calls {
            self.enable_callback(domain::DRIVER_API, call.id)?;
        }
        for cbid in RESOURCES {
            self.enable_callback(domain::RESOURCE, cbid)?;
        }
        self.enable_kind(kind::CONCURRENT_KERNEL)?;
        if wanted.activities {
            for more in MORE_KINDS {
                // Kernels are what matters: what else the library refuses is left out.
                drop(self.enable_kind(more));
            }
        }
        self.set_flush_period(wanted);
        Ok(())
    }

    #[expect(unsafe_code, reason = "a call of the library")]
    fn enable_callback(&mut self, of_domain: u32, cbid: u32) -> Result<(), Unavailable> {
        if self.callbacks.contains(&(of_domain, cbid)) {
            return Ok(());
        }
        // SAFETY: the subscriber is the library's.
        let code = unsafe {
            (self.library.functions.enable_callback)(1, self.subscriber.0, of_domain, cbid)
        };
        self.check(code, Step::Enable, "cuptiEnableCallback")?;
        self.callbacks.insert((of_domain, cbid));
        Ok(())
    }

    #[expect(unsafe_code, reason = "a call of the library")]
    fn enable_kind(&mut self, of_kind: u32) -> Result<(), Unavailable> {
        if self.kinds.contains(&of_kind) {
            return Ok(());
        }
        // SAFETY: any number may be asked for.
        let code = unsafe { (self.library.functions.activity_enable)(of_kind) };
        self.check(code, Step::Enable, "cuptiActivityEnable")?;
        self.kinds.insert(of_kind);
        Ok(())
    }

    /// Has the library hand its buffers over now and again, full or not: a phase is complete soon after
    /// its last kernel, and a trace on disk.
    #[expect(unsafe_code, reason = "a call of the library")]
    fn set_flush_period(&self, wanted: Wanted) {
        let millis = if wanted.activities { 200 } else { 1000 };
        if let Some(set) = self.library.functions.activity_flush_period {
            // SAFETY: any period may be asked for. One that is refused costs timeliness alone.
            unsafe { set(millis) };
        }
    }

    fn check(&self, code: u32, step: Step, call: &'static str) -> Result<(), Unavailable> {
        if code == result::SUCCESS { Ok(()) } else { Err(refused(self.library, step, call, code)) }
    }

    /// Lets go of the library. It stays loaded, and is not finalized: another tool may use it.
    #[expect(unsafe_code, reason = "calls of the library")]
    fn end(self) {
        let functions = &self.library.functions;
        for of_kind in self.kinds {
            // SAFETY: the kind is on.
            unsafe { (functions.activity_disable)(of_kind) };
        }
        for (of_domain, cbid) in self.callbacks {
            // SAFETY: the subscriber is the library's.
            unsafe { (functions.enable_callback)(0, self.subscriber.0, of_domain, cbid) };
        }
        if let Some(set) = functions.activity_flush_period {
            // SAFETY: 0 is no period.
            unsafe { set(0) };
        }
        // SAFETY: the subscriber is the library's, and is not used after this.
        unsafe { (functions.unsubscribe)(self.subscriber.0) };
    }
}

/// Kinds of records beside kernels.
const MORE_KINDS: [u32; 5] =
    [kind::MEMCPY, kind::MEMCPY2, kind::MEMSET, kind::SYNCHRONIZATION, kind::OVERHEAD];

/// What is to be known of contexts and graphs.
const RESOURCES: [u32; 4] = [
    resource::CONTEXT_DESTROY_STARTING,
    resource::GRAPHNODE_CREATED,
    resource::GRAPHNODE_CLONED,
    resource::GRAPHNODE_DESTROY_STARTING,
];

#[expect(unsafe_code, reason = "a call of the library")]
fn subscribe(library: &Library) -> Result<SubscriberHandle, Unavailable> {
    let mut subscriber = std::ptr::null_mut();
    // SAFETY: the callback lives as long as the process, and the handle can be written.
    let code = unsafe {
        (library.functions.subscribe)(&raw mut subscriber, callback::callback, std::ptr::null_mut())
    };
    match code {
        result::SUCCESS => Ok(SubscriberHandle(subscriber)),
        code => Err(refused(library, Step::Subscribe, "cuptiSubscribe", code)),
    }
}

fn refused(library: &Library, step: Step, call: &'static str, code: u32) -> Unavailable {
    Unavailable::Refused { step, library: library.path.clone(), call, code }
}

fn announce_devices() {
    let Ok(driver) = Driver::get() else { return };
    for found in driver.devices() {
        device::announce(DeviceInfo {
            number: found.ordinal,
            device_type: "CUDA".to_owned(),
            arch: found.arch.to_string(),
            name: found.name,
            bus_width_bits: found.bus_width.into(),
            clock_khz: found.clock_rate.into(),
            memory_clock_khz: found.memory_clock_rate.into(),
            multiprocessors: found.num_sms.into(),
            properties: vec![("totalGlobalMem".to_owned(), found.total_memory)],
        });
    }
}

/// What the library calls for a buffer.
///
/// # Safety
/// The three addresses can be written.
#[expect(unsafe_code, reason = "the library's own interface")]
unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, max_records: *mut usize) {
    /// Where a library would not bear to get none.
    const SMALL_BYTES: usize = 64 << 10;
    let words = buffers::take().or_else(|| {
        let takes_none = library_api_version() >= REJECTS_SINCE;
        (!takes_none).then(|| vec![0; SMALL_BYTES / size_of::<u64>()].into_boxed_slice())
    });
    let (address, bytes) = match words {
        Some(words) => {
            let bytes = size_of_val(&*words);
            (Box::into_raw(words).cast::<u8>(), bytes)
        }
        None => (std::ptr::null_mut(), 0),
    };
    // SAFETY: the caller's promise.
    unsafe {
        *buffer = address;
        *size = bytes;
        *max_records = 0;
    }
}

/// The first API version that bears to get no buffer.
const REJECTS_SINCE: u32 = 27;

fn library_api_version() -> u32 {
    library::opened().map_or(0, |library| library.api_version)
}

/// What the library calls with a buffer that it has filled.
///
/// # Safety
/// The buffer is one of [`requested`], of this size, which the library uses no more.
#[expect(unsafe_code, reason = "the library's own interface")]
unsafe extern "C" fn completed(
    _context: CuContext,
    _stream_id: u32,
    buffer: *mut u8,
    size: usize,
    valid_size: usize,
) {
    if buffer.is_null() {
        return;
    }
    let address = buffer.cast::<c_void>().cast::<u64>();
    let words = std::ptr::slice_from_raw_parts_mut(address, size / size_of::<u64>());
    // SAFETY: `requested` made a box of so many words of it, and the library gives it back once.
    let words = unsafe { Box::from_raw(words) };
    buffers::fill(words, valid_size);
    WORKER.call(DRAIN);
}

/// CUPTI, as the recorder sees it.
#[derive(Debug)]
struct Cupti;

static CUPTI: Cupti = Cupti;

/// How long a flush waits for records that the library has not handed over, before it forces them, and
/// then again.
const PATIENCE: Duration = Duration::from_millis(20);

impl Source for Cupti {
    fn flush(&self, how: Flush) {
        let library = session().as_ref().map(|session| session.library);
        let Some(library) = library else { return };
        if how == Flush::Finished {
            callback::as_ours(wait_for_devices);
        }
        flush_all(&library.functions, 0);
        reader::read_all();
        if how == Flush::Finished {
            wait_for_records();
            if device::is_anything_waiting() {
                flush_all(&library.functions, flush::FORCED);
                reader::read_all();
                wait_for_records();
            }
            device::nothing_waits();
        }
    }

    fn ask_for_drain(&self) {
        WORKER.call(DRAIN);
    }

    fn stop(&self) {
        if let Some(session) = session().take() {
            session.end();
        }
        WORKER.stop();
        reader::read_all();
        buffers::free();
    }

    fn begin_child(&self) {
        *session() = None;
        buffers::begin_child();
        callback::begin_child();
        reader::begin_child();
    }
}

/// Waits until every context has worked off what was launched in it, unless a stream is being captured:
/// that would spoil the capture.
#[expect(unsafe_code, reason = "calls of the driver")]
fn wait_for_devices() {
    let Ok(driver) = Driver::get() else { return };
    if callback::is_capturing() {
        return;
    }
    let functions = &driver.functions;
    let (Some(push), Some(pop)) = (functions.ctx_push_current, functions.ctx_pop_current) else {
        driver.synchronize().unwrap_or(());
        return;
    };
    for context in callback::contexts() {
        // SAFETY: the context exists: the library told of its making and has not told of its end.
        if unsafe { push(context) } != 0 {
            continue;
        }
        // What fails here fails in the program's own calls too, which tell it.
        driver.synchronize().unwrap_or(());
        let mut before = std::ptr::null_mut();
        // SAFETY: the context was pushed above, and the address can be written.
        unsafe { pop(&raw mut before) };
    }
}

#[expect(unsafe_code, reason = "a call of the library")]
fn flush_all(functions: &Functions, flags: u32) {
    // SAFETY: any flags may be given. What it cannot hand over now, it does later.
    unsafe { (functions.activity_flush_all)(flags) };
}

/// The library may hand buffers over a moment after it was asked to.
fn wait_for_records() {
    let end = Instant::now() + PATIENCE;
    while device::is_anything_waiting() && buffers::wait_for_full(end) {
        reader::read_all();
    }
}
