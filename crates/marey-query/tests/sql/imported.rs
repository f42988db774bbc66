//! A run as importers make it: one or two rows in each table, most with arguments.

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_query::sql::Limits;
use marey_store::row::{
    ActivityKind, Args, AsyncSpan, Collective, CollectiveState, Device, Flow, FlowPoint,
    GpuActivity, Instant, InstantScope, MemoryAction, MemoryBlock, MemoryEvent, Metadata, Sample,
};
use marey_store::{Assembler, NewProcess, Slice};

use crate::run::TestRun;

pub(crate) fn imported() -> TestRun {
    TestRun::assembled(Limits::default().memory_bytes, |run| {
        let process_id =
            run.add_process(NewProcess { pid: 40, rank: Some(1), ..NewProcess::default() });
        let thread_id = run.add_thread(process_id, 41, "main");
        add_spans(run, thread_id);
        add_gpu_activities(run, process_id);
        add_events(run, process_id, thread_id);
        add_samples(run, process_id, thread_id);
        add_memory(run, process_id);
        add_device_and_metadata(run, process_id, thread_id);
    })
}

/// Arguments with a number and a text.
fn args(run: &mut Assembler, bytes: i64, why: &str) -> Args {
    let mut new = NewArgs::default();
    new.int("bytes", bytes);
    new.text("why", why);
    run.args(&mut new).unwrap()
}

/// A slice of a thread without any optional field.
pub(crate) fn slice(run: &mut Assembler, thread_id: u32, start_nanos: i64, name: &str) -> Slice {
    Slice::new(thread_id, NodeKind::Operator, run.text_id(name), start_nanos, 10)
}

fn add_spans(run: &mut Assembler, thread_id: u32) {
    let operator = Slice {
        duration_nanos: 100,
        category_id: Some(run.text_id("cpu_op")),
        external_id: Some(5),
        args: args(run, 64, "a \"#1\""),
        ..slice(run, thread_id, 1000, "aten::mm")
    };
    run.add_slice(&operator).unwrap();
    let launch = Slice {
        kind: NodeKind::Runtime,
        correlation_id: Some(7),
        ..slice(run, thread_id, 1010, "cudaLaunchKernel")
    };
    run.add_slice(&launch).unwrap();
}

fn add_gpu_activities(run: &mut Assembler, process_id: u32) {
    let kernel = GpuActivity {
        start_nanos: 1050,
        duration_nanos: 30,
        process_id,
        device: 0,
        stream: 7,
        kind: ActivityKind::Kernel,
        name_id: run.text_id("gemm"),
        context_id: None,
        correlation_id: Some(7),
        graph_node_id: None,
        grid: Some([4, 2, 1]),
        block: Some([128, 1, 1]),
        registers: Some(32),
        shared_bytes: Some(1024),
        bytes: None,
        category_id: Some(run.text_id("kernel")),
        external_id: Some(5),
        args: args(run, 0, "queued"),
    };
    let copy = GpuActivity {
        start_nanos: 1090,
        stream: u32::MAX,
        kind: ActivityKind::Memcpy,
        name_id: run.text_id("Memcpy HtoD"),
        correlation_id: None,
        grid: None,
        block: None,
        registers: None,
        shared_bytes: None,
        bytes: Some(4096),
        external_id: None,
        args: args(run, 4096, "pinned"),
        ..kernel
    };
    run.add_gpu_activity(&kernel).unwrap();
    run.add_gpu_activity(&copy).unwrap();
}

