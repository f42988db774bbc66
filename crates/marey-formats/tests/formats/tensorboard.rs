//! Event files of `TensorBoard`. `tests/formats/test_export_tensorboard.py` reads them with its own reader.

use std::io::Read;

use flate2::read::ZlibDecoder;
use marey_formats::{Format, LeftOut};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{ActivityKind, GpuActivity, Metric};
use marey_store::{Assembler, NewProcess, Run, Slice};
use prost::Message;

use crate::build::{build_run, kernel, slice};
use crate::dump::{export_bytes, import_data};

#[path = "../../src/tensorboard/message.rs"]
mod message;

use self::message::{Content, Event, Image, Payload, Value};

/// Returns the messages of a file.
fn events(mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (message, rest) = rest[4..].split_at(u64::from_le_bytes(*length) as usize);
        events.push(Event::decode(message).unwrap());
        bytes = &rest[4..];
    }
    assert!(bytes.is_empty());
    events
}

/// Tag, step, time and value.
type Scalar = (String, i64, f64, f32);

/// Returns the scalars and the picture.
fn content(run: &Run) -> (Vec<Scalar>, Option<Image>, LeftOut) {
    let (bytes, left_out) = export_bytes(run, Format::TensorBoard);
    let mut events = events(&bytes).into_iter();
    let version = events.next().unwrap();
    assert!(version.encode_to_vec().ends_with(b"\x1a\x0dbrain.Event:2"), "field 3 of {version:?}");
    let (mut scalars, mut picture) = (Vec::new(), None);
    for event in events {
        let Some(Payload::Summary(summary)) = event.payload else { panic!("{event:?}") };
        for Value { tag, content } in summary.value {
            match content.unwrap() {
                Content::SimpleValue(value) => {
                    scalars.push((tag, event.step, event.wall_time_secs, value));
                }
                Content::Image(image) => {
                    assert_eq!(tag, "marey/flame");
                    picture = Some(image);
                }
            }
        }
    }
    (scalars, picture, left_out)
}

/// Returns a run of ranks with three steps each: 10, 20 and 30 ms long, from one second on.
fn run(ranks: u32) -> (tempfile::TempDir, Run) {
    const MS: i64 = 1_000_000;
    build_run(|run| {
        let [step_id, forward, linear, loss] =
            ["step", "forward", "linear", "loss"].map(|name| run.text_id(name));
        for rank in 0..ranks {
            let process =
                run.add_process(NewProcess { pid: 7, rank: Some(rank), ..NewProcess::default() });
            let thread_id = run.add_thread(process, 70, "main");
            let mut start = 1000 * MS;
            for number in 0..3 {
                let duration = (number + 1) * 10 * MS;
                let mut add_slice = |kind, name_id, start_nanos, duration_nanos, step| {
                    let slice = slice(thread_id, name_id, start_nanos, duration_nanos);
                    run.add_slice(&Slice { kind, step, ..slice }).unwrap();
                };
                add_slice(NodeKind::Step, step_id, start, duration, Some(5 + number as u32));
                add_slice(NodeKind::Module, forward, start + MS, 4 * MS, None);
                // A span inside another of the same name counts once.
                add_slice(NodeKind::Operator, linear, start + MS, 3 * MS, None);
                add_slice(NodeKind::Operator, linear, start + 2 * MS, MS, None);
                let metric =
                    |value| Metric::new(thread_id, Assembler::ROOT, loss, start + 2 * MS, value);
                run.add_metric(&metric(MetricValue::Float(0.5 / (number + 1) as f64))).unwrap();
                run.add_metric(&metric(MetricValue::Text("not a number".into()))).unwrap();
                // Two overlapping activities, 5 ms together, the last of which reaches into the
                // next step.
                for (kind, after, length) in [
                    (ActivityKind::Kernel, 0, 3 * MS),
                    (ActivityKind::Memcpy, 2 * MS, 3 * MS),
                    (ActivityKind::Annotation, 0, duration),
                    (ActivityKind::Kernel, duration - MS, 2 * MS),
                ] {
                    let activity = kernel(process, linear, start + after, length);
                    run.add_gpu_activity(&GpuActivity { device: 1, kind, ..activity }).unwrap();
                }
                start += duration;
            }
        }
    })
}

#[test]
fn steps_are_scalars() {
    let (_folder, run) = run(1);
    let (scalars, _, left_out) = content(&run);
    let with_tag = |wanted: &str| -> Vec<(i64, f64, f32)> {
        let scalars = scalars.iter().filter(|(tag, ..)| tag == wanted);
        scalars.map(|&(_, step, time, value)| (step, time, value)).collect()
    };
    assert_eq!(with_tag("step/time_ms"), [(5, 1.0, 10.0), (6, 1.01, 20.0), (7, 1.03, 30.0)]);
    assert_eq!(with_tag("scope/forward_ms"), [(5, 1.0, 4.0), (6, 1.01, 4.0), (7, 1.03, 4.0)]);
    assert_eq!(with_tag("scope/linear_ms"), [(5, 1.0, 3.0), (6, 1.01, 3.0), (7, 1.03, 3.0)]);
    // 5 ms and 1 ms at the end. The activity from the previous step overlaps the first 3 ms.
    assert_eq!(with_tag("gpu1/busy_percent"), [(5, 1.0, 60.0), (6, 1.01, 30.0), (7, 1.03, 20.0)]);
    let loss: Vec<_> =
        with_tag("metric/loss").into_iter().map(|(step, _, value)| (step, value)).collect();
    assert_eq!(loss, [(5, 0.5), (6, 0.25), (7, 0.5_f32 / 3.0)]);
    assert_eq!(scalars.len(), 15);
    assert_eq!(left_out.into_iter().collect::<Vec<_>>(), [("values that are not one number", 3)]);
}

