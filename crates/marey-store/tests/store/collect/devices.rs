//! Activities of devices and their launches.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use marey_model::spool::{Activity, ActivityKind, ActivityShape, Detail, Device, SpoolFrame};
use marey_model::table::stored::{ARGS, DEVICES, GPU_ACTIVITIES, METADATA, SPANS, STRINGS};
use marey_store::Run;

use super::spools::{OUTER, Recorded, STEP, UNIX, first_frames, no_trace, spans};
use super::tables::{column, ids, ints, text};

/// Text ids after those of every spool.
const KERNEL: u32 = 6;
const COPY: u32 = 7;

fn program() -> Vec<SpoolFrame> {
    let mut frames = first_frames(100);
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
    frames.extend([
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
    ]);
    frames
}

fn collect_run(frames: &[SpoolFrame]) -> Run {
    let recorded = Recorded::with_spools(&[frames]);
    marey_store::open(recorded.path(), &no_trace, &mut |_| ()).unwrap()
}

#[test]
fn activities_are_rows_with_their_launches() {
    let run = collect_run(&program());
    let rows = run.read(&GPU_ACTIVITIES).unwrap();
    let texts = run.read(&STRINGS).unwrap();
    let name = |row: usize| text(&texts, "text", ids(&rows, "name_id")[row] as usize);
    let u64_value = |column_name: &str, row: usize| {
        let values = column(&rows, column_name).as_primitive::<UInt64Type>();
        values.is_valid(row).then(|| values.value(row))
    };
    let i64_value = |column_name: &str, row: usize| {
        let values = column(&rows, column_name).as_primitive::<Int64Type>();
        values.is_valid(row).then(|| values.value(row))
    };
    let u32_value = |column_name: &str, row: usize| {
        let values = column(&rows, column_name).as_primitive::<UInt32Type>();
        values.is_valid(row).then(|| values.value(row))
    };

    assert_eq!(ints(&rows, "start_nanos"), [UNIX + 45, UNIX + 90, UNIX + 95]);
    assert_eq!(ints(&rows, "duration_nanos"), [5, 5, 5]);
    assert_eq!([name(0), name(1), name(2)], ["matmul", "HtoD", "matmul"]);
    let kinds = [0, 1, 2].map(|row| text(&rows, "kind", row));
    assert_eq!(kinds, ["kernel", "memcpy", "kernel"]);
    assert_eq!(ids(&rows, "device"), [1, 0, 1]);
    assert_eq!(ids(&rows, "stream"), [7, 8, 7]);
    assert_eq!(
        [0, 1, 2].map(|row| u64_value("correlation_id", row)),
        [Some(4_000_000_000), Some(9), None]
    );
    assert_eq!([0, 1, 2].map(|row| i64_value("bytes", row)), [None, Some(4096), None]);
    assert_eq!(
        [0, 1, 2].map(|row| u64_value("graph_node_id", row)),
        [Some(1 << 40), None, Some(1 << 40)]
    );
    assert_eq!([0, 1, 2].map(|row| u64_value("external_id", row)), [None, Some(77), None]);
    let grids = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"];
    assert_eq!(
        grids.map(|column_name| u32_value(column_name, 0)),
        [4, 2, 1, 128, 1, 1, 32].map(Some)
    );
    assert_eq!(grids.map(|column_name| u32_value(column_name, 1)), [None; 7]);
    assert_eq!([0, 1].map(|row| i64_value("shared_bytes", row)), [Some(128), None]);
    // An unknown launch gives no context.
    assert_eq!([0, 1, 2].map(|row| u32_value("context_id", row).is_some()), [true, true, false]);
}

#[test]
fn details_without_a_column_are_arguments() {
    let run = collect_run(&program());
    let rows = run.read(&GPU_ACTIVITIES).unwrap();
    let args = run.read(&ARGS).unwrap();
    assert!(args.num_rows() > 0);
    let has_args = |row: usize| column(&rows, "args_id").is_valid(row);
    assert_eq!([0, 1, 2].map(has_args), [true, true, true]);
}

#[test]
fn only_the_launching_scope_has_the_correlation_id() {
    let run = collect_run(&program());
    let rows = run.read(&SPANS).unwrap();
    let numbers = column(&rows, "correlation_id").as_primitive::<UInt64Type>();
    let correlation_id = |row: usize| numbers.is_valid(row).then(|| numbers.value(row));
    assert_eq!(
        ints(&rows, "start_nanos").iter().map(|start_nanos| start_nanos - UNIX).collect::<Vec<_>>(),
        [10, 30, 50, 70, 80]
    );
    assert_eq!([0, 1, 2, 3, 4].map(correlation_id), [None, Some(4_000_000_000), None, None, None]);
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
