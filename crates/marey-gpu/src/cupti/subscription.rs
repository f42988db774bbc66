//! Being a subscriber of CUPTI: alone, or beside others.
//!
//! Up to CUDA 13.2, or with a driver of before 13.3, one tool at a time subscribes, and what it turns on is
//! the process's. Later libraries have the same calls once more for subscribers that bear others; those
//! are tried first. Whatever makes them fail (an old driver, a tool that uses the older calls), the older
//! calls are tried then, and tell in their own words if they fail too.

use super::abi::constants::{attribute, flush, kind};
use super::abi::result;
use super::activity_calls::ActivityCalls;
use super::clock::Clock;
use super::functions::{Callback, Functions, ScopedFunctions, Subscriber, SubscriberParams};
use super::library::Library;
use super::unavailable::{Step, Unavailable};
use std::ffi::{CStr, c_char, c_void};

/// A subscription that can be recorded by: buffers have their way, and the clock can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscription {
    library: &'static Library,
    subscriber: Subscriber,
    /// The calls about its records.
    calls: &'static dyn ActivityCalls,
    is_beside_others: bool,
}

#[expect(unsafe_code, reason = "a handle of the library, which serves all threads")]
// SAFETY: the library takes the handle from any thread; we only hand it back.
unsafe impl Send for Subscription {}

/// What tools that come later are told of us.
const NAME: &CStr = c"marey";

/// Bytes of a subscriber's name.
const NAME_BYTES: usize = 64;

impl Subscription {
    /// Subscribes, beside others where that can be; with the clock of the records.
    pub(super) fn begin(
        library: &'static Library,
        callback: Callback,
    ) -> Result<(Self, Clock), Unavailable> {
        let mut holder = None;
        if let Some(scoped) = &library.scoped {
            let beside_others =
                Self::subscribe_beside_others(library, scoped, callback, &mut holder);
            if let Ok(begun) = beside_others.and_then(Self::prepared) {
                return Ok(begun);
            }
        }
        let alone = Self::subscribe(library, callback).and_then(Self::prepared);
        alone.map_err(|refused| named(refused, holder))
    }

    #[expect(unsafe_code, reason = "a call of the library")]
    fn subscribe(library: &'static Library, callback: Callback) -> Result<Self, Unavailable> {
        let mut subscriber = std::ptr::null_mut();
        let none = std::ptr::null_mut();
        // SAFETY: the callback lives as long as the process, and the handle can be written.
        let code = unsafe { (library.functions.subscribe)(&raw mut subscriber, callback, none) };
        check(library, code, Step::Subscribe, "cuptiSubscribe")?;
        let calls = &library.functions;
        Ok(Self { library, subscriber, calls, is_beside_others: false })
    }

    /// The same beside others. Where that is refused, `holder` has the name of who refuses it, if it is known.
    #[expect(unsafe_code, reason = "a call of the library")]
    fn subscribe_beside_others(
        library: &'static Library,
        scoped: &'static ScopedFunctions,
        callback: Callback,
        holder: &mut Option<String>,
    ) -> Result<Self, Unavailable> {
        let mut name = [0_u8; NAME_BYTES];
        let mut params = SubscriberParams {
            struct_size: size_of::<SubscriberParams>(),
            name: NAME.as_ptr(),
            holder: name.as_mut_ptr().cast::<c_char>(),
            holder_bytes: name.len(),
            allows_others: 1,
            padding: [0; 7],
        };
        let mut subscriber = std::ptr::null_mut();
        let none = std::ptr::null_mut();
        // SAFETY: the callback lives as long as the process, the handle can be written, and the parameters
        // say how long they and the name are.
        let code =
            unsafe { (scoped.subscribe)(&raw mut subscriber, callback, none, &raw mut params) };
        *holder = text(&name);
        check(library, code, Step::Subscribe, "cuptiSubscribe_v2")?;
        Ok(Self { library, subscriber, calls: scoped, is_beside_others: true })
    }

