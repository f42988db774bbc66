//! Recording through CUPTI: from becoming its subscriber to letting go of it.

use super::abi::calls::{Call, driver};
use super::abi::constants::{domain, kind, resource};
use super::buffers;
use super::callback;
use super::driver::Driver;
use super::finish;
use super::interfaces::Interfaces;
use super::library::{self, Library};
use super::reader::{self, DRAIN, WORKER};
use super::search::Hints;
use super::subscription::Subscription;
use super::unavailable::Unavailable;
use marey_model::loss::LossCause;
use marey_record::api;
use marey_record::device::{self, DeviceInfo, Flush};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Besides kernels, everything that devices did, and the calls that made them do it.
    pub activities: bool,
    /// Every call of these interfaces, where sessions keep every event.
    pub calls: Interfaces,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// CUPTI in use.
#[derive(Debug)]
struct Session {
    library: &'static Library,
    subscription: Subscription,
    kinds: BTreeSet<u32>,
    callbacks: BTreeSet<(u32, u32)>,
    domains: BTreeSet<u32>,
    /// Whether it was said what the devices are.
    are_devices_announced: bool,
}

fn session() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to record, or records more than before. Starts the driver, if the program has not.
pub fn start(hints: &Hints, wanted: Wanted) -> Result<&'static Library, Unavailable> {
    let library = library::open(hints)?;
    start_by(library, wanted)?;
    announce_devices();
    Ok(library)
}

/// Begins to record while the driver starts, on the thread that starts it, so that the program's first
/// launch is told. Returns `None` where the library does not allow that.
pub fn start_within_start(hints: &Hints, wanted: Wanted) -> Option<&'static Library> {
    let library = library::open_within_start(hints)?;
    start_by(library, wanted).ok()?;
    Some(library)
}

fn start_by(library: &'static Library, wanted: Wanted) -> Result<(), Unavailable> {
    let mut session = session();
    let is_new = session.is_none();
    if is_new {
        *session = Some(Session::begin(library)?);
    }
    if let Some(begun) = session.as_mut()
        && let Err(error) = begun.enable(wanted)
    {
        // What another session records by goes on.
        if is_new && let Some(begun) = session.take() {
            begun.end();
        }
        return Err(error);
    }
    api::start_source(&WORKER);
    Ok(())
}

/// Whether devices are being recorded.
pub fn is_running() -> bool {
    session().is_some()
}

/// Whether other tools can record devices at the same time.
pub fn is_beside_others() -> bool {
    session().as_ref().is_some_and(|session| session.subscription.is_beside_others())
}

