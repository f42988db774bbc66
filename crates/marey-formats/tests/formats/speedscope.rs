//! Import and export of speedscope's JSON.

use marey_formats::{Format, ImportError, LeftOut, export};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{GpuActivity, Sample};
use marey_store::{Assembler, NewProcess, Run, Slice};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::build::{build_run, kernel, slice};
use crate::dump::{dump, export_bytes, import_bytes, import_data, reader};
use crate::faults::losses;

const MIXED: &str = include_str!("../data/speedscope/mixed.json");

#[test]
fn every_kind_of_profile_is_read() {
    let run = import_data("speedscope/mixed.json");
    assert_eq!(dump(&run.run), include_str!("../data/speedscope/mixed.txt"));
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let expected = dump(&import_bytes(MIXED.as_bytes()).unwrap().run);
    let mut file: Value = serde_json::from_str(MIXED).unwrap();
    // Sorted by key, `profiles` precede `shared`, `events` precede `unit`, and `samples` precede
    // `startValue`.
    let late = file.to_string();
    assert!(late.find("\"profiles\"") < late.find("\"shared\""));
    let shared = file["shared"].take();
    file.as_object_mut().unwrap().remove("shared");
    let early = format!("{{\"shared\":{shared},{}", &file.to_string()[1..]);
    for content in [late, early, format!("\u{feff}{MIXED}")] {
        assert_eq!(dump(&import_bytes(content.as_bytes()).unwrap().run), expected);
    }
}

#[test]
fn times_are_exact_to_the_nanosecond() {
    for (unit, at) in [
        ("nanoseconds", "1700000000123456789"),
        ("microseconds", "1700000000123456.789"),
        ("milliseconds", "1700000000123.456789"),
        ("seconds", "1700000000.123456789"),
    ] {
        let run = import_bytes(one_span(unit, at, at).as_bytes()).unwrap();
        let text = dump(&run.run);
        assert!(text.contains("spans 1700000000123456789+0 "), "{text}");
    }
}

fn one_span(unit: &str, start: &str, end: &str) -> String {
    format!(
        r#"{{"$schema":"","shared":{{"frames":[{{"name":"f"}},{{"name":"g"}}]}},"profiles":[{{
        "type":"evented","name":"t","unit":"{unit}","startValue":0,"endValue":0,"events":[
        {{"type":"O","frame":0,"at":{start}}},{{"type":"C","frame":0,"at":{end}}}]}}]}}"#
    )
}

fn events(events: &str) -> String {
    one_span("nanoseconds", "5", "9").replace(r#"{"type":"C","frame":0,"at":9}"#, events)
}

fn sampled(unit: &str, samples: &str, weights: &str) -> String {
    format!(
        r#"{{"$schema":"","shared":{{"frames":[{{"name":"f"}},{{"name":"g"}}]}},"profiles":[{{
        "type":"sampled","name":"t","unit":"{unit}","startValue":0,"endValue":0,
        "samples":{samples},"weights":{weights}}}]}}"#
    )
}

