//! Runs and rows that tests build.

use marey_model::context::NodeKind;
use marey_store::row::{ActivityKind, Args, AsyncSpan, GpuActivity};
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
