//! Runs and rows that tests build.

use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{
    ActivityKind, Args, AsyncSpan, GpuActivity, Instant, InstantScope, Metric, Sample,
};
use marey_store::{Assembler, Run, Slice};
use tempfile::TempDir;

/// Returns a run with the rows that `add_rows` adds, and the folder that contains it.
pub(crate) fn build_run(add_rows: impl FnOnce(&mut Assembler)) -> (TempDir, Run) {
    let folder = TempDir::new().unwrap();
    let mut run = Assembler::new(folder.path());
    add_rows(&mut run);
    run.finish(None).unwrap();
    let run = Run::open(folder.path()).unwrap();
    (folder, run)
}

pub(crate) fn slice(thread_id: u32, name_id: u32, start_nanos: i64, duration_nanos: i64) -> Slice {
    Slice::new(thread_id, NodeKind::Scope, name_id, start_nanos, duration_nanos)
}

/// Returns a kernel on device 0.
pub(crate) fn kernel(
    process_id: u32,
    name_id: u32,
    start_nanos: i64,
    duration_nanos: i64,
) -> GpuActivity {
    GpuActivity {
        stream: 7,
        ..GpuActivity::new(process_id, ActivityKind::Kernel, name_id, start_nanos, duration_nanos)
    }
}

pub(crate) fn metric(
    thread_id: u32,
    context_id: u32,
    name_id: u32,
    time_nanos: i64,
    value: MetricValue,
) -> Metric {
    Metric { time_nanos, thread_id, context_id, name_id, sessions: 0, phase: 0, value }
}

pub(crate) fn sample(process_id: u32, context_id: u32, name_id: u32, value: MetricValue) -> Sample {
    Sample {
        process_id,
        thread_id: None,
        context_id,
        name_id,
        time_nanos: None,
        value,
        args: Args::default(),
    }
}

pub(crate) fn instant(process_id: u32, name_id: u32, time_nanos: i64) -> Instant {
    Instant {
        time_nanos,
        process_id,
        thread_id: None,
        scope: InstantScope::Process,
        name_id,
        category_id: None,
        args: Args::default(),
    }
}

pub(crate) fn async_span(
    process_id: u32,
    track_id: u32,
    name_id: u32,
    (start_nanos, duration_nanos): (i64, i64),
) -> AsyncSpan {
    AsyncSpan {
        start_nanos,
        duration_nanos,
        process_id,
        track_id,
        name_id,
        is_open: false,
        category_id: None,
        args: Args::default(),
    }
}
