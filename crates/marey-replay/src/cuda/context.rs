//! Contexts: only the primary context of each device.

#![expect(unsafe_code, reason = "functions of the C interface")]

use super::{code, start};
use crate::api::CallArguments;
use crate::context::{self, Context};
use crate::ffi::{Handle, Out, exports};
use crate::operation::TargetIds;
use crate::wait::Wait;

fn primary_context(device: i32) -> Option<&'static Context> {
    let device = u32::try_from(device).ok()?;
    context::device(device).and_then(|_| context::for_device(device).get())
}

exports! {
    fn cuDevicePrimaryCtxRetain(context: Out<Handle<Context>>, device: i32) {
        let Some(primary_context) = primary_context(device) else { return code::INVALID_DEVICE };
        primary_context.retain();
        context.set(Handle::to(primary_context))
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let Some(primary_context) = primary_context(device) else { return code::INVALID_DEVICE };
        primary_context.release();
        0
    }

    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, is_active: Out<i32>) {
        let Some(primary_context) = primary_context(device) else { return code::INVALID_DEVICE };
        flags.set(0).max(is_active.set(primary_context.is_active().into()))
    }

    /// Profilers use this function to find out whether the driver is initialised.
    fn cuCtxGetCurrent(context: Out<Handle<Context>>) {
        if !start::is_started() {
            return code::NOT_INITIALIZED;
        }
        context.set(context::current())
    }

    fn cuCtxSetCurrent(context: Handle<Context>) {
        context::set_current(context);
        0
    }

    fn cuCtxPushCurrent_v2(context: Handle<Context>) {
        context::push_current(context);
        0
    }

    fn cuCtxPopCurrent_v2(context: Out<Handle<Context>>) {
        context.set_if_not_null(context::pop_current());
        0
    }

    fn cuCtxGetDevice(device: Out<i32>) {
        match context::current().get() {
            Some(context) => device.set(context.device_id.cast_signed()),
            None => code::INVALID_CONTEXT,
        }
    }

    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        least.set_if_not_null(0);
        greatest.set_if_not_null(-5);
        0
    }

    fn cuCtxGetLimit(value: Out<usize>, _limit: i32) {
        value.set(1 << 20)
    }

    fn cuCtxSynchronize() {
        let context = context::current_or_first();
        let target = TargetIds { device: context.device_id, context: context.id, stream: 0 };
        Wait::Context.run(target, 0, CallArguments::context(Handle::to(context)))
    }
}
