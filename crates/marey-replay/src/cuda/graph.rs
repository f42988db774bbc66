//! Graphs: captured on streams, instantiated, launched.

#![expect(unsafe_code, reason = "functions of the C interface")]

use crate::api::{self, CallArguments};
use crate::context;
use crate::ffi::{Address, Handle, INVALID_VALUE, Out, exports};
use crate::graph::{self, ExecutableGraph, Graph, Node, RecordIds};
use crate::lock;
use crate::stream::StreamHandle;

/// `CUDA_ERROR_ILLEGAL_STATE`: begin of a capture on a stream in capture, or end on another one.
const ILLEGAL_STATE: i32 = 401;

fn begin_capture(stream: StreamHandle) -> i32 {
    let stream = stream.get();
    api::call(&api::BEGIN_CAPTURE, CallArguments::context(stream.context()), |_| {
        if stream.begin_capture() { 0 } else { ILLEGAL_STATE }
    })
}

fn instantiate(executable: &Out<Handle<ExecutableGraph>>, graph: Handle<Graph>) -> i32 {
    if graph.get().is_none() {
        return INVALID_VALUE;
    }
    let arguments = CallArguments::context(Handle::to(context::current_or_first()));
    executable.set(graph::instantiate(graph, arguments))
}

exports! {
    fn cuStreamBeginCapture_v2(stream: StreamHandle, _mode: u32) {
        begin_capture(stream)
    }

    fn cuStreamEndCapture(stream: StreamHandle, graph: Out<Handle<Graph>>) {
        let stream = stream.get();
        api::call(&api::END_CAPTURE, CallArguments::context(stream.context()), |_| {
            stream.end_capture().map_or(ILLEGAL_STATE, |captured| graph.set(captured))
        })
    }

    fn cuStreamIsCapturing(stream: StreamHandle, status: Out<u32>) {
        status.set(stream.get().captured_graph().is_some().into())
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: StreamHandle,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<Handle<Graph>>,
        dependencies: Out<Address>,
        count: Out<usize>,
    ) {
        let captured = stream.get().captured_graph();
        id.set_if_not_null(captured.and_then(Handle::get).map_or(0, |graph| graph.id.into()));
        graph.set_if_not_null(captured.unwrap_or(Handle::NULL));
        dependencies.set_if_not_null(std::ptr::null_mut());
        count.set_if_not_null(0);
        status.set(captured.is_some().into())
    }

    fn cuGraphInstantiateWithFlags(
        executable: Out<Handle<ExecutableGraph>>,
        graph: Handle<Graph>,
        _flags: u64,
    ) {
        instantiate(&executable, graph)
    }

    fn cuGraphInstantiate_v2(
        executable: Out<Handle<ExecutableGraph>>,
        graph: Handle<Graph>,
        _error_node: Address,
        _log: Address,
        _log_size: usize,
    ) {
        instantiate(&executable, graph)
    }

    fn cuGraphInstantiateWithParams(
        executable: Out<Handle<ExecutableGraph>>,
        graph: Handle<Graph>,
        _parameters: Address,
    ) {
        instantiate(&executable, graph)
    }

    fn cuGraphLaunch(executable: Handle<ExecutableGraph>, stream: StreamHandle) {
        let address = stream.address();
        let stream = stream.get();
        let arguments = CallArguments::context(stream.context());
        graph::launch(executable, RecordIds::Written, stream.target(), address, arguments)
    }

    fn cuGraphGetNodes(graph: Handle<Graph>, nodes: Out<Handle<Node>>, count: Out<usize>) {
        let (Some(graph), Some(capacity)) = (graph.get(), count.get()) else { return INVALID_VALUE };
        let graph_nodes = lock(&graph.nodes);
        let written = graph_nodes.iter().take(capacity).enumerate();
        written.for_each(|(index, node)| nodes.set_at(index, *node));
        count.set(graph_nodes.len())
    }

    fn cuGraphDestroy(graph: Handle<Graph>) {
        graph::destroy(graph, Handle::to(context::current_or_first()));
        0
    }

    fn cuGraphExecDestroy(executable: Handle<ExecutableGraph>) {
        let Some(executable) = executable.get() else { return INVALID_VALUE };
        executable.destroy(Handle::to(context::current_or_first()));
        0
    }
}
