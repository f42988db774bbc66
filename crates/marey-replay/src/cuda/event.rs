//! Events: timestamps on a stream.

#![expect(unsafe_code, reason = "functions of the C interface")]

use crate::api::{self, CallArguments};
use crate::context;
use crate::ffi::{Handle, INVALID_VALUE, Out, exports};
use crate::output::output;
use crate::stream::StreamHandle;
use crate::wait::Wait;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static NEXT_EVENT: AtomicU32 = AtomicU32::new(1);

struct Event {
    id: u32,
    time_nanos: AtomicU64,
}

impl Event {
    fn id_and_time_nanos(&self) -> (u32, u64) {
        (self.id, self.time_nanos.load(Ordering::Acquire))
    }
}

exports! {
    fn cuEventCreate(event: Out<Handle<Event>>, _flags: u32) {
        let id = NEXT_EVENT.fetch_add(1, Ordering::Relaxed);
        event.set(Handle::new(Event { id, time_nanos: AtomicU64::new(0) }))
    }

    fn cuEventRecord(event: Handle<Event>, stream: StreamHandle) {
        let (Some(event), stream) = (event.get(), stream.get()) else { return INVALID_VALUE };
        api::call(&api::RECORD_EVENT, CallArguments::context(stream.context()), |_| {
            let (_, now_nanos) = output().occupy(stream.target().device, stream.id, 0, 0);
            event.time_nanos.store(now_nanos, Ordering::Release);
            0
        })
    }

    fn cuEventSynchronize(event: Handle<Event>) {
        let Some(event) = event.get() else { return INVALID_VALUE };
        let stream = StreamHandle::DEFAULT.get();
        let (id, until_nanos) = event.id_and_time_nanos();
        let context = Handle::to(context::current_or_first());
        Wait::Event { id, until_nanos }.run(stream.target(), 0, CallArguments::context(context))
    }

    fn cuStreamWaitEvent(stream: StreamHandle, event: Handle<Event>, _flags: u32) {
        let Some(event) = event.get() else { return INVALID_VALUE };
        let address = stream.address();
        let stream = stream.get();
        let (id, until_nanos) = event.id_and_time_nanos();
        let arguments = CallArguments::context(stream.context());
        Wait::StreamForEvent { id, until_nanos }.run(stream.target(), address, arguments)
    }

    fn cuEventElapsedTime(millis: Out<f32>, start: Handle<Event>, end: Handle<Event>) {
        elapsed_time(&millis, start, end)
    }

    fn cuEventElapsedTime_v2(millis: Out<f32>, start: Handle<Event>, end: Handle<Event>) {
        elapsed_time(&millis, start, end)
    }
}

fn elapsed_time(millis: &Out<f32>, start: Handle<Event>, end: Handle<Event>) -> i32 {
    let (Some(start), Some(end)) = (start.get(), end.get()) else { return INVALID_VALUE };
    let nanos = end.id_and_time_nanos().1.saturating_sub(start.id_and_time_nanos().1);
    millis.set(nanos as f32 / 1e6)
}