#[test]
fn unusable_content_is_counted() {
    let cases = [
        (
            events(r#"{"type":"C","frame":1,"at":9}"#),
            "unmatched_exits 1 frame 1 is closed but is not open",
        ),
        (
            events(r#"{"type":"O","frame":1,"at":6},{"type":"C","frame":0,"at":9}"#),
            "unclosed_scopes 1 frame 0 is closed before a frame inside it",
        ),
        (
            events(r#"{"type":"C","frame":0,"at":4}"#),
            "unreadable_events 1 an event is earlier than the event before it, and is moved to \
            that time",
        ),
        (events(r#"{"type":"C","frame":7,"at":9}"#), "unreadable_events 1 there is no frame 7"),
        (
            events(r#"{"type":"X","frame":0,"at":9}"#),
            "unreadable_events 1 an event has no valid type, frame or position",
        ),
        (events("null"), "unreadable_events 1 an event has no valid type, frame or position"),
        (
            events(r#"{"type":"C","frame":0,"at":1e30}"#),
            "unreadable_events 1 an event has the invalid position `1e30`",
        ),
        (
            events(r#"{"type":"C","frame":0,"at":"9"}"#),
            "unreadable_events 1 an event has the invalid position `\"9\"`",
        ),
        (
            sampled("none", "[[0],[9],[1]]", "[1,2,3]"),
            "unreadable_events 1 a sample is not a list of existing frames",
        ),
        (
            sampled("none", "[[0],null,[1]]", "[1,2,3]"),
            "unreadable_events 1 a sample is not a list of existing frames",
        ),
        (sampled("none", "[[0],[1]]", "[1]"), "unreadable_events 1 a sample has no weight"),
        (sampled("none", "[[0]]", "[1,2,3]"), "unreadable_events 2 a weight without a sample"),
        (
            sampled("none", "[[0],[1]]", "[1,\"2\"]"),
            "unreadable_events 1 a weight is not a valid number of its unit",
        ),
        (
            sampled("seconds", "[[0],[1]]", "[1,1e11]"),
            "unreadable_events 1 a weight is not a valid number of its unit",
        ),
        (
            sampled("none", "[[0]]", "[1]").replace(r#"{"name":"g"}"#, r#"{"file":"g"}"#),
            "unreadable_events 1 a frame has no name, or an invalid file, line or column",
        ),
        (
            sampled("none", "[[0]]", "[1]").replace(r#""endValue":0"#, r#""endValue":"0""#),
            "unreadable_events 1 `endValue` of a profile is not a valid number of its unit",
        ),
        (
            sampled("none", "[[0]]", "[1]").replace(r#""name":"t""#, r#""name":7"#),
            "unreadable_events 1 the name of a profile is malformed",
        ),
    ];
    for (content, loss) in cases {
        let run =
            import_bytes(content.as_bytes()).unwrap_or_else(|error| panic!("{error}: {content}"));
        assert_eq!(losses(&run), [loss], "{content}");
        assert!(run.imported.events > 0, "{content}");
    }
}

#[test]
fn open_frames_end_with_the_last_event() {
    let run = import_bytes(events(r#"{"type":"O","frame":1,"at":8}"#).as_bytes()).unwrap();
    let text = dump(&run.run);
    assert!(text.contains("spans 5+3 children=0 p-1/t-1(t) /frame:f open\n"), "{text}");
    assert!(text.contains("spans 8+0 children=0 p-1/t-1(t) /frame:g open\n"), "{text}");
}

#[test]
fn errors_report_their_position() {
    let cases: [(&str, &str); 8] = [
        (r#"{"$schema":"#, "byte 11: EOF while parsing a value"),
        (r#"{"$schema":1,"profiles":[{"events":[}]}]}"#, "byte 37: expected value"),
        (
            r#"{"$schema":1,"shared":{"frames":[]},"profiles":7}"#,
            "byte 49: invalid type: integer `7`, expected a list of profiles",
        ),
        (
            r#"{"$schema":1,"shared":{"frames":[]},"profiles":[7]}"#,
            "byte 51: invalid type: integer `7`, expected a profile",
        ),
        (
            r#"{"$schema":1,"profiles":[{"samples":{}}],"shared":{"frames":[]}}"#,
            "byte 64: invalid type: map, expected a list",
        ),
        (r#"{"$schema":1,"profiles":[]} x"#, "byte 29: trailing characters"),
        (
            r#"{"$schema":1,"shared":{"frames":[{"name":"f"}]},"profiles":[{"events":[{"type":"O""#,
            "byte 82: EOF while parsing an object",
        ),
        (
            "{\"$schema\":\"\n\"}",
            "byte 14: control character (\\u0000-\\u001F) found while parsing a string",
        ),
    ];
    for (content, expected) in cases {
        match import_bytes(content.as_bytes()) {
            Err(ImportError::Unusable { format, fault, .. }) => {
                assert_eq!(
                    (format, &*fault.to_string()),
                    (Format::Speedscope, expected),
                    "{content}"
                );
            }
            other => panic!("{content}: {other:?}"),
        }
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for member in [r#""$schema":"""#, r#""name":"g""#, r#""startValue":0"#, r#""at":9"#] {
        let (key, _) = member.split_once(':').unwrap();
        let content = one_span("none", "5", "9").replace(member, &format!("{key}:{deep}"));
        let run = import_bytes(content.as_bytes()).unwrap();
        let (bytes, _) = export_bytes(&run.run, Format::Json);
        assert!(bytes.ends_with(b"}\n"));
    }
    let stack: Vec<u32> = (0..5000).map(|n| n % 2).collect();
    let content = sampled("none", &format!("[{stack:?}]"), "[1]");
    let run = import_bytes(content.as_bytes()).unwrap();
    let (bytes, _) = export_bytes(&run.run, Format::Speedscope);
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(file["profiles"][0]["samples"][0].as_array().unwrap().len(), 5000);
}

#[test]
fn truncated_and_damaged_files_never_panic() {
    let small = one_span("seconds", "1.5", "2e0");
    for end in 0..small.len() {
        let _any = import_bytes(&small.as_bytes()[..end]);
    }
    let cut = MIXED.find("20.5}").unwrap();
    let run = import_bytes(&MIXED.as_bytes()[..cut]).unwrap();
    assert_eq!(run.imported.files[0].warnings[0].loss.as_str(), "truncated_files");
    assert!(dump(&run.run).contains("/frame:main open\n"));
    let mut state = 1_u64;
    for _ in 0..60 {
        let mut bytes = serde_json::from_str::<Value>(MIXED).unwrap().to_string().into_bytes();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (state >> 33) as usize % bytes.len();
            bytes[index] ^= 1 << (state >> 60 & 7);
        }
        let _any = import_bytes(&bytes);
    }
}

/// Exports a run, checks the file and imports it again.
fn round_trip(run: &Run) -> (Value, String) {
    let (bytes, _) = export_bytes(run, Format::Speedscope);
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    check(&file);
    (file, dump(&import_bytes(&bytes).unwrap().run))
}

/// Checks that a file satisfies the schema and speedscope's own reader.
fn check(file: &Value) {
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().unwrap();
    for frame in frames {
        assert!(frame["name"].is_string());
    }
    let frame = |number: &Value| assert!(number.as_u64().unwrap() < frames.len() as u64);
    for profile in file["profiles"].as_array().unwrap() {
        assert!(profile["name"].is_string() && profile["unit"].is_string());
        assert!(profile["startValue"].is_number() && profile["endValue"].is_number());
        if profile["type"] == "sampled" {
            let (samples, weights) = (&profile["samples"], &profile["weights"]);
            assert_eq!(samples.as_array().unwrap().len(), weights.as_array().unwrap().len());
            samples.as_array().unwrap().iter().flat_map(|s| s.as_array().unwrap()).for_each(frame);
            assert!(
                weights.as_array().unwrap().iter().all(|weight| weight.as_f64().unwrap() >= 0.0)
            );
            continue;
        }
        assert_eq!(profile["type"], "evented");
        let (mut open, mut last) = (Vec::new(), profile["startValue"].as_i64().unwrap());
        for event in profile["events"].as_array().unwrap() {
            frame(&event["frame"]);
            let time = event["at"].as_i64().unwrap();
            assert!(time >= last);
            last = time;
            match event["type"].as_str().unwrap() {
                "O" => open.push(&event["frame"]),
                "C" => assert_eq!(open.pop(), Some(&event["frame"])),
                other => panic!("{other}"),
            }
        }
        assert!(open.is_empty() && profile["endValue"].as_i64().unwrap() >= last);
    }
}

/// Removes the order of profiles from a dump, since sampled profiles come last in a file.
fn unordered(dump: &str) -> String {
    let mut lines: Vec<String> = dump
        .lines()
        .filter(|line| !line.contains("activeProfileIndex=") && !line.contains(" exporter="))
        .map(|line| {
            let thread = |number: u32| format!("/t-{number}(");
            (1..20).fold(line.to_owned(), |line, number| line.replace(&thread(number), "/t("))
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn every_file_survives_a_round_trip() {
    let run = import_data("speedscope/mixed.json");
    let (file, dumped) = round_trip(&run.run);
    assert_eq!(unordered(&dumped), unordered(&dump(&run.run)));
    let frames = &serde_json::from_str::<Value>(MIXED).unwrap()["shared"]["frames"];
    assert_eq!(&file["shared"]["frames"], frames);
    assert_eq!(file["name"], "a \"mixed\" file");
    let names: Vec<_> = file["profiles"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["MainThread", "worker", "", "steps"]);
    assert_eq!(file["activeProfileIndex"], 1);
}

fn frames() -> impl Strategy<Value = Vec<Value>> {
    let name = prop_oneof!["[ab]", ".{0,6}", Just("f\"\\\n\u{0};(x:1)".to_owned())];
    let file = prop::option::of("[a-c]\\.py");
    let frame = (name, file, prop::option::of(0..3_u32), prop::option::of(0..2_u32)).prop_map(
        |(name, file, line, col)| {
            let mut frame = json!({ "name": name });
            for (key, value) in [("file", json!(file)), ("line", json!(line)), ("col", json!(col))]
            {
                if !value.is_null() {
                    frame[key] = value;
                }
            }
            frame
        },
    );
    prop::collection::vec(frame, 1..8).prop_map(|mut frames| {
        // Duplicate frames are merged.
        let mut seen = std::collections::HashSet::new();
        frames.retain(|frame| seen.insert(frame.to_string()));
        frames
    })
}

fn profile() -> impl Strategy<Value = Value> {
    let unit =
        prop::sample::select(vec!["nanoseconds", "microseconds", "seconds", "none", "bytes"]);
    let name = prop_oneof!["t[0-9]", ".{0,4}"];
    let start = prop_oneof![Just(0_i64), -5_i64..1000, Just(1_700_000_000_i64)];
    let steps = prop::collection::vec((any::<Option<prop::sample::Index>>(), 0_i64..4), 0..30);
    (any::<bool>(), unit, name, start, steps).prop_map(|(is_evented, unit, name, start, steps)| {
        let mut time = start;
        let mut open: Vec<usize> = Vec::new();
        let (mut events, mut samples, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (frame, after) in steps {
            time += after;
            samples.push(json!(open));
            weights.push(json!(after));
            match (frame, open.pop()) {
                (Some(frame), top) => {
                    open.extend(top);
                    let frame = frame.index(8);
                    events.push(json!({"type": "O", "frame": frame, "at": time}));
                    open.push(frame);
                }
                (None, Some(frame)) => {
                    events.push(json!({"type": "C", "frame": frame, "at": time}));
                }
                (None, None) => {}
            }
        }
        while let Some(frame) = open.pop() {
            events.push(json!({"type": "C", "frame": frame, "at": time}));
        }
        let mut profile =
            json!({"name": name, "unit": unit, "startValue": start, "endValue": time + 1});
        if is_evented {
            profile["type"] = json!("evented");
            profile["events"] = json!(events);
        } else {
            profile["type"] = json!("sampled");
            profile["samples"] = json!(samples);
            profile["weights"] = json!(weights);
        }
        profile
    })
}

/// Replaces indices beyond the list of frames by the last one.
fn clamp(profile: &mut Value, count: usize) {
    let clamp = |frame: &mut Value| *frame = json!(frame.as_u64().unwrap().min(count as u64 - 1));
    if let Some(events) = profile.get_mut("events").and_then(Value::as_array_mut) {
        for event in events.iter_mut() {
            clamp(&mut event["frame"]);
        }
    }
    if let Some(samples) = profile.get_mut("samples").and_then(Value::as_array_mut) {
        samples.iter_mut().flat_map(|stack| stack.as_array_mut().unwrap()).for_each(clamp);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_file_survives_a_round_trip(
        frames in frames(),
        mut profiles in prop::collection::vec(profile(), 1..5),
    ) {
        for profile in &mut profiles {
            clamp(profile, frames.len());
        }
        let schema = "https://www.speedscope.app/file-format-schema.json";
        let file = json!({"$schema": schema, "shared": {"frames": frames}, "profiles": profiles});
        let first = import_bytes(file.to_string().as_bytes()).unwrap();
        prop_assert!(first.imported.files[0].warnings.is_empty());
        let (exported, dumped) = round_trip(&first.run);
        prop_assert_eq!(unordered(&dumped), unordered(&dump(&first.run)));
        // Labels of frames depend on the list only.
        let (same, _) = round_trip(&import_bytes(exported.to_string().as_bytes()).unwrap().run);
        prop_assert_eq!(same, exported);
    }

    #[test]
    fn spans_nest_or_go_to_another_profile(
        spans in prop::collection::vec((0_u32..3, 0_i64..50, 0_i64..20), 1..40),
        offset in prop_oneof![Just(0_i64), Just(1_700_000_000_000_000_000)],
    ) {
        let (_folder, run) = build_run(|run| {
            let process = run.add_process(NewProcess { pid: 7, ..NewProcess::default() });
            let threads: Vec<u32> = (0..3).map(|n| run.add_thread(process, n, "")).collect();
            let name_id = run.text_id("span");
            for (order, &(thread, start, duration_nanos)) in spans.iter().enumerate() {
                let start_nanos = start + offset;
                let slice = slice(threads[thread as usize], name_id, start_nanos, duration_nanos);
                run.add_slice(&Slice { order: order as u64, ..slice }).unwrap();
                let kernel = kernel(process, name_id, start_nanos, duration_nanos);
                run.add_gpu_activity(&GpuActivity { stream: thread, ..kernel }).unwrap();
            }
        });
        let mut out = Vec::new();
        let left_out = export(&reader(&run), Format::Speedscope, &mut out).unwrap();
        let file: Value = serde_json::from_slice(&out).unwrap();
        check(&file);
        let base = file["marey"]["base_nanos"].as_i64().unwrap_or(0);
        prop_assert_eq!(base != 0, offset != 0);
        let mut found: Vec<i64> = Vec::new();
        for profile in file["profiles"].as_array().unwrap() {
            let opened = profile["events"].as_array().unwrap().iter().filter(|e| e["type"] == "O");
            found.extend(opened.map(|event| event["at"].as_i64().unwrap() + base));
        }
        let overlapping = left_out.get("overlapping spans").copied().unwrap_or(0);
        prop_assert_eq!(found.len() as u64 + overlapping, 2 * spans.len() as u64);
        prop_assert_eq!(overlapping, 0);
        let mut expected: Vec<i64> = spans.iter().flat_map(|span| [span.1 + offset; 2]).collect();
        expected.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn threads_streams_and_values_are_profiles() {
    let (_folder, run) = build_run(|run| {
        let (name_id, cpu) = (run.text_id("kernel"), run.text_id("cpu (ns)"));
        for rank in 0..2 {
            let process =
                run.add_process(NewProcess { pid: 7, rank: Some(rank), ..NewProcess::default() });
            let thread = run.add_thread(process, 70, "");
            run.add_slice(&slice(thread, name_id, 10, 5)).unwrap();
            // Two overlapping activities on one stream, and too many on another.
            let starts = (0..10).map(|start| (2, 100 + start, 50));
            for (stream, start, duration) in [(1, 20, 10), (1, 25, 10)].into_iter().chain(starts) {
                let kernel = kernel(process, name_id, start, duration);
                run.add_gpu_activity(&GpuActivity { stream, ..kernel }).unwrap();
            }
            let context_id = run.context_id(Assembler::ROOT, NodeKind::Frame, name_id);
            for value in [
                MetricValue::Int(3),
                MetricValue::Float(0.5),
                MetricValue::Float(f64::NAN),
                MetricValue::Int(-1),
                MetricValue::Text("x".into()),
            ] {
                run.add_sample(&Sample::new(process, context_id, cpu, value)).unwrap();
            }
        }
    });
    let (bytes, left_out) = export_bytes(&run, Format::Speedscope);
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    check(&file);
    let profiles = file["profiles"].as_array().unwrap();
    let mut names: Vec<_> =
        profiles.iter().filter_map(|profile| profile["name"].as_str()).collect();
    names.retain(|name| !name.contains("stream 2 (overlap"));
    assert_eq!(
        names,
        [
            "rank 0, thread 70",
            "rank 1, thread 70",
            "rank 0, device 0 stream 1",
            "rank 0, device 0 stream 1 (overlap 1)",
            "rank 0, device 0 stream 2",
            "rank 1, device 0 stream 1",
            "rank 1, device 0 stream 1 (overlap 1)",
            "rank 1, device 0 stream 2",
            "rank 0, cpu (ns)",
            "rank 1, cpu (ns)",
        ]
    );
    let left_out: Vec<_> = left_out.into_iter().collect();
    assert_eq!(left_out, [("overlapping spans", 4), ("values that are not weights", 6)]);
    assert_eq!(profiles.last().unwrap()["weights"], json!([3, 0.5]));
    assert_eq!(profiles.last().unwrap()["unit"], "nanoseconds");
}

#[test]
fn interleaved_streams_are_complete_and_in_order() {
    let (streams, per_stream) = (100_u32, 20_i64);
    let (_folder, run) = build_run(|run| {
        let name_id = run.text_id("kernel");
        let process = run.add_process(NewProcess::default());
        for start in 0..per_stream {
            for stream in 0..streams {
                let kernel = kernel(process, name_id, start, 1);
                run.add_gpu_activity(&GpuActivity { stream, ..kernel }).unwrap();
            }
        }
    });
    let (bytes, left_out) = export_bytes(&run, Format::Speedscope);
    assert_eq!(left_out, LeftOut::new());
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    let profiles = file["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), streams as usize);
    for profile in profiles {
        let events = profile["events"].as_array().unwrap();
        let opened = events.iter().filter(|event| event["type"] == "O");
        assert!(opened.map(|event| event["at"].as_i64().unwrap()).eq(0..per_stream));
    }
}

#[test]
fn activities_without_a_stream_are_titled_by_their_device() {
    let content = r#"[{"ph":"X","cat":"cuda_sync","name":"Context Sync","pid":7,"tid":-1,"ts":6,
        "dur":1,"args":{"stream":-1,"device":7}}]"#;
    let (bytes, _) =
        export_bytes(&import_bytes(content.as_bytes()).unwrap().run, Format::Speedscope);
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(file["profiles"][0]["name"], "device 7");
}

#[test]
fn the_depth_of_stacks_is_limited() {
    let frames = "0,".repeat(10_000);
    let samples = format!("[[{frames}0],[{}]]", frames.trim_end_matches(','));
    let run = import_bytes(sampled("none", &samples, "[1,1]").as_bytes()).unwrap();
    assert_eq!(losses(&run), ["unsupported_events 1 the stack has more than 10000 frames"]);

    for unit in ["none", "nanoseconds"] {
        // One too many, together with the open one.
        let open = r#"{"type":"O","frame":0,"at":5},"#.repeat(10_000);
        let close = r#",{"type":"C","frame":0,"at":9}"#.repeat(10_000);
        let all = format!(r#"{open}{{"type":"C","frame":0,"at":9}}{close}"#);
        let content = one_span(unit, "5", "9").replace(r#"{"type":"C","frame":0,"at":9}"#, &all);
        let run = import_bytes(content.as_bytes()).unwrap();
        assert_eq!(losses(&run), ["unsupported_events 1 a frame is inside 10000 other frames"]);
        // Spans, or the intervals from 0 to 5 and from 5 to 9.
        assert_eq!(run.imported.events, if unit == "none" { 2 } else { 10_000 });
    }
}
