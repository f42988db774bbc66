//! A recording through CUPTI, from its subscription to its end: what is enabled, flushes, and
//! forks.

use super::abi::calls::driver;
use super::abi::constants::{domain, kind, resource};
use super::buffers;
use super::callback;
use super::delivery;
use super::driver::Driver;
use super::finish;
use super::interfaces::CudaInterfaces;
use super::library::{self, Library};
use super::names;
use super::reader::{self, DRAIN, WORKER};
use super::search::Hints;
use super::subscription::Subscription;
use super::unavailable::Unavailable;
use crate::lock;
use marey_model::loss::LossCause;
use marey_record::api;
use marey_record::device::{self, DeviceInfo, FlushMode};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Recording options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingOptions {
    /// Whether to record all activities and the calls that launch them, not only kernels.
    pub keeps_activities: bool,
    /// Interfaces whose calls are recorded, if sessions record every event.
    pub calls: CudaInterfaces,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// A CUPTI subscription and what is enabled for it.
#[derive(Debug)]
struct Session {
    library: &'static Library,
    subscription: Subscription,
    enabled_kinds: BTreeSet<u32>,
    enabled_callbacks: BTreeSet<(u32, u32)>,
    enabled_domains: BTreeSet<u32>,
    /// Whether the devices were announced to the recorder.
    are_devices_announced: bool,
}

/// Begins recording, or extends it. Initialises the driver if the program has not.
pub fn start(hints: &Hints, options: RecordingOptions) -> Result<&'static Library, Unavailable> {
    let library = library::open(hints)?;
    start_with_library(library, options)?;
    announce_devices();
    Ok(library)
}

/// Begins recording while the driver is being initialised, on the thread that does so, so that the
/// program's first launch is recorded. Returns `None` if CUPTI does not support that.
pub fn start_during_driver_start(
    hints: &Hints,
    options: RecordingOptions,
) -> Option<&'static Library> {
    let library = library::open_during_driver_start(hints)?;
    start_with_library(library, options).ok()?;
    Some(library)
}

fn start_with_library(
    library: &'static Library,
    options: RecordingOptions,
) -> Result<(), Unavailable> {
    let mut session = lock(&SESSION);
    let is_new = session.is_none();
    if is_new {
        *session = Some(Session::begin(library)?);
    }
    if let Some(active) = session.as_mut()
        && let Err(error) = active.enable(options)
    {
        // Another session may be recording with this subscription.
        if is_new && let Some(created) = session.take() {
            created.end();
        }
        return Err(error);
    }
    api::start_source(&WORKER);
    Ok(())
}

/// Whether devices are being recorded.
pub fn is_running() -> bool {
    lock(&SESSION).is_some()
}

/// Whether other tools can record devices at the same time.
pub fn is_shared() -> bool {
    lock(&SESSION).as_ref().is_some_and(|session| session.subscription.is_shared())
}

impl Session {
    fn begin(library: &'static Library) -> Result<Self, Unavailable> {
        callback::prepare(&library.functions);
        let (subscription, clock) = Subscription::begin(library, callback::on_callback)?;
        reader::begin(subscription, clock);
        delivery::set_subscription(Some(subscription));
        Ok(Self {
            library,
            subscription,
            enabled_kinds: BTreeSet::new(),
            enabled_callbacks: BTreeSet::new(),
            enabled_domains: BTreeSet::new(),
            are_devices_announced: false,
        })
    }

