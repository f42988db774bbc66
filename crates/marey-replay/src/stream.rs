//! Streams of the driver API, and their captures.

use crate::context::{self, Context, DEFAULT_STREAM, MAX_DEVICES};
use crate::ffi::Handle;
use crate::graph::{self, Graph};
use crate::lock;
use crate::operation::{GraphIds, Operation, TargetIds};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Id of the first stream that a program creates.
const FIRST_STREAM: u32 = 13;

pub(crate) struct Stream {
    pub id: u32,
    device_id: u32,
    captured_graph: Mutex<Option<Handle<Graph>>>,
}

static NEXT_STREAM: AtomicU32 = AtomicU32::new(FIRST_STREAM);
static DEFAULT_STREAMS: [Stream; MAX_DEVICES] = {
    let mut streams =
        [const { Stream { id: DEFAULT_STREAM, device_id: 0, captured_graph: Mutex::new(None) } };
            MAX_DEVICES];
    let mut device = 0;
    while device < MAX_DEVICES {
        streams[device].device_id = device as u32;
        device += 1;
    }
    streams
};

/// A stream as passed by C callers: NULL, 1 and 2 are the default streams of the current context.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct StreamHandle(Handle<Stream>);

impl StreamHandle {
    /// NULL: the default stream of the current context.
    pub(crate) const DEFAULT: Self = Self(Handle::NULL);

    pub(crate) fn new(context: &Context) -> Self {
        let id = NEXT_STREAM.fetch_add(1, Ordering::Relaxed);
        let captured_graph = Mutex::new(None);
        Self(Handle::new(Stream { id, device_id: context.device_id, captured_graph }))
    }

    pub(crate) fn get(self) -> &'static Stream {
        let named = if self.address() > 2 { self.0.get() } else { None };
        named.unwrap_or_else(|| {
            let device = context::current_or_first().device_id as usize;
            DEFAULT_STREAMS.get(device).unwrap_or(&DEFAULT_STREAMS[0])
        })
    }

    pub(crate) fn address(self) -> usize {
        self.0.address()
    }
}

impl Stream {
    pub(crate) fn target(&self) -> TargetIds {
        TargetIds { device: self.device_id, context: self.device_id + 1, stream: self.id }
    }

    pub(crate) fn context(&self) -> Handle<Context> {
        context::for_device(self.device_id)
    }

    /// Begins a capture. Returns false if the stream is in capture.
    pub(crate) fn begin_capture(&self) -> bool {
        let mut captured_graph = lock(&self.captured_graph);
        if captured_graph.is_some() {
            return false;
        }
        *captured_graph = Some(Graph::begin(self.context()));
        true
    }

    pub(crate) fn end_capture(&self) -> Option<Handle<Graph>> {
        lock(&self.captured_graph).take()
    }

    pub(crate) fn captured_graph(&self) -> Option<Handle<Graph>> {
        *lock(&self.captured_graph)
    }

    /// Runs an operation on the stream, or adds it to the graph in capture.
    pub(crate) fn submit(&self, operation: &Operation, correlation_id: u32) {
        if let Some(graph) = self.captured_graph() {
            graph::add_node(graph, *operation, self.context());
        } else {
            operation.run(self.target(), GraphIds::default(), correlation_id);
        }
    }
}
