//! A small training run, which the tests of this crate analyse.

use std::path::Path;
use std::sync::Arc;

use marey_model::context::NodeKind;
use marey_query::sql::{Database, Limits};
use marey_store::row::{ActivityKind, Args, GpuActivity, MemoryAction, MemoryEvent};
use marey_store::{Assembler, NewProcess, Slice, temp_dir};

const START_NANOS: i64 = 1_700_000_000_000_000_000;
const MS: i64 = 1_000_000;

/// Bytes allocated at the end of the first step. Each later step adds as many.
pub(crate) const STEP_BYTES: i64 = 50_000_000;

/// Returns a run of steps that take 10 ms, the last one 13 ms. Each calls `aten::mm` from 2 to 8 ms,
/// which launches the kernel `gemm` from 5 to 7 ms.
pub(crate) fn with_steps(count: u32) -> Database {
    with_limits(count, Limits::default())
}

/// Returns the same run with these limits on its queries.
pub(crate) fn with_limits(count: u32, limits: Limits) -> Database {
    let mut run = Assembler::temporary(&temp_dir());
    let process = run.add_process(NewProcess { pid: 1, rank: Some(3), ..NewProcess::default() });
    let thread = run.add_thread(process, 1, "main");
    let [step_name, operator, launch] =
        ["ProfilerStep", "aten::mm", "cudaLaunchKernel"].map(|name| run.text_id(name));
    let kernel = run.text_id("gemm");
    for number in 0..count {
        let start_nanos = START_NANOS + i64::from(number) * 10 * MS;
        let launch_id = u64::from(number) + 1;
        let step_ms = if number + 1 == count { 13 } else { 10 };
        let slice = |from_ms, duration_ms, kind, name_id| Slice {
            step: (kind == NodeKind::Step).then_some(number),
            correlation_id: (kind == NodeKind::Runtime).then_some(launch_id),
            ..Slice::new(thread, kind, name_id, start_nanos + from_ms * MS, duration_ms * MS)
        };
        run.add_slice(&slice(0, step_ms, NodeKind::Step, step_name)).unwrap();
        run.add_slice(&slice(2, 6, NodeKind::Operator, operator)).unwrap();
        run.add_slice(&slice(3, 1, NodeKind::Runtime, launch)).unwrap();
        let activity = GpuActivity {
            stream: 7,
            correlation_id: Some(launch_id),
            ..GpuActivity::new(process, ActivityKind::Kernel, kernel, start_nanos + 5 * MS, 2 * MS)
        };
        run.add_gpu_activity(&activity).unwrap();
        let event = MemoryEvent {
            time_nanos: start_nanos + 9 * MS,
            process_id: process,
            thread_id: Some(thread),
            action: MemoryAction::Alloc,
            device_type: "cuda".into(),
            device: Some(0),
            stream: None,
            address: Some(16),
            bytes: STEP_BYTES,
            allocated_bytes: Some(STEP_BYTES * i64::from(number + 1)),
            reserved_bytes: None,
            peak_bytes: None,
            context_id: None,
            category_id: None,
            args: Args::default(),
        };
        run.add_memory_event(&event).unwrap();
    }
    let (run, _) = run.open(None, Path::new("sample")).unwrap();
    Database::new(Arc::new(run), limits)
}

/// Returns a run of two kernels that take 2 ms, the second one 6 ms after the first.
pub(crate) fn without_steps() -> Database {
    let mut run = Assembler::temporary(&temp_dir());
    let process = run.add_process(NewProcess { pid: 1, ..NewProcess::default() });
    let kernel = run.text_id("gemm");
    for start_nanos in [START_NANOS, START_NANOS + 8 * MS] {
        let activity = GpuActivity::new(process, ActivityKind::Kernel, kernel, start_nanos, 2 * MS);
        run.add_gpu_activity(&activity).unwrap();
    }
    let (run, _) = run.open(None, Path::new("sample")).unwrap();
    Database::new(Arc::new(run), Limits::default())
}
