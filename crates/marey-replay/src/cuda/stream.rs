//! Streams.

#![expect(unsafe_code, reason = "functions of the C interface")]

use crate::api::CallArguments;
use crate::callback::{notify_resource, resource};
use crate::context;
use crate::ffi::{Handle, Out, exports};
use crate::stream::StreamHandle;
use crate::wait::Wait;

fn create(stream: &Out<StreamHandle>) -> i32 {
    let context = context::current_or_first();
    let created = StreamHandle::new(context);
    notify_resource(resource::STREAM_CREATED, Handle::to(context), created.address());
    stream.set(created)
}

exports! {
    fn cuStreamCreate(stream: Out<StreamHandle>, _flags: u32) {
        create(&stream)
    }

    fn cuStreamCreateWithPriority(stream: Out<StreamHandle>, _flags: u32, _priority: i32) {
        create(&stream)
    }

    fn cuStreamDestroy_v2(stream: StreamHandle) {
        let context = stream.get().context();
        notify_resource(resource::STREAM_DESTROY_STARTING, context, stream.address());
        0
    }

    fn cuStreamSynchronize(stream: StreamHandle) {
        let address = stream.address();
        let stream = stream.get();
        Wait::Stream.run(stream.target(), address, CallArguments::context(stream.context()))
    }
}
