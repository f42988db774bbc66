//! One CUPTI subscription, exclusive or shared with other tools, and the CUPTI calls that need it.
//!
//! Before CUDA 13.3, or with an older driver, only one tool can subscribe, and its settings apply
//! to the process. Later libraries have a second variant of these functions for several
//! subscribers, which is tried first. It fails with an old driver, or beside a tool that uses the
//! older functions. Then the older functions are tried, and their error is reported.

#![expect(unsafe_code, reason = "calls of the library")]

use super::abi::constants::{attribute, flush, kind};
use super::abi::result;
use super::clock::Clock;
use super::delivery;
use super::dl::read_c_string;
use super::functions::{Callback, Functions, SharedModeFunctions, Subscriber, SubscriberParams};
use super::library::Library;
use super::unavailable::{StartStep, Unavailable};
use std::ffi::{CStr, c_char, c_void};

/// A subscription with registered buffer callbacks and a readable clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscription {
    library: &'static Library,
    subscriber: Subscriber,
    /// The activity functions with a subscriber argument. `None` for an exclusive subscription,
    /// whose activity functions apply to the process.
    shared_mode: Option<&'static SharedModeFunctions>,
}

// SAFETY: CUPTI accepts the handle on any thread, and it is only passed to CUPTI.
unsafe impl Send for Subscription {}

/// Name of this subscriber for other tools.
const SUBSCRIBER_NAME: &CStr = c"marey";

/// Maximum size of a subscriber's name.
const MAX_NAME_BYTES: usize = 64;

/// All contexts, or the default configuration, as an argument of activity functions.
const ALL_CONTEXTS: *mut c_void = std::ptr::null_mut();

impl Subscription {
    /// Subscribes, in shared mode if possible. Also returns the clock of the records.
    pub(super) fn begin(
        library: &'static Library,
        callback: Callback,
    ) -> Result<(Self, Clock), Unavailable> {
        let mut existing_subscriber = None;
        if let Some(shared_mode) = &library.shared_mode {
            let shared =
                Self::subscribe_shared(library, shared_mode, callback, &mut existing_subscriber);
            if let Ok(begun) = shared.and_then(Self::prepare) {
                return Ok(begun);
            }
        }
        let exclusive = Self::subscribe(library, callback).and_then(Self::prepare);
        exclusive.map_err(|error| with_existing_subscriber(error, existing_subscriber))
    }

    fn subscribe(library: &'static Library, callback: Callback) -> Result<Self, Unavailable> {
        let mut subscriber = std::ptr::null_mut();
        let no_userdata = std::ptr::null_mut();
        // SAFETY: the callback lives as long as the process, and the handle is writable.
        let code =
            unsafe { (library.functions.subscribe)(&raw mut subscriber, callback, no_userdata) };
        let subscription = Self { library, subscriber, shared_mode: None };
        subscription.check(code, StartStep::Subscribe, "cuptiSubscribe")?;
        Ok(subscription)
    }

    /// Subscribes in shared mode. On failure, `existing_subscriber` is the name of the existing
    /// subscriber, if known.
    fn subscribe_shared(
        library: &'static Library,
        shared_mode: &'static SharedModeFunctions,
        callback: Callback,
        existing_subscriber: &mut Option<String>,
    ) -> Result<Self, Unavailable> {
        let mut name = [0_u8; MAX_NAME_BYTES];
        let mut params = SubscriberParams {
            struct_size: size_of::<SubscriberParams>(),
            name: SUBSCRIBER_NAME.as_ptr(),
            existing_name: name.as_mut_ptr().cast::<c_char>(),
            existing_name_bytes: name.len(),
            allows_others: 1,
            padding: [0; 7],
        };
        let mut subscriber = std::ptr::null_mut();
        let no_userdata = std::ptr::null_mut();
        // SAFETY: the callback lives as long as the process, the handle is writable, and the
        // parameters contain their own size and that of the name.
        let code = unsafe {
            (shared_mode.subscribe)(&raw mut subscriber, callback, no_userdata, &raw mut params)
        };
        *existing_subscriber = read_c_string(&name);
        let subscription = Self { library, subscriber, shared_mode: Some(shared_mode) };
        subscription.check(code, StartStep::Subscribe, "cuptiSubscribe_v2")?;
        Ok(subscription)
    }

    /// Registers the buffer callbacks and creates the clock. Unsubscribes on failure.
    fn prepare(self) -> Result<(Self, Clock), Unavailable> {
        let clock = self.register_buffers().and_then(|()| self.clock());
        self.set_zeroed_buffers(true);
        if clock.is_err() {
            self.end();
        }
        clock.map(|clock| (self, clock))
    }