    /// Itself, with a way for buffers, and its clock; without either it is ended.
    fn prepared(self) -> Result<(Self, Clock), Unavailable> {
        let clock = self.register_buffers().and_then(|()| self.clock());
        self.say_whether_zeroed(true);
        if clock.is_err() {
            self.end();
        }
        clock.map(|clock| (self, clock))
    }

    fn clock(&self) -> Result<Clock, Unavailable> {
        Clock::new(|| self.timestamp())
            .map_err(|code| refused(self.library, code, Step::Enable, "cuptiGetTimestamp"))
    }

    #[expect(unsafe_code, reason = "a call of the library")]
    fn register_buffers(&self) -> Result<(), Unavailable> {
        // SAFETY: the subscriber is the library's.
        let code = unsafe { self.calls.register_buffers(self.subscriber) };
        self.check(code, Step::Enable, "cuptiActivityRegisterCallbacks")
    }

    /// Tells the library whether our buffers come zeroed; otherwise it zeroes them on the program's
    /// threads. The attribute is the process's, so it is left alone beside others, whose buffers may not be.
    #[expect(unsafe_code, reason = "a call of the library")]
    fn say_whether_zeroed(&self, are_zeroed: bool) {
        if self.is_beside_others() {
            return;
        }
        let (mut bytes, mut value) = (size_of::<u8>(), u8::from(are_zeroed));
        let value = (&raw mut value).cast::<c_void>();
        let set = self.functions().activity_set_attribute;
        // SAFETY: both can be read and written. A library that refuses zeroes them itself.
        unsafe { set(attribute::ZEROED_OUT_ACTIVITY_BUFFER, &raw mut bytes, value) };
    }

    /// Whether others can record at the same time.
    pub(super) const fn is_beside_others(&self) -> bool {
        self.is_beside_others
    }

    /// The library's version, by which its records are read.
    pub(super) const fn api_version(&self) -> u32 {
        self.library.api_version
    }

