//! Subscribers and their callbacks.

#![expect(unsafe_code, reason = "functions of the C interface")]

use super::code;
use crate::callback::{self, Callback, SUBSCRIBER, Subscriber};
use crate::ffi::{Address, Handle, INVALID, Out, exports};
use crate::{activity, buffers, output};

fn code_of(is_known: bool) -> i32 {
    if is_known { 0 } else { INVALID }
}

exports! {
    fn cuptiSubscribe(
        subscriber: Out<Handle<Subscriber>>,
        callback: Option<Callback>,
        user_data: Address,
    ) {
        let Some(callback) = callback else { return INVALID };
        if !callback::subscribe(callback, user_data) {
            return code::MULTIPLE_SUBSCRIBERS;
        }
        subscriber.set(Handle::to(&SUBSCRIBER))
    }

    /// The symbol is there, as in every library of CUDA 13; several subscribers are not played.
    fn cuptiSubscribe_v2(
        _subscriber: Out<Handle<Subscriber>>,
        _callback: Option<Callback>,
        _user_data: Address,
        _parameters: Address,
    ) {
        code::NOT_SUPPORTED
    }

    fn cuptiUnsubscribe(_subscriber: Handle<Subscriber>) {
        code_of(callback::unsubscribe())
    }

    fn cuptiEnableCallback(enable: u32, _subscriber: Handle<Subscriber>, domain: u32, cbid: u32) {
        code_of(callback::enable(domain, cbid, enable != 0))
    }

    fn cuptiEnableDomain(enable: u32, _subscriber: Handle<Subscriber>, domain: u32) {
        code_of(callback::enable_domain(domain, enable != 0))
    }

    fn cuptiEnableAllDomains(enable: u32, _subscriber: Handle<Subscriber>) {
        callback::enable_all(enable != 0);
        0
    }

    fn cuptiGetCallbackState(
        enable: Out<u32>,
        _subscriber: Handle<Subscriber>,
        domain: u32,
        cbid: u32,
    ) {
        enable.set(callback::is_enabled(domain, cbid).into())
    }

    /// Everything ends; what was not flushed is lost, with the profiler's buffers.
    fn cuptiFinalize() {
        callback::unsubscribe();
        activity::disable_all();
        output::forget_buffers();
        buffers::register(None);
        0
    }
}