    fn clock(&self) -> Result<Clock, Unavailable> {
        Clock::new(|| self.timestamp())
            .map_err(|code| self.call_failure(code, StartStep::Enable, "cuptiGetTimestamp"))
    }

    fn register_buffers(&self) -> Result<(), Unavailable> {
        // SAFETY: the subscriber is valid, and the callbacks live as long as the process.
        let code = unsafe {
            match self.shared_mode {
                Some(shared_mode) => (shared_mode.activity_register_callbacks)(
                    self.subscriber,
                    delivery::on_shared_buffer_requested,
                    delivery::on_shared_buffer_completed,
                ),
                None => (self.functions().activity_register_callbacks)(
                    delivery::on_buffer_requested,
                    delivery::on_buffer_completed,
                ),
            }
        };
        self.check(code, StartStep::Enable, "cuptiActivityRegisterCallbacks")
    }

    /// Tells CUPTI whether marey's buffers are already zeroed. If not, CUPTI zeroes them on the
    /// program's threads. The attribute applies to the process, so it stays unchanged in shared
    /// mode, where other tools' buffers may not be zeroed.
    fn set_zeroed_buffers(&self, are_zeroed: bool) {
        if self.is_shared() {
            return;
        }
        let (mut bytes, mut value) = (size_of::<u8>(), u8::from(are_zeroed));
        let value = (&raw mut value).cast::<c_void>();
        let set = self.functions().activity_set_attribute;
        // SAFETY: both addresses are readable and writable. If CUPTI rejects the attribute, it
        // zeroes buffers itself.
        unsafe { set(attribute::ZEROED_OUT_ACTIVITY_BUFFER, &raw mut bytes, value) };
    }

    /// Whether other tools can record at the same time.
    pub(super) const fn is_shared(&self) -> bool {
        self.shared_mode.is_some()
    }

    /// Returns the API version, which determines the layout of the records.
    pub(super) const fn api_version(&self) -> u32 {
        self.library.api_version
    }