    const fn functions(&self) -> &'static Functions {
        &self.library.functions
    }

    fn check(&self, code: u32, step: Step, call: &'static str) -> Result<(), Unavailable> {
        check(self.library, code, step, call)
    }

    /// Has one callback made.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn enable_callback(&self, domain: u32, cbid: u32) -> Result<(), Unavailable> {
        // SAFETY: the subscriber is the library's.
        let code = unsafe { (self.functions().enable_callback)(1, self.subscriber, domain, cbid) };
        self.check(code, Step::Enable, "cuptiEnableCallback")
    }

    /// Has all callbacks of a domain made.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn enable_domain(&self, domain: u32) -> Result<(), Unavailable> {
        // SAFETY: the subscriber is the library's.
        let code = unsafe { (self.functions().enable_domain)(1, self.subscriber, domain) };
        self.check(code, Step::Enable, "cuptiEnableDomain")
    }

    /// Has no callback of a domain made any more.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn disable_domain(&self, domain: u32) {
        // SAFETY: the subscriber is the library's. What stays on ends with the subscription.
        unsafe { (self.functions().enable_domain)(0, self.subscriber, domain) };
    }

    /// Has a kind of records written.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn enable_kind(&self, kind: u32) -> Result<(), Unavailable> {
        // SAFETY: the subscriber is the library's, and any number may be asked for.
        let code = unsafe { self.calls.enable(self.subscriber, kind) };
        self.check(code, Step::Enable, "cuptiActivityEnable")
    }

    /// Has a kind of records written no more.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn disable_kind(&self, kind: u32) {
        // SAFETY: as above.
        unsafe { self.calls.disable(self.subscriber, kind) };
    }

    /// Has buffers handed over now and again, full or not. That is the process's, also beside others.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn set_flush_period(&self, millis: u32) {
        if let Some(set) = self.functions().activity_flush_period {
            // SAFETY: any period may be asked for. One that is refused costs timeliness alone.
            unsafe { set(millis) };
        }
    }

    /// Ends that, unless others may count on it.
    pub(super) fn end_flush_period(&self) {
        if !self.is_beside_others() {
            self.set_flush_period(0);
        }
    }

    /// Has buffers handed over whose records are complete.
    pub(super) fn flush(&self) {
        self.flush_with(0);
    }

    /// The same of all buffers. Beside others they would get records without an end too, so there it is
    /// the same.
    pub(super) fn flush_all(&self) {
        self.flush_with(if self.is_beside_others() { 0 } else { flush::FORCED });
    }

    #[expect(unsafe_code, reason = "a call of the library")]
    fn flush_with(&self, flags: u32) {
        // SAFETY: any flags may be given. What it cannot hand over now, it does later.
        unsafe { (self.functions().activity_flush_all)(flags) };
    }

    /// The record after `last` (null: the first one) in a buffer with so many bytes of records.
    ///
    /// # Safety
    /// The library has filled the buffer so far, nobody writes it any more, and `last` is null or what
    /// this gave for the same buffer.
    #[inline]
    #[expect(unsafe_code, reason = "the library walks its own records")]
    pub(super) unsafe fn next_record(
        &self,
        buffer: *mut u8,
        valid: usize,
        last: *mut u8,
    ) -> Option<*mut u8> {
        let mut next = last;
        // SAFETY: the caller's promise.
        let code = unsafe { self.calls.next_record(self.subscriber, buffer, valid, &mut next) };
        (code == result::SUCCESS && !next.is_null()).then_some(next)
    }

    /// How many records found no room since this was asked last.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn take_dropped(&self) -> u64 {
        let mut dropped = 0;
        // SAFETY: the subscriber is the library's.
        let code = unsafe { self.calls.dropped(self.subscriber, &mut dropped) };
        if code == result::SUCCESS { dropped as u64 } else { 0 }
    }

    /// The time by which records are stamped, or the code that the library gives instead.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn timestamp(&self) -> Result<u64, u32> {
        let mut nanos = 0;
        // SAFETY: the subscriber is the library's.
        let code = unsafe { self.calls.timestamp(self.subscriber, &mut nanos) };
        if code == result::SUCCESS { Ok(nanos) } else { Err(code) }
    }

    /// Lets go of the library. It stays loaded, and is not finalized: another tool may use it. Copies of
    /// this are of no use afterwards.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(super) fn end(self) {
        self.say_whether_zeroed(false);
        // SAFETY: the subscriber is the library's, and is not used after this.
        unsafe { (self.functions().unsubscribe)(self.subscriber) };
    }
}

/// Does what a session begins with, and takes it back. Whether other tools can record at the same time.
pub(crate) fn try_out(library: &'static Library) -> Result<bool, Unavailable> {
    let (subscription, _) = Subscription::begin(library, ignore)?;
    let enabled = subscription.enable_kind(kind::CONCURRENT_KERNEL);
    if enabled.is_ok() {
        subscription.disable_kind(kind::CONCURRENT_KERNEL);
    }
    subscription.end();
    enabled.map(|()| subscription.is_beside_others())
}

#[expect(unsafe_code, reason = "the library's own interface")]
const unsafe extern "C" fn ignore(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

fn check(library: &Library, code: u32, step: Step, call: &'static str) -> Result<(), Unavailable> {
    if code == result::SUCCESS { Ok(()) } else { Err(refused(library, code, step, call)) }
}

fn refused(library: &Library, code: u32, step: Step, call: &'static str) -> Unavailable {
    Unavailable::Refused { step, library: library.path.clone(), call, code, holder: None }
}

/// A refusal because of another tool, with that tool's name.
fn named(refused: Unavailable, name: Option<String>) -> Unavailable {
    match refused {
        Unavailable::Refused {
            step,
            library,
            call,
            code: code @ (result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED | result::NOT_COMPATIBLE),
            ..
        } => Unavailable::Refused { step, library, call, code, holder: name },
        other => other,
    }
}

/// The text that ends with a zero; `None` if it is empty.
fn text(bytes: &[u8]) -> Option<String> {
    let text = CStr::from_bytes_until_nul(bytes).ok()?.to_string_lossy();
    (!text.is_empty()).then(|| text.into_owned())
}