impl Session {
    fn begin(library: &'static Library) -> Result<Self, Unavailable> {
        callback::prepare(&library.functions);
        let (subscription, clock) = Subscription::begin(library, callback::callback)?;
        reader::begin(subscription, clock);
        Ok(Self {
            library,
            subscription,
            kinds: BTreeSet::new(),
            callbacks: BTreeSet::new(),
            domains: BTreeSet::new(),
            are_devices_announced: false,
        })
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
            self.enable_calls(wanted.calls)?;
        }
        // A phase is complete soon after its last kernel, and a trace on disk.
        let is_trace = self.kinds.contains(&kind::MEMCPY);
        self.subscription.set_flush_period(if is_trace { 200 } else { 1000 });
        Ok(())
    }

    /// Has every call of these interfaces told, and the numbers that the program puts upon calls: the
    /// library writes those only where it records the calls too.
    fn enable_calls(&mut self, calls: Interfaces) -> Result<(), Unavailable> {
        for (of_domain, of_kind) in calls.domains() {
            if !self.domains.contains(&of_domain) {
                self.subscription.enable_domain(of_domain)?;
                self.domains.insert(of_domain);
                callback::keep_calls(of_domain, true);
                let has_records = self.enable_kind(of_kind).is_ok();
                if has_records && self.enable_kind(kind::EXTERNAL_CORRELATION).is_ok() {
                    reader::expect_external();
                }
            }
        }
        Ok(())
    }

    fn enable_callback(&mut self, of_domain: u32, cbid: u32) -> Result<(), Unavailable> {
        if !self.callbacks.contains(&(of_domain, cbid)) {
            self.subscription.enable_callback(of_domain, cbid)?;
            self.callbacks.insert((of_domain, cbid));
        }
        Ok(())
    }

    fn enable_kind(&mut self, of_kind: u32) -> Result<(), Unavailable> {
        if !self.kinds.contains(&of_kind) {
            self.subscription.enable_kind(of_kind)?;
            self.kinds.insert(of_kind);
        }
        Ok(())
    }

    /// Ends it. What the library has handed over is read before: a subscriber's records cannot be read
    /// after its end.
    fn end(self) {
        for of_domain in [domain::DRIVER_API, domain::RUNTIME_API, domain::RESOURCE] {
            self.subscription.disable_domain(of_domain);
            callback::keep_calls(of_domain, false);
        }
        for of_kind in self.kinds {
            self.subscription.disable_kind(of_kind);
        }
        self.subscription.end_flush_period();
        // What other threads launched meanwhile must not come to light in a later session.
        self.subscription.flush_all();
        reader::end();
        self.subscription.end();
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

/// Announces the devices to the recorder, once. The driver does not describe them while it starts.
fn announce_devices() {
    let is_known =
        |session: &mut Session| std::mem::replace(&mut session.are_devices_announced, true);
    if session().as_mut().is_none_or(is_known) {
        return;
    }
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

/// How long a flush waits for records while the library has no buffer. It hands buffers over within the
/// call, so what is missing then is unlikely to come.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long a flush waits while the library withholds buffers because a record in them is in progress.
const LONG_PATIENCE: Duration = Duration::from_millis(200);

/// How often the library is asked again meanwhile.
const RETRY: Duration = Duration::from_millis(5);

/// Has what was launched before this handed over and read. A forced flush hands over records that are in
/// progress, without their end and for the last time, so only the last stop makes one.
pub(crate) fn flush(how: Flush) {
    let subscription = session().as_ref().map(|session| session.subscription);
    let Some(subscription) = subscription else { return };
    let before = device::begin_flush();
    let are_finished = how == Flush::Done || {
        announce_devices();
        finish::wait_for_devices()
    };
    subscription.flush();
    if how == Flush::Done {
        return reader::read_all();
    }
    let is_last = how == Flush::Last && !subscription.is_beside_others();
    wait_for_records(subscription, before, if is_last { PATIENCE } else { LONG_PATIENCE });
    if is_last && device::is_waiting_before(before) {
        subscription.flush_all();
        wait_for_records(subscription, before, PATIENCE);
    }
    let unheard_kernels = device::stop_waiting_before(before);
    if !are_finished || buffers::are_lent() {
        api::count_losses(LossCause::DeviceRecord, unheard_kernels);
    } else {
        device::forget_destroyed_before(before);
    }
}

/// Has the decoder look for launches.
pub(crate) fn ask_for_drain() {
    WORKER.request(DRAIN);
}

/// Records no more, and lets go of the library.
pub(crate) fn stop() {
    // Held throughout, so that nobody begins anew in between.
    let mut session = session();
    WORKER.stop();
    if let Some(ended) = session.take() {
        ended.end();
    }
    buffers::free();
}

/// Holds what a child must not find locked. The threads are gone by then.
pub(crate) fn hold() -> impl Sized + use<> {
    (session(), reader::hold(), buffers::hold(), callback::hold())
}

/// In the child of a fork, where the library is of no use.
pub(crate) fn begin_child() {
    *session() = None;
    buffers::begin_child();
    callback::begin_child();
    reader::begin_child();
}

/// Reads what the library hands over, until everything that was launched before a mark has been heard of or
/// the patience is over.
fn wait_for_records(subscription: Subscription, before: u32, while_lent: Duration) {
    let begun = Instant::now();
    loop {
        let filled = buffers::filled();
        // Also what the decoder's own thread has taken is read then.
        reader::read_all();
        let patience = if buffers::are_lent() { while_lent } else { PATIENCE };
        let end = begun + patience;
        let now = Instant::now();
        if !device::is_waiting_before(before) || now >= end {
            return;
        }
        if !buffers::wait_for_more(filled, end.min(now + RETRY)) {
            subscription.flush();
        }
    }
}