#[test]
fn ranks_have_separate_tags() {
    let (_folder, run) = run(2);
    let (scalars, ..) = content(&run);
    let count = |prefix: &str| scalars.iter().filter(|(tag, ..)| tag.starts_with(prefix)).count();
    assert_eq!((count("rank 0/"), count("rank 1/"), scalars.len()), (15, 15, 30));
}

#[test]
fn values_are_numbered_without_steps() {
    let (_folder, run) = build_run(|run| {
        let process = run.add_process(NewProcess::default());
        let thread_id = run.add_thread(process, 1, "");
        let name_id = run.text_id("bytes");
        for value in [3, 4, 4] {
            let row =
                Metric::new(thread_id, Assembler::ROOT, name_id, value, MetricValue::Int(value));
            run.add_metric(&row).unwrap();
        }
    });
    let (scalars, picture, _) = content(&run);
    let scalars: Vec<_> =
        scalars.iter().map(|(tag, step, _, value)| (&**tag, *step, *value)).collect();
    assert_eq!(
        scalars,
        [("metric/bytes", 0, 3.0), ("metric/bytes", 1, 4.0), ("metric/bytes", 2, 4.0)]
    );
    assert_eq!(picture, None);
}

/// Returns the rows of a PNG, each with its filter type before the pixels.
fn pixels(png: &[u8]) -> Vec<u8> {
    let mut rest = png.strip_prefix(b"\x89PNG\r\n\x1a\n").unwrap();
    let mut packed = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let (name, content, end) = (&after[..4], &after[4..4 + length], &after[4 + length..]);
        let mut checksum = flate2::Crc::new();
        checksum.update(&after[..4 + length]);
        assert_eq!(checksum.sum().to_be_bytes(), end[..4]);
        if name == b"IDAT" {
            packed.extend(content);
        }
        rest = &end[4..];
    }
    let mut rows = Vec::new();
    ZlibDecoder::new(&*packed).read_to_end(&mut rows).unwrap();
    rows
}

#[test]
fn the_picture_is_the_flame_graph() {
    let (_folder, run) = run(1);
    let (_, picture, _) = content(&run);
    let picture = picture.unwrap();
    // Height 64 (step, forward, linear, linear), width 1,200 and colour space 3, by their numbers.
    assert!(picture.encode_to_vec().starts_with(b"\x08\x40\x10\xb0\x09\x18\x03\x22"));
    let Image { height, width, colorspace, encoded_image_string: png } = picture;
    assert_eq!((height, width, colorspace), (4 * 16, 1200, 3));
    let rows = pixels(&png);
    assert_eq!(rows.len(), 64 * (1 + 3 * 1200));
    let coloured = |depth: usize| {
        let row = &rows[(depth * 16 + 8) * 3601 + 1..][..3600];
        row.chunks(3).filter(|pixel| pixel != &[255, 255, 255]).count()
    };
    // 60 ms in steps, 12 in `forward`, 9 and 3 in `linear`. A pixel separates neighbours.
    assert_eq!([0, 1, 2, 3].map(coloured), [1199, 239, 179, 59]);
    let (_, picture, _) = content(&import_data("speedscope/mixed.json").run);
    assert_eq!(picture.unwrap().height, 3 * 16);
}

#[test]
fn only_the_busiest_devices_are_scalars() {
    let (_folder, run) = build_run(|run| {
        let process = run.add_process(NewProcess::default());
        let thread_id = run.add_thread(process, 1, "");
        let name_id = run.text_id("step");
        let step = slice(thread_id, name_id, 0, 1000);
        run.add_slice(&Slice { kind: NodeKind::Step, step: Some(0), ..step }).unwrap();
        for device in 0..20 {
            let nanos = if device == 19 { 500 } else { 100 };
            let kernel = kernel(process, name_id, 0, nanos);
            run.add_gpu_activity(&GpuActivity { device, ..kernel }).unwrap();
        }
    });
    let (scalars, _, left_out) = content(&run);
    let devices = scalars.iter().filter(|(tag, ..)| tag.ends_with("busy_percent"));
    let devices: Vec<_> = devices.map(|(tag, _, _, value)| (&**tag, *value)).collect();
    assert_eq!(devices.len(), 16);
    assert_eq!(devices[14..], [("gpu14/busy_percent", 10.0), ("gpu19/busy_percent", 50.0)]);
    assert_eq!(left_out, LeftOut::from([("devices other than the 16 busiest", 4)]));
}