fn add_events(run: &mut Assembler, process_id: u32, thread_id: u32) {
    let request = AsyncSpan {
        start_nanos: 1005,
        duration_nanos: 500,
        process_id,
        track_id: run.text_id("request 1"),
        name_id: run.text_id("decode"),
        is_open: true,
        category_id: Some(run.text_id("serve")),
        args: args(run, 1, "r"),
    };
    run.add_async_span(&request).unwrap();
    let thread_instant = Instant {
        time_nanos: 1020,
        process_id,
        thread_id: Some(thread_id),
        scope: InstantScope::Thread,
        name_id: run.text_id("mark"),
        category_id: None,
        args: args(run, 2, "m"),
    };
    let global_instant = Instant {
        time_nanos: 1030,
        thread_id: None,
        scope: InstantScope::Global,
        args: Args::default(),
        ..thread_instant.clone()
    };
    run.add_instant(&thread_instant).unwrap();
    run.add_instant(&global_instant).unwrap();
    let flow = Flow {
        time_nanos: 1015,
        thread_id,
        flow_id: u64::MAX,
        point: FlowPoint::Start,
        is_enclosing: true,
        name_id: run.text_id("fwdbwd"),
        category_id: Some(run.text_id("fwdbwd")),
        args: args(run, 3, "f"),
    };
    run.add_flow(&flow).unwrap();
    let reduce = Collective {
        start_nanos: 1040,
        duration_nanos: Some(60),
        created_nanos: Some(1035),
        process_id,
        device: Some(0),
        stream: Some(9),
        name_id: run.text_id("allreduce"),
        group_id: run.text_id("dp"),
        group_ranks_id: Some(run.text_id("0-7")),
        group_size: Some(8),
        sequence: Some(3),
        dtype_id: Some(run.text_id("Float")),
        in_elements: Some(1024),
        out_elements: Some(1024),
        state: CollectiveState::Completed,
        is_p2p: false,
        context_id: None,
        args: args(run, 4, "c"),
    };
    let send = Collective {
        start_nanos: 1041,
        duration_nanos: None,
        created_nanos: None,
        device: None,
        stream: None,
        name_id: run.text_id("send"),
        group_ranks_id: None,
        group_size: None,
        sequence: None,
        dtype_id: None,
        in_elements: None,
        out_elements: None,
        state: CollectiveState::Scheduled,
        is_p2p: true,
        args: Args::default(),
        ..reduce
    };
    run.add_collective(&reduce).unwrap();
    run.add_collective(&send).unwrap();
}

/// Two stacks.
fn add_samples(run: &mut Assembler, process_id: u32, thread_id: u32) {
    let [main, inner] = ["main.py", "f"].map(|name| run.text_id(name));
    let outer = run.context_id(Assembler::ROOT, NodeKind::Frame, main);
    let inner = run.context_id(outer, NodeKind::Frame, inner);
    let sample = Sample {
        process_id,
        thread_id: Some(thread_id),
        context_id: inner,
        name_id: run.text_id("cpu (ns)"),
        time_nanos: Some(1100),
        value: MetricValue::Int(250),
        args: args(run, 5, "s"),
    };
    let process_sample = Sample {
        thread_id: None,
        context_id: outer,
        name_id: run.text_id("load"),
        time_nanos: None,
        value: MetricValue::Float(0.5),
        args: Args::default(),
        ..sample.clone()
    };
    run.add_sample(&sample).unwrap();
    run.add_sample(&process_sample).unwrap();
}

fn add_memory(run: &mut Assembler, process_id: u32) {
    let allocation = MemoryEvent {
        time_nanos: 1060,
        process_id,
        thread_id: None,
        action: MemoryAction::Alloc,
        device_type: "cuda".into(),
        device: Some(0),
        stream: Some(0),
        address: Some(u64::MAX),
        bytes: 512,
        allocated_bytes: Some(1024),
        reserved_bytes: Some(2048),
        peak_bytes: Some(1500),
        context_id: None,
        category_id: Some(run.text_id("cpu_instant_event")),
        args: args(run, 6, "a"),
    };
    run.add_memory_event(&allocation).unwrap();
    let block = MemoryBlock {
        time_nanos: 1200,
        process_id,
        device: 0,
        stream: None,
        segment_address: 4096,
        segment_bytes: 2048,
        segment_type: "small".into(),
        address: 4608,
        bytes: 512,
        requested_bytes: Some(500),
        state: "active_allocated".into(),
        context_id: None,
        args: args(run, 7, "b"),
    };
    run.add_memory_block(&block).unwrap();
}

fn add_device_and_metadata(run: &mut Assembler, process_id: u32, thread_id: u32) {
    let device = Device {
        process_id,
        device: 0,
        device_type: "CUDA".into(),
        name: "H100".into(),
        properties: r#"{"numSms":132}"#.into(),
    };
    run.add_device(&device).unwrap();
    let file_metadata =
        Metadata { process_id, thread_id: None, key: "schemaVersion".into(), value: "1".into() };
    let thread_metadata = Metadata {
        thread_id: Some(thread_id),
        key: "thread_sort_index".into(),
        value: r#"{"sort_index":2}"#.into(),
        ..file_metadata.clone()
    };
    run.add_metadata(&file_metadata).unwrap();
    run.add_metadata(&thread_metadata).unwrap();
}
