//! Activities of devices and their launches.

use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use marey_model::spool::{Activity, ActivityKind, ActivityShape, Detail, Device, SpoolFrame};
use marey_model::table::stored::{ARGS, DEVICES, GPU_ACTIVITIES, METADATA, SPANS, STRINGS};

use super::spools::{OUTER, Recorded, STEP, UNIX, collect_run, spans};
use super::tables::{column, ids, ints, optional, text};

/// Text ids after those of every spool.
const KERNEL: u32 = 6;
const COPY: u32 = 7;

/// Returns a run with activities of two shapes.
fn program() -> Recorded {
    let kernel = ActivityShape {
        kind: ActivityKind::Kernel,
        name_id: KERNEL,
        device: 1,
        stream: 7,
        details: vec![
            (Detail::GridX, 4),
            (Detail::GridY, 2),
            (Detail::GridZ, 1),
            (Detail::BlockX, 128),
            (Detail::BlockY, 1),
            (Detail::BlockZ, 1),
            (Detail::Registers, 32),
            (Detail::StaticSharedBytes, 100),
            (Detail::DynamicSharedBytes, 28),
            (Detail::GraphNode, 1 << 40),
            (Detail::Context, 3),
        ],
    };
    let copy = ActivityShape {
        kind: ActivityKind::Memcpy,
        name_id: COPY,
        device: 0,
        stream: 8,
        details: vec![(Detail::SourceKind, 1), (Detail::TargetKind, 3), (Detail::ExternalId, 77)],
    };
    let activity = |shape, start_nanos, bytes, correlation, launch| Activity {
        shape_id: shape,
        start_nanos,
        duration_nanos: 5,
        bytes,
        correlation_id: correlation,
        launch,
    };
    Recorded::with_frames([
        SpoolFrame::Device(Device {
            number: 1,
            device_type: "CUDA".to_owned(),
            name: "H200".to_owned(),
            properties: r#"{"sm_count":132}"#.to_owned(),
        }),
        SpoolFrame::Strings {
            first_id: KERNEL,
            texts: vec!["matmul".to_owned(), "HtoD".to_owned()],
        },
        SpoolFrame::Shapes { first_id: 0, shapes: vec![kernel, copy] },
        // The second of three scopes is the launch; no scope of the next frame is.
        SpoolFrame::Launches { thread: 0, launches: vec![(1, 4_000_000_000)] },
        spans(0, 1, &[(STEP, 10, 20), (OUTER, 30, 40), (STEP, 50, 60)]),
        spans(0, 1, &[(STEP, 70, 75), (STEP, 80, 85)]),
        SpoolFrame::Activities {
            sessions: 1,
            activities: vec![
                activity(1, 90, 4096, 9, Some((0, STEP))),
                activity(0, 45, 0, 4_000_000_000, Some((0, OUTER))),
                activity(0, 95, 0, 0, None),
            ],
        },
        SpoolFrame::Note { key: "gpu".to_owned(), value: "\"waiting\"".to_owned() },
        SpoolFrame::Note { key: "gpu".to_owned(), value: "\"CUPTI\"".to_owned() },
        SpoolFrame::End,
    ])
}

#[test]
fn activities_are_rows_with_their_launches() {
    let run = collect_run(&program());
    let rows = run.read(&GPU_ACTIVITIES).unwrap();
    let texts = run.read(&STRINGS).unwrap();
    let name = |row: usize| text(&texts, "text", ids(&rows, "name_id")[row] as usize);
    let i64_values = |name: &str| optional::<Int64Type>(&rows, name);
    let u64_values = |name: &str| optional::<UInt64Type>(&rows, name);
    let u32_values = |name: &str| optional::<UInt32Type>(&rows, name);

    assert_eq!(ints(&rows, "start_nanos"), [UNIX + 45, UNIX + 90, UNIX + 95]);
    assert_eq!(ints(&rows, "duration_nanos"), [5, 5, 5]);
    assert_eq!([name(0), name(1), name(2)], ["matmul", "HtoD", "matmul"]);
    let kinds = [0, 1, 2].map(|row| text(&rows, "kind", row));
    assert_eq!(kinds, ["kernel", "memcpy", "kernel"]);
    assert_eq!(ids(&rows, "device"), [1, 0, 1]);
    assert_eq!(ids(&rows, "stream"), [7, 8, 7]);
    assert_eq!(u64_values("correlation_id"), [Some(4_000_000_000), Some(9), None]);
    assert_eq!(i64_values("bytes"), [None, Some(4096), None]);
    assert_eq!(u64_values("graph_node_id"), [Some(1 << 40), None, Some(1 << 40)]);
    assert_eq!(u64_values("external_id"), [None, Some(77), None]);
    let grids = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"];
    assert_eq!(grids.map(|name| u32_values(name)[0]), [4, 2, 1, 128, 1, 1, 32].map(Some));
    assert_eq!(grids.map(|name| u32_values(name)[1]), [None; 7]);
    assert_eq!(i64_values("shared_bytes")[..2], [Some(128), None]);
    // An unknown launch gives no context.
    let has_context = u32_values("context_id").into_iter().map(|id| id.is_some());
    assert!(has_context.eq([true, true, false]));
}

#[test]
fn details_without_a_column_are_arguments() {
    let run = collect_run(&program());
    let rows = run.read(&GPU_ACTIVITIES).unwrap();
    let args = run.read(&ARGS).unwrap();
    assert!(args.num_rows() > 0);
    assert_eq!((rows.num_rows(), column(&rows, "args_id").null_count()), (3, 0));
}

#[test]
fn only_the_launching_scope_has_the_correlation_id() {
    let run = collect_run(&program());
    let rows = run.read(&SPANS).unwrap();
    let correlation_ids = optional::<UInt64Type>(&rows, "correlation_id");
    assert_eq!(
        ints(&rows, "start_nanos").iter().map(|start_nanos| start_nanos - UNIX).collect::<Vec<_>>(),
        [10, 30, 50, 70, 80]
    );
    assert_eq!(correlation_ids, [None, Some(4_000_000_000), None, None, None]);
}

#[test]
fn devices_and_notes_are_rows() {
    let run = collect_run(&program());
    let devices = run.read(&DEVICES).unwrap();
    assert_eq!(devices.num_rows(), 1);
    assert_eq!(ids(&devices, "device"), [1]);
    assert_eq!(text(&devices, "name", 0), "H200");
    let notes = run.read(&METADATA).unwrap();
    let found: Vec<_> = (0..notes.num_rows())
        .filter(|&row| text(&notes, "key", row) == "gpu")
        .map(|row| text(&notes, "value", row))
        .collect();
    assert_eq!(found, ["\"CUPTI\""], "the later one");
}
