//! pprof: profiles of Go's own profiler and of Google's Python library in, and out again.
//!
//! `protobuf.pb` was made with Google's protobuf library for Python; `go-runtime-*` are what
//! `runtime/pprof` of Go 1.19 recorded of a small program, `go-cpu` and `go-heap` the same written
//! again by `go tool pprof -proto`.

mod hostile;
#[expect(dead_code, reason = "tests decode and encode whole messages")]
#[path = "../../src/pprof/message.rs"]
mod message;
mod round_trip;
mod text;

use std::io::Read as _;

use flate2::read::GzDecoder;
use marey_formats::{Format, LeftOut, export};
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{GpuActivity, Sample};
use marey_store::{Assembler, NewProcess, Run, Selection, Slice};
use prost::Message as _;

use crate::build::{build_run, kernel, slice};
use crate::dump::{dump, export_bytes, import_bytes, import_data};

use self::message::Profile;

/// Exports a run as a profile.
fn export_profile(run: &Run) -> (Profile, LeftOut) {
    let (packed, left_out) = export_bytes(run, Format::Pprof);
    (unpack(&packed), left_out)
}

/// Returns the profile in a compressed file.
fn unpack(packed: &[u8]) -> Profile {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    Profile::decode(bytes.as_slice()).unwrap()
}

#[test]
fn profiles_of_go_are_recognised_by_their_content() {
    for (name, metric) in [("cpu", "cpu (nanoseconds)"), ("heap", "inuse_space (bytes)")] {
        let imported = import_data(&format!("pprof/go-runtime-{name}.pb.gz"));
        assert_eq!(imported.imported.files[0].format, Format::Pprof);
        let dumped = dump(&imported.run);
        assert!(dumped.contains(&format!("{metric:?}")), "{name} reads as:\n{dumped}");
    }
}

#[test]
fn golden_profiles_survive_a_round_trip() {
    for (name, golden) in [
        ("protobuf.pb", include_str!("../data/pprof/protobuf.txt")),
        ("go-cpu.pb.gz", include_str!("../data/pprof/go-cpu.txt")),
        ("go-heap.pb.gz", include_str!("../data/pprof/go-heap.txt")),
    ] {
        let imported = import_data(&format!("pprof/{name}"));
        let dumped = dump(&imported.run);
        assert_eq!(dumped, golden, "{name} reads as:\n{dumped}");
        assert!(imported.imported.files[0].warnings.is_empty());
        let (again, left_out) = export_bytes(&imported.run, Format::Pprof);
        assert_eq!(left_out, LeftOut::new(), "{name}");
        let again = import_bytes(&again).unwrap();
        // The process has the name of the file, and the writer assigns new ids.
        assert_eq!(renumbered(&dump(&again.run)), renumbered(golden), "{name}");
    }
}

/// Removes from a dump the name of the file and the ids of entries, which change in a round trip.
fn renumbered(dump: &str) -> Vec<String> {
    let keeps = |line: &&str| !line.starts_with("process ");
    let mut lines: Vec<String> = dump.lines().filter(keeps).map(without_numbers).collect();
    lines.sort();
    lines
}

fn without_numbers(line: &str) -> String {
    let mut line = line.to_owned();
    for word in
        ["pprof.mapping.", "pprof.location.", "pprof.function.", "\"mapping\":", "\"function\":"]
    {
        let mut from = 0;
        while let Some(at) = line[from..].find(word) {
            let start = from + at + word.len();
            let digits = line[start..].bytes().take_while(u8::is_ascii_digit).count();
            line.replace_range(start..start + digits, "");
            from = start;
        }
    }
    if let Some(start) = line.find("\"pprof.locations\":[") {
        let end = start + line[start..].find(']').unwrap();
        let count = line[start..end].split(',').count();
        line.replace_range(start..end, &format!("{count} locations"));
    }
    line
}