    fn enable(&mut self, options: RecordingOptions) -> Result<(), Unavailable> {
        let mut groups = vec![driver::LAUNCHES, driver::GRAPH_LAUNCHES];
        if options.keeps_activities {
            groups.extend([driver::COPIES, driver::FILLS, driver::SYNCHRONIZATIONS]);
        }
        groups.extend([driver::BEGIN_CAPTURES, driver::END_CAPTURES]);
        let api_version = self.library.api_version;
        for call in groups.into_iter().flat_map(|group| group.known_to(api_version)) {
            self.enable_callback(domain::DRIVER_API, call.callback_id)?;
        }
        for cbid in RESOURCE_CALLBACKS {
            self.enable_callback(domain::RESOURCE, cbid)?;
        }
        self.enable_kind(kind::CONCURRENT_KERNEL)?;
        if options.keeps_activities {
            for kind in OPTIONAL_KINDS {
                // Kernels are essential; other activity kinds are optional.
                drop(self.enable_kind(kind));
            }
            self.enable_calls(options.calls)?;
        }
        // Flush often, so that little time passes between the last kernel and the end of a phase,
        // and until a trace is on disk.
        let is_trace = self.enabled_kinds.contains(&kind::MEMCPY);
        self.subscription.set_flush_period(if is_trace { 200 } else { 1000 });
        Ok(())
    }

    /// Enables callbacks for every call of these interfaces, and external correlation ids, which
    /// CUPTI writes only if API calls are recorded.
    fn enable_calls(&mut self, calls: CudaInterfaces) -> Result<(), Unavailable> {
        for (domain_id, kind_id) in calls.domains_and_kinds() {
            if !self.enabled_domains.contains(&domain_id) {
                self.subscription.enable_domain(domain_id)?;
                self.enabled_domains.insert(domain_id);
                callback::record_all_calls(domain_id, true);
                let has_records = self.enable_kind(kind_id).is_ok();
                if has_records && self.enable_kind(kind::EXTERNAL_CORRELATION).is_ok() {
                    reader::expect_external_ids();
                }
            }
        }
        Ok(())
    }

    fn enable_callback(&mut self, domain_id: u32, cbid: u32) -> Result<(), Unavailable> {
        if !self.enabled_callbacks.contains(&(domain_id, cbid)) {
            self.subscription.enable_callback(domain_id, cbid)?;
            self.enabled_callbacks.insert((domain_id, cbid));
        }
        Ok(())
    }

    fn enable_kind(&mut self, kind_id: u32) -> Result<(), Unavailable> {
        if !self.enabled_kinds.contains(&kind_id) {
            self.subscription.enable_kind(kind_id)?;
            self.enabled_kinds.insert(kind_id);
        }
        Ok(())
    }

    /// Ends the subscription. Reads completed buffers first: the records of a subscriber cannot be
    /// read after its end.
    fn end(self) {
        for domain_id in [domain::DRIVER_API, domain::RUNTIME_API, domain::RESOURCE] {
            self.subscription.disable_domain(domain_id);
            callback::record_all_calls(domain_id, false);
        }
        for kind_id in self.enabled_kinds {
            self.subscription.disable_kind(kind_id);
        }
        self.subscription.end_flush_period();
        // The records of launches on other threads must not appear in a later session.
        self.subscription.flush_all();
        reader::end();
        delivery::set_subscription(None);
        self.subscription.end();
    }
}

/// Optional activity kinds.
const OPTIONAL_KINDS: [u32; 5] =
    [kind::MEMCPY, kind::MEMCPY2, kind::MEMSET, kind::SYNCHRONIZATION, kind::OVERHEAD];

/// Resource callbacks for contexts and graph nodes.
const RESOURCE_CALLBACKS: [u32; 4] = [
    resource::CONTEXT_DESTROY_STARTING,
    resource::GRAPHNODE_CREATED,
    resource::GRAPHNODE_CLONED,
    resource::GRAPHNODE_DESTROY_STARTING,
];

/// Announces the devices to the recorder, once. Does not work while the driver is being
/// initialised.
fn announce_devices() {
    let mark_announced =
        |session: &mut Session| std::mem::replace(&mut session.are_devices_announced, true);
    if lock(&SESSION).as_mut().is_none_or(mark_announced) {
        return;
    }
    let Ok(driver) = Driver::get() else { return };
    for device in driver.devices() {
        device::announce(DeviceInfo {
            number: device.ordinal,
            device_type: "CUDA".to_owned(),
            arch: device.arch.to_string(),
            name: device.name,
            bus_width_bits: device.bus_width_bits.into(),
            clock_khz: device.clock_rate_khz.into(),
            memory_clock_khz: device.memory_clock_rate_khz.into(),
            multiprocessors: device.num_sms.into(),
            properties: vec![("totalGlobalMem".to_owned(), device.total_memory_bytes)],
        });
    }
}

