//! Runs of random rows, with everything that trace events can hold.

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{
    ActivityKind, Args, AsyncSpan, Flow, FlowPoint, GpuActivity, Instant, InstantScope,
    MemoryAction, MemoryEvent, Metric,
};
use marey_store::{Assembler, NewProcess, Run, Slice};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::build::{async_span, build_run, slice};

/// Categories that determine the kind of a span.
const CATEGORIES: [(&str, NodeKind); 5] = [
    ("cpu_op", NodeKind::Operator),
    ("user_annotation", NodeKind::Scope),
    ("python_function", NodeKind::Frame),
    ("cuda_runtime", NodeKind::Runtime),
    ("of \"another\" kind\\", NodeKind::Scope),
];

const ACTIVITIES: [(&str, ActivityKind); 5] = [
    ("kernel", ActivityKind::Kernel),
    ("gpu_memcpy", ActivityKind::Memcpy),
    ("gpu_memset", ActivityKind::Memset),
    ("cuda_sync", ActivityKind::Sync),
    ("gpu_user_annotation", ActivityKind::Annotation),
];

/// Process, threads and names that all scenes share.
const PID: i64 = 4242;
const THREADS: [(i64, &str); 3] =
    [(4242, "main"), (4243, "loader \"1\""), (-7, "row 7 \u{2028}\\")];

/// A single event.
#[derive(Clone, Debug)]
pub(crate) struct RandomRow {
    row_kind: u8,
    thread: usize,
    start: i64,
    duration: i64,
    name: String,
    number: u64,
    choice: usize,
    value: f64,
}

pub(crate) fn random_rows() -> impl Strategy<Value = Vec<RandomRow>> {
    prop::collection::vec(random_row(), 1..150)
}

/// Returns a time to which the times of a scene are relative.
pub(crate) fn bases() -> impl Strategy<Value = i64> {
    prop::sample::select(vec![0, 1_712_345_678_123_456_789, -77_000_000_001, 999])
}

prop_compose! {
    fn random_row()(
        row_kind in 0_u8..9,
        thread in 0_usize..THREADS.len(),
        start in 0_i64..3000,
        duration in prop::sample::select(vec![0_i64, 1, 10, 300, 1000]),
        name in name(),
        number in prop_oneof![0_u64..6, any::<u64>().prop_map(|n| n >> 12)],
        choice in 0_usize..5,
        value in any::<f64>(),
    ) -> RandomRow {
        RandomRow { row_kind, thread, start, duration, name, number, choice, value }
    }
}

fn name() -> impl Strategy<Value = String> {
    let special = vec![
        String::new(),
        "a \"quoted\" \\ name".to_owned(),
        "line\nbreak\u{0}\u{1f}\u{7f}".to_owned(),
        "\u{2028}\u{2029}漢字 🜚".to_owned(),
        "#;</script>".to_owned(),
        "x".repeat(5000),
    ];
    prop_oneof![prop::sample::select(special), ".*", "[a-c]"]
}

/// Returns the run of a scene.
pub(crate) fn run(base_nanos: i64, random_rows: &[RandomRow]) -> (TempDir, Run) {
    build_run(|run| {
        let name = Some("python \"3\"".to_owned());
        let process = run.add_process(NewProcess { pid: PID, name, ..NewProcess::default() });
        let threads = THREADS.map(|(os_id, name)| run.add_thread(process, os_id, name));
        for (random_row, order) in random_rows.iter().zip(1..) {
            let thread = threads[random_row.thread];
            add(random_row, base_nanos + random_row.start, (process, thread), order, run);
        }
    })
}

fn args(random_row: &RandomRow, run: &mut Assembler) -> Args {
    let mut args = NewArgs::default();
    if random_row.choice > 1 {
        args.int("Ev Idx", random_row.number.cast_signed());
        args.text(&format!("key of {}", random_row.name), &random_row.name);
        args.json("Input Dims", "[[5,128],[],[\"}\"]]");
        args.real("real", random_row.value);
    }
    run.args(&mut args).unwrap()
}

