//! Subscribers and their callbacks.

#![expect(unsafe_code, reason = "functions of the C interface")]

use super::code;
use crate::activity::client_of;
use crate::buffers::Flush;
use crate::callback::{self, Callback, Subscriber};
use crate::ffi::{Address, Handle, INVALID, In, Out, Text, exports};
use crate::{activity, buffers, output, settings};
use std::ffi::c_char;

/// What a subscriber beside others says: `CUpti_SubscriberParams`.
#[repr(C)]
pub(crate) struct Parameters {
    size: usize,
    name: Text,
    holder: Out<c_char>,
    holder_size: usize,
    allows_others: u8,
}

/// The first version with subscribers beside others, and the first driver.
const SCOPED_SINCE: (u32, i32) = (130_300, 13_030);

/// Does something for a subscriber that is there.
fn with(subscriber: Handle<Subscriber>, act: impl FnOnce(&'static Subscriber) -> bool) -> i32 {
    match subscriber.get().filter(|subscriber| subscriber.is_there()) {
        Some(subscriber) if act(subscriber) => 0,
        _ => INVALID,
    }
}

/// Takes a subscriber beside others, or alone.
fn subscribe_scoped(
    subscriber: &Out<Handle<Subscriber>>,
    callback: Callback,
    user_data: Address,
    parameters: Option<&Parameters>,
) -> i32 {
    if settings::version().0 < SCOPED_SINCE.0 {
        return code::NOT_SUPPORTED;
    }
    let parameters = parameters.filter(|given| given.size >= size_of::<Parameters>());
    let allows_others = parameters.is_some_and(|given| given.allows_others != 0);
    if allows_others && settings::script().settings.driver_version < SCOPED_SINCE.1 {
        return code::NOT_SUPPORTED;
    }
    let name = format!("CUPTI for {}", parameters.map_or("", |given| given.name.get()));
    let first = callback::first_name();
    let taken = callback::subscribe(callback, user_data, &name, allows_others);
    if let (Some(given), Some(first)) =
        (parameters, first.or_else(|| taken.as_ref().err().cloned()))
    {
        tell_holder(given, &first);
    }
    match taken {
        Ok(taken) => subscriber.set(Handle::to(taken)),
        Err(_) => code::MULTIPLE_SUBSCRIBERS,
    }
}

/// Writes a name and a zero where the subscriber wants to know who was there before.
fn tell_holder(parameters: &Parameters, name: &str) {
    let Some(most) = parameters.holder_size.checked_sub(1) else { return };
    let bytes = name.bytes().take(most).chain([0]);
    for (at, byte) in bytes.enumerate() {
        parameters.holder.set_at(at, byte.cast_signed());
    }
}

exports! {
    fn cuptiSubscribe(
        subscriber: Out<Handle<Subscriber>>,
        callback: Option<Callback>,
        user_data: Address,
    ) {
        let Some(callback) = callback else { return INVALID };
        match callback::subscribe(callback, user_data, "CUPTI", false) {
            Ok(taken) => subscriber.set(Handle::to(taken)),
            Err(_) => code::MULTIPLE_SUBSCRIBERS,
        }
    }

    /// The symbol is there, as in every library of CUDA 13; only later ones bear several subscribers.
    fn cuptiSubscribe_v2(
        subscriber: Out<Handle<Subscriber>>,
        callback: Option<Callback>,
        user_data: Address,
        parameters: In<Parameters>,
    ) {
        let Some(callback) = callback else { return INVALID };
        subscribe_scoped(&subscriber, callback, user_data, parameters.get())
    }

    /// The records of a subscriber beside others end with it; those of the process go on.
    fn cuptiUnsubscribe(subscriber: Handle<Subscriber>) {
        with(subscriber, |subscriber| {
            let client = client_of(subscriber.number());
            activity::disable(client);
            output::hand_back_to(client, Flush::Forced);
            buffers::register(client, None);
            subscriber.leave()
        })
    }

    fn cuptiEnableCallback(enable: u32, subscriber: Handle<Subscriber>, domain: u32, cbid: u32) {
        with(subscriber, |subscriber| subscriber.enable(domain, cbid, enable != 0))
    }

    fn cuptiEnableDomain(enable: u32, subscriber: Handle<Subscriber>, domain: u32) {
        with(subscriber, |subscriber| subscriber.enable_domain(domain, enable != 0))
    }

    fn cuptiEnableAllDomains(enable: u32, subscriber: Handle<Subscriber>) {
        with(subscriber, |subscriber| {
            subscriber.enable_all(enable != 0);
            true
        })
    }

    fn cuptiGetCallbackState(
        enable: Out<u32>,
        subscriber: Handle<Subscriber>,
        domain: u32,
        cbid: u32,
    ) {
        let Some(subscriber) = subscriber.get() else { return INVALID };
        enable.set(subscriber.is_enabled(domain, cbid).into())
    }

    /// Everything ends; what was not flushed is lost, with the profilers' buffers.
    fn cuptiFinalize() {
        callback::unsubscribe_all();
        activity::disable_all();
        output::forget_buffers();
        buffers::unregister_all();
        0
    }
}