    const fn functions(&self) -> &'static Functions {
        &self.library.functions
    }

    fn check(&self, code: u32, step: StartStep, call: &'static str) -> Result<(), Unavailable> {
        if code == result::SUCCESS { Ok(()) } else { Err(self.call_failure(code, step, call)) }
    }

    fn call_failure(&self, code: u32, step: StartStep, call: &'static str) -> Unavailable {
        let library = self.library.path.clone();
        Unavailable::CallFailed { step, library, call, code, existing_subscriber: None }
    }

    /// Enables a callback.
    pub(super) fn enable_callback(&self, domain: u32, cbid: u32) -> Result<(), Unavailable> {
        // SAFETY: the subscriber is valid.
        let code = unsafe { (self.functions().enable_callback)(1, self.subscriber, domain, cbid) };
        self.check(code, StartStep::Enable, "cuptiEnableCallback")
    }

    /// Enables all callbacks of a domain.
    pub(super) fn enable_domain(&self, domain: u32) -> Result<(), Unavailable> {
        // SAFETY: the subscriber is valid.
        let code = unsafe { (self.functions().enable_domain)(1, self.subscriber, domain) };
        self.check(code, StartStep::Enable, "cuptiEnableDomain")
    }

    /// Disables all callbacks of a domain.
    pub(super) fn disable_domain(&self, domain: u32) {
        // SAFETY: the subscriber is valid. Callbacks that stay enabled end with the subscription.
        unsafe { (self.functions().enable_domain)(0, self.subscriber, domain) };
    }

    /// Enables an activity kind.
    pub(super) fn enable_kind(&self, kind: u32) -> Result<(), Unavailable> {
        // SAFETY: the subscriber is valid, and CUPTI accepts any number.
        let code = unsafe {
            match self.shared_mode {
                Some(shared_mode) => {
                    (shared_mode.activity_enable)(self.subscriber, kind, ALL_CONTEXTS)
                }
                None => (self.functions().activity_enable)(kind),
            }
        };
        self.check(code, StartStep::Enable, "cuptiActivityEnable")
    }

    /// Disables an activity kind.
    pub(super) fn disable_kind(&self, kind: u32) {
        // SAFETY: the subscriber is valid, and CUPTI accepts any number.
        unsafe {
            match self.shared_mode {
                Some(shared_mode) => {
                    (shared_mode.activity_disable)(self.subscriber, kind, ALL_CONTEXTS)
                }
                None => (self.functions().activity_disable)(kind),
            }
        };
    }

    /// Sets the period after which CUPTI flushes buffers, full or not. It applies to the whole
    /// process, even in shared mode.
    pub(super) fn set_flush_period(&self, millis: u32) {
        if let Some(set) = self.functions().activity_flush_period {
            // SAFETY: CUPTI accepts any period. If it is rejected, records only arrive later.
            unsafe { set(millis) };
        }
    }

    /// Resets the flush period, unless other tools may depend on it.
    pub(super) fn end_flush_period(&self) {
        if !self.is_shared() {
            self.set_flush_period(0);
        }
    }

    /// Flushes the buffers whose records are complete.
    pub(super) fn flush(&self) {
        self.flush_with(0);
    }

    /// Flushes all buffers by force. In shared mode, flushes only those with complete records,
    /// because other tools would receive unfinished records too.
    pub(super) fn flush_all(&self) {
        self.flush_with(if self.is_shared() { 0 } else { flush::FORCED });
    }

    fn flush_with(&self, flags: u32) {
        // SAFETY: CUPTI accepts any flags. Records that cannot be delivered now are delivered
        // later.
        unsafe { (self.functions().activity_flush_all)(flags) };
    }

    /// Returns the record after `previous` (null: the first one) in a buffer with `valid_bytes`
    /// bytes of records.
    ///
    /// # Safety
    /// CUPTI has completed the buffer with this length, nothing writes to it any more, and
    /// `previous` is null or was returned by this function for the same buffer.
    #[inline]
    pub(super) unsafe fn next_record(
        &self,
        buffer: *mut u8,
        valid_bytes: usize,
        previous: *mut u8,
    ) -> Option<*mut u8> {
        let mut next = previous;
        // SAFETY: guaranteed by the caller.
        let code = unsafe {
            match self.shared_mode {
                Some(shared_mode) => (shared_mode.activity_get_next_record)(
                    self.subscriber,
                    buffer,
                    valid_bytes,
                    &raw mut next,
                ),
                None => {
                    (self.functions().activity_get_next_record)(buffer, valid_bytes, &raw mut next)
                }
            }
        };
        (code == result::SUCCESS && !next.is_null()).then_some(next)
    }

    /// Returns the number of records dropped since the last call.
    pub(super) fn take_dropped_count(&self) -> u64 {
        let mut dropped = 0;
        let count = &raw mut dropped;
        // SAFETY: the subscriber is valid, and the number is writable.
        let code = unsafe {
            match self.shared_mode {
                Some(shared_mode) => (shared_mode.activity_get_num_dropped_records)(
                    self.subscriber,
                    ALL_CONTEXTS,
                    0,
                    count,
                ),
                None => (self.functions().activity_get_num_dropped_records)(ALL_CONTEXTS, 0, count),
            }
        };
        if code == result::SUCCESS { dropped as u64 } else { 0 }
    }

    /// Returns the current time of the clock that timestamps records, or CUPTI's error code.
    pub(super) fn timestamp(&self) -> Result<u64, u32> {
        let mut nanos = 0;
        // SAFETY: the subscriber is valid, and the number is writable.
        let code = unsafe {
            match self.shared_mode {
                Some(shared_mode) => (shared_mode.get_timestamp)(self.subscriber, &raw mut nanos),
                None => (self.functions().get_timestamp)(&raw mut nanos),
            }
        };
        if code == result::SUCCESS { Ok(nanos) } else { Err(code) }
    }

    /// Unsubscribes. The library stays loaded and is not finalized, because another tool may use
    /// it. Copies of this subscription must not be used afterwards.
    pub(super) fn end(self) {
        self.set_zeroed_buffers(false);
        // SAFETY: the subscriber is valid, and is not used after this.
        unsafe { (self.functions().unsubscribe)(self.subscriber) };
    }
}

/// Subscribes and unsubscribes like a session. Returns whether other tools can record at the same
/// time.
pub(crate) fn try_subscribe(library: &'static Library) -> Result<bool, Unavailable> {
    let (subscription, _) = Subscription::begin(library, ignore_callback)?;
    let enabled = subscription.enable_kind(kind::CONCURRENT_KERNEL);
    if enabled.is_ok() {
        subscription.disable_kind(kind::CONCURRENT_KERNEL);
    }
    subscription.end();
    enabled.map(|()| subscription.is_shared())
}

const unsafe extern "C" fn ignore_callback(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

/// Adds the name of the existing subscriber to an error that is due to another tool.
fn with_existing_subscriber(mut error: Unavailable, name: Option<String>) -> Unavailable {
    if let Unavailable::CallFailed {
        code: result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED | result::NOT_COMPATIBLE,
        existing_subscriber,
        ..
    } = &mut error
    {
        *existing_subscriber = name;
    }
    error
}