#[test]
fn spans_become_self_times_with_kernels_below_their_launches() {
    let (_folder, run) = build_run(|run| {
        let process = run.add_process(NewProcess { pid: 7, ..NewProcess::default() });
        let thread = run.add_thread(process, 8, "main");
        let frame = run.text_id("train.py:12@step");
        let matmul = run.text_id("aten::matmul");
        let slice = |start_nanos, duration_nanos, order, kind, name_id| Slice {
            order,
            kind,
            correlation_id: (kind == NodeKind::Runtime).then_some(5),
            ..slice(thread, name_id, start_nanos, duration_nanos)
        };
        run.add_slice(&slice(1000, 100, 0, NodeKind::Frame, frame)).unwrap();
        run.add_slice(&slice(1010, 30, 1, NodeKind::Operator, matmul)).unwrap();
        let launch = run.text_id("cudaLaunchKernel");
        run.add_slice(&slice(1015, 5, 2, NodeKind::Runtime, launch)).unwrap();
        let kernel = kernel(process, run.text_id("gemm"), 1020, 200);
        run.add_gpu_activity(&GpuActivity { correlation_id: Some(5), ..kernel }).unwrap();
    });

    let (profile, left_out) = export_profile(&run);
    assert_eq!(left_out, LeftOut::new());
    assert_eq!(
        profile.stacks(),
        [
            "gemm < aten::matmul < step (train.py:12) [0, 0, 200]",
            "cudaLaunchKernel < aten::matmul < step (train.py:12) [1, 5, 0] thread=main tid=8",
            "aten::matmul < step (train.py:12) [1, 25, 0] thread=main tid=8",
            "step (train.py:12) [1, 70, 0] thread=main tid=8",
        ]
    );
    assert_eq!(profile.types(), ["spans/count", "time/nanoseconds", "gpu_time/nanoseconds"]);
    assert_eq!((profile.time_nanos, profile.duration_nanos), (1000, 220));

    // A window contains only the parts of spans inside it.
    let window = Selection { from_nanos: 1020, until_nanos: 1050, ..Selection::default() };
    let mut packed = Vec::new();
    export(&marey_store::Reader::new(&run, window).unwrap(), Format::Pprof, &mut packed).unwrap();
    assert_eq!(
        unpack(&packed).stacks(),
        [
            "gemm < aten::matmul < step (train.py:12) [0, 0, 30]",
            "aten::matmul < step (train.py:12) [1, 20, 0] thread=main tid=8",
            "step (train.py:12) [1, 10, 0] thread=main tid=8",
        ]
    );
}

#[test]
fn excess_value_types_and_out_of_range_numbers_are_counted() {
    let (_folder, run) = build_run(|run| {
        let process_id = run.add_process(NewProcess::default());
        let frame = run.text_id("f");
        let context_id = run.context_id(Assembler::ROOT, NodeKind::Frame, frame);
        let add = |run: &mut Assembler, number: usize, value: f64| {
            let name_id = run.text_id(&format!("type {number}"));
            run.add_sample(&Sample::new(
                process_id,
                context_id,
                name_id,
                MetricValue::Float(value),
            ))
            .unwrap();
        };
        for number in 0..70 {
            add(run, number, number as f64);
        }
        add(run, 0, 1e300);
        add(run, 1, -1e300);
    });
    let (profile, left_out) = export_profile(&run);
    assert_eq!(
        left_out,
        LeftOut::from([("values beyond 64 bits", 2), ("values of further types", 6)])
    );
    assert_eq!((profile.types().len(), profile.sample.len()), (64, 1));
    let values = &profile.sample[0].value;
    assert_eq!((values[..3].to_vec(), values[63]), (vec![i64::MAX, i64::MIN, 2], 63));
}

#[test]
fn lone_surrogates_are_replaced_and_invalid_arguments_counted() {
    let (_folder, run) = build_run(|run| {
        let process_id = run.add_process(NewProcess::default());
        let name_id = run.text_id("samples");
        for json in [r#""a\ud800""#, &format!("{}{}", "[".repeat(500), "]".repeat(500))] {
            let mut args = NewArgs::default();
            args.int("n", 5);
            args.json("what", json);
            let args = run.args(&mut args).unwrap();
            let sample = Sample::new(process_id, Assembler::ROOT, name_id, MetricValue::Int(1));
            run.add_sample(&Sample { args, ..sample }).unwrap();
        }
    });
    let (profile, left_out) = export_profile(&run);
    assert_eq!(left_out, LeftOut::from([("arguments that cannot be read", 1)]));
    let mut labels: Vec<usize> = profile.sample.iter().map(|sample| sample.label.len()).collect();
    labels.sort_unstable();
    assert_eq!(labels, [0, 2]);
    assert!(profile.string_table.iter().any(|text| text == "a\u{fffd}"));
}