/// The longest wait of a flush while no buffers are lent to CUPTI. CUPTI completes buffers within
/// the flush call, so later records are unlikely.
const RECORD_TIMEOUT: Duration = Duration::from_millis(20);

/// Timeout of a flush while CUPTI withholds buffers with activities in progress.
const LENT_TIMEOUT: Duration = Duration::from_millis(200);

/// Period of repeated flush calls while waiting.
const RETRY_PERIOD: Duration = Duration::from_millis(5);

/// Flushes CUPTI's buffers and reads the records of all launches before this call. A forced flush
/// delivers activities in progress without an end, and delivers them only once. So it is used only
/// for the last flush of an exclusive subscriber.
pub(crate) fn flush(flush_mode: FlushMode) {
    let subscription = lock(&SESSION).as_ref().map(|session| session.subscription);
    let Some(subscription) = subscription else { return };
    let stamp = device::begin_flush();
    let have_devices_finished = flush_mode == FlushMode::CompletedOnly || {
        announce_devices();
        finish::wait_for_devices()
    };
    subscription.flush();
    if flush_mode == FlushMode::CompletedOnly {
        return reader::read_all();
    }
    let is_last = flush_mode == FlushMode::Final && !subscription.is_shared();
    wait_for_records(subscription, stamp, if is_last { RECORD_TIMEOUT } else { LENT_TIMEOUT });
    if is_last && device::is_waiting_before(stamp) {
        subscription.flush_all();
        wait_for_records(subscription, stamp, RECORD_TIMEOUT);
    }
    let missing_kernels = device::stop_waiting_before(stamp);
    if !have_devices_finished || buffers::any_lent() {
        api::count_losses(LossCause::DeviceRecord, missing_kernels);
    } else {
        device::forget_destroyed_before(stamp);
    }
}

/// Signals the decoder to read launches.
pub(crate) fn request_drain() {
    WORKER.request(DRAIN);
}

/// Ends recording and unsubscribes.
pub(crate) fn stop() {
    // Hold the lock throughout, so that no recording begins meanwhile.
    let mut session = lock(&SESSION);
    WORKER.stop();
    if let Some(ended) = session.take() {
        ended.end();
    }
    buffers::free_unused();
}

/// Locks all state for a fork, so that the child finds no lock taken. The threads are stopped by
/// then.
pub(crate) fn lock_for_fork() -> impl Sized + use<> {
    (
        lock(&SESSION),
        reader::lock_for_fork(),
        delivery::lock_for_fork(),
        names::lock_for_fork(),
        buffers::lock_for_fork(),
        callback::lock_for_fork(),
    )
}

/// Resets all state in the child of a fork, where CUPTI does not work.
pub(crate) fn begin_child() {
    *lock(&SESSION) = None;
    delivery::set_subscription(None);
    buffers::begin_child();
    callback::clear_state();
    reader::begin_child();
}

/// Reads completed buffers until the records of all launches before a stamp have arrived, or the
/// timeout expires.
fn wait_for_records(subscription: Subscription, stamp: u32, lent_timeout: Duration) {
    let start = Instant::now();
    loop {
        let filled_count = buffers::filled_count();
        // This also waits for buffers that the decoder's thread has taken.
        reader::read_all();
        let timeout = if buffers::any_lent() { lent_timeout } else { RECORD_TIMEOUT };
        let deadline = start + timeout;
        let now = Instant::now();
        if !device::is_waiting_before(stamp) || now >= deadline {
            return;
        }
        if !buffers::wait_for_more(filled_count, deadline.min(now + RETRY_PERIOD)) {
            subscription.flush();
        }
    }
}
