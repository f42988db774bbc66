//! Subscribers and their callbacks.

#![expect(unsafe_code, reason = "functions of the C interface")]

use super::code;
use crate::activity::client_of_subscriber;
use crate::buffers::FlushMode;
use crate::callback::{self, Subscriber, SubscriberCallback};
use crate::ffi::{Address, Handle, INVALID_VALUE, Out, Text, exports};
use crate::{activity, buffers, output, settings};
use std::ffi::c_char;

/// Parameters of `cuptiSubscribe_v2`: `CUpti_SubscriberParams`.
#[repr(C)]
pub(crate) struct SubscriberParameters {
    size: usize,
    name: Text,
    existing_name: Out<c_char>,
    existing_name_size: usize,
    allows_others: u8,
}

/// First library version and driver version with shared mode.
const SHARED_MODE_SINCE: (u32, i32) = (130_300, 13_030);

/// Runs `run` for an existing subscriber.
fn with_subscriber(
    subscriber: Handle<Subscriber>,
    run: impl FnOnce(&'static Subscriber) -> bool,
) -> i32 {
    match subscriber.get().filter(|subscriber| subscriber.is_subscribed()) {
        Some(subscriber) if run(subscriber) => 0,
        _ => INVALID_VALUE,
    }
}

/// Adds a subscriber, shared or exclusive.
fn subscribe_shared(
    subscriber: &Out<Handle<Subscriber>>,
    callback: SubscriberCallback,
    user_data: Address,
    parameters: Option<&SubscriberParameters>,
) -> i32 {
    if settings::version().0 < SHARED_MODE_SINCE.0 {
        return code::NOT_SUPPORTED;
    }
    let parameters =
        parameters.filter(|parameters| parameters.size >= size_of::<SubscriberParameters>());
    let allows_others = parameters.is_some_and(|parameters| parameters.allows_others != 0);
    if allows_others && settings::script().settings.driver_version < SHARED_MODE_SINCE.1 {
        return code::NOT_SUPPORTED;
    }
    let name = format!("CUPTI for {}", parameters.map_or("", |parameters| parameters.name.get()));
    let first = callback::first_name();
    let result = callback::subscribe(callback, user_data, &name, allows_others);
    if let (Some(parameters), Some(first)) =
        (parameters, first.or_else(|| result.as_ref().err().cloned()))
    {
        parameters.existing_name.set_text(&first, parameters.existing_name_size);
    }
    match result {
        Ok(new_subscriber) => subscriber.set(Handle::to(new_subscriber)),
        Err(_) => code::MULTIPLE_SUBSCRIBERS,
    }
}

exports! {
    fn cuptiSubscribe(
        subscriber: Out<Handle<Subscriber>>,
        callback: Option<SubscriberCallback>,
        user_data: Address,
    ) {
        let Some(callback) = callback else { return INVALID_VALUE };
        match callback::subscribe(callback, user_data, "CUPTI", false) {
            Ok(new_subscriber) => subscriber.set(Handle::to(new_subscriber)),
            Err(_) => code::MULTIPLE_SUBSCRIBERS,
        }
    }

    /// The symbol exists in every library of CUDA 13; only later ones support several subscribers.
    fn cuptiSubscribe_v2(
        subscriber: Out<Handle<Subscriber>>,
        callback: Option<SubscriberCallback>,
        user_data: Address,
        parameters: Option<&SubscriberParameters>,
    ) {
        let Some(callback) = callback else { return INVALID_VALUE };
        subscribe_shared(&subscriber, callback, user_data, parameters)
    }

    /// Ends the subscription; in shared mode its records too. Process-wide records continue.
    fn cuptiUnsubscribe(subscriber: Handle<Subscriber>) {
        with_subscriber(subscriber, |subscriber| {
            let client = client_of_subscriber(subscriber.index());
            activity::disable(client);
            output::complete_buffers_of(client, FlushMode::Forced);
            buffers::register(client, None);
            subscriber.leave()
        })
    }

    fn cuptiEnableCallback(enable: u32, subscriber: Handle<Subscriber>, domain: u32, cbid: u32) {
        with_subscriber(subscriber, |subscriber| subscriber.enable(domain, cbid, enable != 0))
    }

    fn cuptiEnableDomain(enable: u32, subscriber: Handle<Subscriber>, domain: u32) {
        with_subscriber(subscriber, |subscriber| subscriber.enable_domain(domain, enable != 0))
    }

    fn cuptiEnableAllDomains(enable: u32, subscriber: Handle<Subscriber>) {
        with_subscriber(subscriber, |subscriber| {
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
        let Some(subscriber) = subscriber.get() else { return INVALID_VALUE };
        enable.set(subscriber.is_enabled(domain, cbid).into())
    }

    /// Ends everything. Records that were not flushed are lost, with the profilers' buffers.
    fn cuptiFinalize() {
        callback::unsubscribe_all();
        activity::disable_all();
        output::forget_buffers();
        buffers::unregister_all();
        0
    }
}