fn add(
    random_row: &RandomRow,
    time_nanos: i64,
    (process_id, thread_id): (u32, u32),
    order: u64,
    run: &mut Assembler,
) {
    let RandomRow { row_kind, duration, ref name, number, choice, value, .. } = *random_row;
    let (name_id, args) = (run.text_id(name), args(random_row, run));
    let (category, kind) = CATEGORIES[choice];
    let category_id = Some(run.text_id(category));
    let flow_category = run.text_id("fwdbwd");
    let track_id = run.text_id(["1", "0x2", "a \"b\""][choice % 3]);
    match row_kind {
        0..=2 => run.add_slice(&Slice {
            order,
            kind,
            category_id,
            correlation_id: (kind == NodeKind::Runtime).then_some(number),
            external_id: (kind == NodeKind::Operator).then_some(number),
            args,
            ..slice(thread_id, name_id, time_nanos, duration)
        }),
        3 => {
            let row = activity(random_row, time_nanos, process_id, (name_id, args), run);
            run.add_gpu_activity(&row)
        }
        4 => run.add_instant(&Instant {
            time_nanos,
            process_id,
            thread_id: Some(thread_id),
            scope: InstantScope::ALL[choice % 3],
            name_id,
            category_id: category_id.filter(|_| choice > 2),
            args,
        }),
        5 => run.add_flow(&Flow {
            time_nanos,
            thread_id,
            flow_id: number,
            point: FlowPoint::ALL[choice % 3],
            is_enclosing: choice % 3 != 1 || number % 2 == 0,
            name_id,
            category_id: Some(flow_category),
            args,
        }),
        6 => {
            let value = match choice {
                0 => MetricValue::Int(number.cast_signed()),
                1 => MetricValue::Float(f64::NAN),
                2 => MetricValue::Float(f64::NEG_INFINITY),
                _ => MetricValue::Float(value),
            };
            run.add_metric(&Metric::new(thread_id, Assembler::ROOT, name_id, time_nanos, value))
        }
        7 => {
            let ids = (process_id, thread_id);
            let row = memory_event(random_row, time_nanos, ids, args, run);
            run.add_memory_event(&row)
        }
        _ => {
            let span = async_span(process_id, track_id, name_id, (time_nanos, duration));
            run.add_async_span(&AsyncSpan { category_id, args, ..span })
        }
    }
    .unwrap();
}

fn activity(
    random_row: &RandomRow,
    start_nanos: i64,
    process_id: u32,
    (name_id, args): (u32, Args),
    run: &mut Assembler,
) -> GpuActivity {
    let RandomRow { duration: duration_nanos, number, choice, .. } = *random_row;
    let (category, kind) = ACTIVITIES[choice];
    let activity_category = run.text_id(category);
    let is_kernel = kind == ActivityKind::Kernel;
    GpuActivity {
        start_nanos,
        duration_nanos,
        process_id,
        device: [0, 1, 5][random_row.thread],
        stream: if kind == ActivityKind::Sync { u32::MAX } else { [0, 7, 20][choice % 3] },
        kind,
        name_id,
        context_id: None,
        correlation_id: Some(number),
        graph_node_id: is_kernel.then_some(number),
        grid: is_kernel.then_some([1, 2, u32::MAX]),
        block: is_kernel.then_some([32, 1, 1]),
        registers: is_kernel.then_some(255),
        shared_bytes: is_kernel.then_some(1 << 40),
        bytes: (!is_kernel).then_some(1 << 50),
        category_id: Some(activity_category),
        external_id: (choice == 1).then_some(number + 1),
        args,
    }
}

fn memory_event(
    random_row: &RandomRow,
    time_nanos: i64,
    (process_id, thread_id): (u32, u32),
    args: Args,
    run: &mut Assembler,
) -> MemoryEvent {
    let RandomRow { number, choice, .. } = *random_row;
    let memory_category = run.text_id("cpu_instant_event");
    let device_type = ["cpu", "cuda", "77"][choice % 3].into();
    let (action, bytes) = [(MemoryAction::Alloc, 1), (MemoryAction::Free, 1 << 40)][choice % 2];
    MemoryEvent {
        thread_id: Some(thread_id),
        device: (choice > 2).then_some(1),
        address: Some(u64::MAX - number),
        allocated_bytes: Some(1 << 60),
        reserved_bytes: (choice > 1).then_some(0),
        category_id: Some(memory_category),
        args,
        ..MemoryEvent::new(process_id, device_type, action, time_nanos, bytes)
    }
}
