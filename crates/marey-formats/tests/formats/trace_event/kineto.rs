//! Traces of all versions of torch.profiler.

use marey_model::context::NodeKind;
use marey_store::row::{GpuActivity, Span};

use super::{import_events, lines};
use crate::dump::{dump, import_bytes, reader};

/// Imports a trace of an operator that launches a kernel, with members before and after its events.
fn times(before: &str, ts: &str, after: &str) -> Vec<String> {
    let event = format!(r#"{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts}}}"#);
    let trace = format!("{{{before}\"traceEvents\":[{event}]{after}}}");
    lines(&import_bytes(trace.as_bytes()).unwrap(), &["spans"])
}

#[test]
fn all_generations_keep_their_nanoseconds() {
    let cases = [
        // Integer microseconds since 1970.
        ("", r#"1669783687464181,"dur":32"#, "", "1669783687464181000+32000"),
        // Fractional microseconds.
        ("", r#"1712195495876224.8,"dur":0.5"#, "", "1712195495876224800+500"),
        // Relative to a base before or after the events.
        (
            r#""baseTimeNanoseconds":1711964646000000000,"#,
            r#"4458676522690.655,"dur":156.777"#,
            "",
            "1716423322522690655+156777",
        ),
        (
            "",
            r#"4458676522690.655,"dur":156.777"#,
            r#","displayTimeUnit":"ms","baseTimeNanoseconds":1711964646000000000"#,
            "1716423322522690655+156777",
        ),
        // Absolute times in spite of a base.
        (
            r#""baseTimeNanoseconds":1711964646000000000,"#,
            r#"1712195495876224.001,"dur":1"#,
            "",
            "1712195495876224001+1000",
        ),
    ];
    for (before, ts, after, expected) in cases {
        let expected = format!("spans {expected} children=0 p1/t1() /operator:a [cpu_op]");
        assert_eq!(times(before, ts, after), [expected]);
    }
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let forwards = br#"{"schemaVersion":1,"distributedInfo":{"rank":3},"traceEvents":[
        {"name":"process_name","ph":"M","pid":9,"tid":0,"args":{"name":"python"}},
        {"name":"thread_name","ph":"M","pid":9,"tid":10,"args":{"name":"main"}},
        {"ph":"X","cat":"cpu_op","name":"a","pid":9,"tid":10,"ts":1,"dur":2,"args":{"k":[1]}}],
        "baseTimeNanoseconds":1000,"traceName":"x"}"#;
    let backwards = br#"{"traceName":"x","baseTimeNanoseconds":1000,"traceEvents":[
        {"args":{"k":[1]},"dur":2,"ts":1,"tid":10,"pid":9,"name":"a","cat":"cpu_op","ph":"X"},
        {"args":{"name":"main"},"tid":10,"pid":9,"ph":"M","name":"thread_name"},
        {"args":{"name":"python"},"tid":0,"pid":9,"ph":"M","name":"process_name"}],
        "distributedInfo":{"rank":3},"schemaVersion":1}"#;
    let (forwards, backwards) = (import_bytes(forwards).unwrap(), import_bytes(backwards).unwrap());
    let expected = [
        r#"metadata p9 None distributedInfo={"rank":3}"#,
        "metadata p9 None schemaVersion=1",
        r#"metadata p9 None traceName="x""#,
        r#"process 9 rank=Some(3) host="" argv=[] name=Some("python") 2000..4000"#,
        r#"spans 2000+2000 children=0 p9/t10(main) /operator:a [cpu_op] {"k":[1]}"#,
        "thread p9/t10(main)",
    ];
    assert_eq!(lines(&forwards, &[""]), expected);
    assert_eq!(lines(&backwards, &[""]), expected);
}

#[test]
fn names_of_2021_mean_the_same() {
    let run = import_events(
        r#"{"ph":"X","cat":"Operator","name":"aten::add","pid":"25738","tid":"25738","ts":10,"dur":90,"args":{"external id":7,"Trace name":"PyTorch Profiler"}},
        {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":25738,"tid":"25738","ts":20,"dur":10,"args":{"cbid":211,"correlation":8,"external id":7}},
        {"ph":"s","id":8,"pid":25738,"tid":"25738","ts":20,"cat":"async","name":"launch"},
        {"ph":"X","cat":"Kernel","name":"k","pid":1,"tid":"stream 7","ts":40,"dur":5,"args":{"Device":1,"correlation":8,"external id":7}},
        {"ph":"f","id":8,"pid":1,"tid":"stream 7","ts":40,"cat":"async","name":"launch","bp":"e"},
        {"ph":"X","cat":"Memcpy","name":"c","pid":1,"tid":"stream 7","ts":50,"dur":5,"args":{"device":1,"stream":7,"correlation":9,"bytes":64}},
        {"ph":"X","cat":"Memset","name":"m","pid":1,"tid":"stream 7","ts":60,"dur":5,"args":{"stream":7}},
        {"ph":"i","name":"[memory]","s":"t","pid":25738,"tid":"25738","ts":30,"args":{"Device Type":1,"Device Id":0,"Bytes":512}}"#,
    );
    let expected = [
        r#"gpu_activities 40000+5000 p25738 device=1 stream=7 Kernel "k" at=Some("/operator:aten::add") correlation=8 external=7 graph_node=None grid=None block=None registers=None shared=None bytes=None [Kernel]"#,
        r#"gpu_activities 50000+5000 p25738 device=1 stream=7 Memcpy "c" at=None correlation=9 graph_node=None grid=None block=None registers=None shared=None bytes=Some(64) [Memcpy]"#,
        r#"gpu_activities 60000+5000 p25738 device=1 stream=7 Memset "m" at=None graph_node=None grid=None block=None registers=None shared=None bytes=None [Memset]"#,
        "loss unmatched_activities=1",
        r#"memory_events 30000 p25738 Some("p25738/t25738()") Alloc cuda device=Some(0) stream=None address=None bytes=512 allocated=None reserved=None at=Some("/operator:aten::add")"#,
        r#"process 25738 rank=None host="" argv=[] name=None 10000..100000"#,
        r#"spans 10000+90000 children=10000 p25738/t25738() /operator:aten::add external=7 [Operator] {"Trace name":"PyTorch Profiler"}"#,
        r#"spans 20000+10000 children=0 p25738/t25738() /operator:aten::add/runtime:cudaLaunchKernel correlation=8 external=7 [Runtime] {"cbid":211}"#,
        "thread p25738/t25738()",
    ];
    assert_eq!(lines(&run, &[""]), expected);
}

/// In 2021 steps and all other annotations were operators.
#[test]
fn steps_of_2021_are_steps() {
    let run = import_events(
        r#"{"ph":"X","cat":"Operator","name":"ProfilerStep#5","pid":9,"tid":"9","ts":10,"dur":50,"args":{"External id":1}},
        {"ph":"X","cat":"Operator","name":"aten::add","pid":9,"tid":"9","ts":20,"dur":10,"args":{"External id":2}},
        {"ph":"X","cat":"Operator","name":"ProfilerStep#6","pid":9,"tid":"9","ts":60,"dur":40,"args":{"External id":3}},
        {"ph":"X","cat":"Operator","name":"ProfilerStep#","pid":9,"tid":"9","ts":70,"dur":5,"args":{"External id":4}},
        {"ph":"X","cat":"cpu_op","name":"ProfilerStep#7","pid":9,"tid":"9","ts":80,"dur":5,"args":{"External id":5}}"#,
    );
    let expected = [
        "spans 10000+50000 children=10000 p9/t9() /step:step external=1 [Operator]",
        "spans 20000+10000 children=0 p9/t9() /step:step/operator:aten::add external=2 [Operator]",
        "spans 60000+40000 children=10000 p9/t9() /step:step external=3 [Operator]",
        "spans 70000+5000 children=0 p9/t9() /step:step/operator:ProfilerStep# external=4 [Operator]",
        "spans 80000+5000 children=0 p9/t9() /step:step/operator:ProfilerStep#7 external=5 [cpu_op]",
        "steps 10000+50000 p9/t9() /step:step 5",
        "steps 60000+40000 p9/t9() /step:step 6",
    ];
    assert_eq!(lines(&run, &["spans", "steps"]), expected);
}

/// Categories of host and device events in each vendor's profiler.
#[test]
fn categories_of_all_accelerators_are_known() {
    let host = [
        "cuda_runtime",
        "cuda_driver",
        "xpu_runtime",
        "xpu_driver",
        "mtia_runtime",
        "hpu_op",
        "privateuse1_runtime",
        "privateuse1_driver",
        "mlu_runtime",
        "gcu_runtime",
        "glow_runtime",
    ];
    let device = [
        ("kernel", "Kernel"),
        ("mtia_ccp_events", "Kernel"),
        ("gpu_memcpy", "Memcpy"),
        ("mlu_memcpy", "Memcpy"),
        ("gpu_memset", "Memset"),
        ("xpu_sync", "Sync"),
        ("gpu_user_annotation", "Annotation"),
        ("cuda_event", "Other"),
        // An unknown category on a stream of a device counts as computation.
        ("npu_task", "Kernel"),
    ];
    let mut events = Vec::new();
    for (ts, word) in (0..).step_by(10).zip(host) {
        events.push(format!(
            r#"{{"ph":"X","cat":"{word}","name":"call","pid":9,"tid":9,"ts":{ts},"dur":1,"args":{{"correlation":1}}}}"#
        ));
    }
    for (ts, (word, _)) in (0..).step_by(10).zip(device) {
        events.push(format!(
            r#"{{"ph":"X","cat":"{word}","name":"work","pid":0,"tid":7,"ts":{ts},"dur":1,"args":{{"device":0,"stream":7}}}}"#
        ));
    }
    // Without a device and a stream, an unknown category belongs to a thread.
    events.push(r#"{"ph":"X","cat":"npu_task","name":"scope","pid":9,"tid":9,"ts":900,"dur":1,"args":{"device":0}}"#.to_owned());
    let run = import_events(&events.join(","));
    let reader = reader(&run.run);
    let calls = reader.rows::<Span>().unwrap().map(Result::unwrap);
    let calls: Vec<_> = calls
        .map(|span| {
            (span.category_id.map(|id| reader.text(id)), reader.context(span.context_id).kind)
        })
        .collect();
    let expected = host.iter().map(|word| (Some(*word), NodeKind::Runtime));
    let expected: Vec<_> = expected.chain([(Some("npu_task"), NodeKind::Scope)]).collect();
    assert_eq!(calls, expected);
    let work = reader.rows::<GpuActivity>().unwrap().map(Result::unwrap);
    let work: Vec<_> = work
        .map(|row| (reader.text(row.category_id.unwrap()), format!("{:?}", row.kind)))
        .collect();
    let expected: Vec<_> = device.iter().map(|(word, kind)| (*word, (*kind).to_owned())).collect();
    assert_eq!(work, expected);
}

#[test]
fn launches_are_matched_by_correlation_id() {
    let run = import_events(
        r#"{"ph":"X","cat":"cpu_op","name":"replay","pid":9,"tid":9,"ts":0,"dur":50,"args":{"External id":2}},
        {"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":9,"tid":9,"ts":10,"dur":10,"args":{"External id":5,"cbid":311,"correlation":5}},
        {"ph":"s","id":5,"pid":9,"tid":9,"ts":10,"cat":"ac2g","name":"ac2g"},
        {"ph":"f","id":6,"pid":9,"tid":9,"ts":10,"cat":"ac2g","name":"ac2g","bp":"e"},
        {"ph":"X","cat":"kernel","name":"k1","pid":0,"tid":7,"ts":20,"dur":5,"args":{"External id":5,"device":0,"stream":7,"correlation":5,"graph node id":8589934593}},
        {"ph":"X","cat":"kernel","name":"k2","pid":0,"tid":7,"ts":25,"dur":5,"args":{"device":0,"stream":7,"correlation":5,"graph node id":8589934594}},
        {"ph":"X","cat":"kernel","name":"by operator","pid":0,"tid":7,"ts":30,"dur":5,"args":{"External id":2,"device":0,"stream":7,"correlation":77}}"#,
    );
    let at = r#"at=Some("/operator:replay")"#;
    let expected = [
        format!(
            r#"gpu_activities 20000+5000 p9 device=0 stream=7 Kernel "k1" {at} correlation=5 graph_node=Some(8589934593) grid=None block=None registers=None shared=None bytes=None [kernel]"#
        ),
        format!(
            r#"gpu_activities 25000+5000 p9 device=0 stream=7 Kernel "k2" {at} correlation=5 graph_node=Some(8589934594) grid=None block=None registers=None shared=None bytes=None [kernel]"#
        ),
        format!(
            r#"gpu_activities 30000+5000 p9 device=0 stream=7 Kernel "by operator" {at} correlation=77 external=2 graph_node=None grid=None block=None registers=None shared=None bytes=None [kernel]"#
        ),
    ];
    assert_eq!(lines(&run, &["gpu", "flows", "loss"]), expected);
}

#[test]
fn a_process_id_may_equal_a_device_number() {
    let run = import_events(
        r#"{"name":"process_name","ph":"M","pid":7,"tid":0,"args":{"name":"python"}},
        {"name":"process_labels","ph":"M","pid":7,"tid":0,"args":{"labels":"CPU"}},
        {"name":"process_sort_index","ph":"M","pid":7,"tid":0,"args":{"sort_index":7}},
        {"name":"process_name","ph":"M","pid":7,"tid":0,"args":{"name":"python"}},
        {"name":"process_labels","ph":"M","pid":7,"tid":0,"args":{"labels":"GPU 7"}},
        {"name":"process_sort_index","ph":"M","pid":7,"tid":0,"args":{"sort_index":5000007}},
        {"name":"process_name","ph":"M","pid":3,"tid":0,"args":{"name":"python"}},
        {"name":"process_labels","ph":"M","pid":3,"tid":0,"args":{"labels":"GPU 3"}},
        {"name":"thread_name","ph":"M","pid":7,"tid":20,"args":{"name":"stream 20 "}},
        {"name":"thread_name","ph":"M","pid":7,"tid":70,"args":{"name":"thread 70 (python)"}},
        {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":70,"ts":1,"dur":1,"args":{"correlation":1}},
        {"ph":"X","cat":"gpu_user_annotation","name":"fwd","pid":7,"tid":20,"ts":2,"dur":2},
        {"ph":"X","cat":"cuda_sync","name":"Stream Sync","pid":7,"tid":1000020,"ts":5,"dur":1},
        {"ph":"X","cat":"cuda_sync","name":"Context Sync","pid":7,"tid":-1,"ts":6,"dur":1,"args":{"stream":-1,"device":7}},
        {"ph":"X","cat":"kernel","name":"k","pid":7,"tid":20,"ts":3,"dur":1,"args":{"correlation":1}}"#,
    );
    let none = "graph_node=None grid=None block=None registers=None shared=None bytes=None";
    let expected = [
        format!(r#"gpu_activities 2000+2000 p7 device=7 stream=20 Annotation "fwd" at=None {none} [gpu_user_annotation]"#),
        format!(r#"gpu_activities 3000+1000 p7 device=7 stream=20 Kernel "k" at=Some("") correlation=1 {none} [kernel]"#),
        format!(r#"gpu_activities 5000+1000 p7 device=7 stream=20 Sync "Stream Sync" at=None {none} [cuda_sync]"#),
        format!(r#"gpu_activities 6000+1000 p7 device=7 stream=4294967295 Sync "Context Sync" at=None {none} [cuda_sync]"#),
        r#"metadata p7 None process_labels={"labels":"CPU"}"#.to_owned(),
        r#"metadata p7 None process_sort_index={"sort_index":7}"#.to_owned(),
        r#"process 7 rank=None host="" argv=[] name=Some("python") 1000..7000"#.to_owned(),
        "spans 1000+1000 children=0 p7/t70(thread 70 (python)) /runtime:cudaLaunchKernel correlation=1 [cuda_runtime]".to_owned(),
        "thread p7/t70(thread 70 (python))".to_owned(),
    ];
    assert_eq!(lines(&run, &[""]), expected);
}

#[test]
fn devices_may_come_before_their_process() {
    let run = import_events(
        r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":3,"dur":1,"args":{"device":0,"stream":7,"correlation":1}},
        {"ph":"X","cat":"cuda_runtime","name":"launch","pid":70,"tid":70,"ts":1,"dur":1,"args":{"correlation":1}}"#,
    );
    let expected = [
        r#"gpu_activities 3000+1000 p70 device=0 stream=7 Kernel "k" at=Some("") correlation=1 graph_node=None grid=None block=None registers=None shared=None bytes=None [kernel]"#,
        r#"process 70 rank=None host="" argv=[] name=None 1000..4000"#,
        "spans 1000+1000 children=0 p70/t70() /runtime:launch correlation=1 [cuda_runtime]",
        "thread p70/t70()",
    ];
    assert_eq!(lines(&run, &[""]), expected);
}

#[test]
fn kinds_follow_categories() {
    let run = import_events(
        r#"{"ph":"X","cat":"user_annotation","name":"ProfilerStep#12","pid":1,"tid":1,"ts":0,"dur":100,"args":{"External id":1}},
        {"ph":"X","cat":"python_function","name":"train.py(7): step","pid":1,"tid":1,"ts":1,"dur":90},
        {"ph":"X","cat":"python_function","name":"nn.Module: Linear_0","pid":1,"tid":1,"ts":2,"dur":80},
        {"ph":"X","cat":"user_annotation","name":"ProfilerStep#x","pid":1,"tid":1,"ts":3,"dur":70},
        {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":4,"dur":60},
        {"ph":"X","cat":"xpu_driver","name":"launch","pid":1,"tid":1,"ts":5,"dur":50,"args":{"correlation":4}},
        {"ph":"X","cat":"overhead","name":"Buffer Flush","pid":-1,"tid":0,"ts":6,"dur":1},
        {"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":0,"dur":100,"args":{"Op count":0}},
        {"ph":"X","name":"mine","pid":1,"tid":2,"ts":0,"dur":1,"cname":"good","args":{"correlation":4}}"#,
    );
    let path = "/step:step/frame:train.py(7): step/module:nn.Module: Linear_0/scope:ProfilerStep#x";
    let expected = [
        r#"spans 0+1000 children=0 p1/t2() /scope:mine {"cname":"good","correlation":4}"#.to_owned(),
        r#"spans 0+100000 children=0 p-2/t-3(PyTorch Profiler) /scope:PyTorch Profiler (0) [Trace] {"Op count":0}"#.to_owned(),
        "spans 0+100000 children=90000 p1/t1() /step:step external=1 [user_annotation]".to_owned(),
        "spans 1000+90000 children=80000 p1/t1() /step:step/frame:train.py(7): step [python_function]".to_owned(),
        "spans 2000+80000 children=70000 p1/t1() /step:step/frame:train.py(7): step/module:nn.Module: Linear_0 [python_function]".to_owned(),
        format!("spans 3000+70000 children=60000 p1/t1() {path} [user_annotation]"),
        format!("spans 4000+60000 children=50000 p1/t1() {path}/operator:aten::mm [cpu_op]"),
        format!("spans 5000+50000 children=0 p1/t1() {path}/operator:aten::mm/runtime:launch correlation=4 [xpu_driver]"),
        "spans 6000+1000 children=0 p-1/t0() /scope:Buffer Flush [overhead]".to_owned(),
        "steps 0+100000 p1/t1() /step:step 12".to_owned(),
    ];
    assert_eq!(lines(&run, &["spans", "steps", "loss"]), expected);
}

#[test]
fn kernels_have_columns_and_the_rest_in_arguments() {
    let run = import_events(
        r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":3,"dur":1.25,"args":{"External id":1,"queued":0,"device":1,"context":1,"stream":8,"correlation":2,"registers per thread":40,"shared memory":400,"blocks per SM":4.740741,"grid":[512, 1,1],"block":[64,2,1],"est. achieved occupancy %":75,"occupancy":{"limitingFactors":"REGS"},"bytes":18446744073709551615}},
        {"ph":"X","cat":"gpu_memcpy","name":"c","pid":0,"tid":7,"ts":5,"dur":1,"args":{"stream":"0x0","grid":[1,2],"bytes":4000,"memory bandwidth (GB/s)":"inf"}}"#,
    );
    let expected = [
        r#"gpu_activities 3000+1250 p-1 device=1 stream=8 Kernel "k" at=None correlation=2 external=1 graph_node=None grid=Some([512, 1, 1]) block=Some([64, 2, 1]) registers=Some(40) shared=Some(400) bytes=None [kernel] {"blocks per SM":4.740741,"bytes":18446744073709551615,"context":1,"est. achieved occupancy %":75,"occupancy":{"limitingFactors":"REGS"},"queued":0}"#,
        r#"gpu_activities 5000+1000 p-1 device=0 stream=7 Memcpy "c" at=None graph_node=None grid=None block=None registers=None shared=None bytes=Some(4000) [gpu_memcpy] {"grid":[1,2],"memory bandwidth (GB/s)":"inf","stream":"0x0"}"#,
    ];
    assert_eq!(lines(&run, &["gpu"]), expected);
}

#[test]
fn kernels_of_collectives_are_collectives() {
    let kernel = |ts: u32, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel","pid":0,"tid":9,"ts":{ts},"dur":10,"args":{{"device":0,"stream":9,{args}}}}}"#
        )
    };
    let run = import_events(&[
        kernel(1, r#""Collective name":"allreduce","Process Group Name":"0","Seq":41,"Group size":2,"dtype":"Float","In msg nelems":16,"Out msg nelems":16"#),
        kernel(20, r#""Collective name":"send","Process Group Name":"1""#),
    ].join(","));
    let expected = [
        r#"collectives 1000+Some(10000) created=None p-1 device=Some(0) stream=Some(9) "allreduce" group="0" ranks=None size=Some(2) sequence=Some(41) dtype=Some("Float") in=Some(16) out=Some(16) Completed p2p=false at=None"#,
        r#"collectives 20000+Some(10000) created=None p-1 device=Some(0) stream=Some(9) "send" group="1" ranks=None size=None sequence=None dtype=None in=None out=None Completed p2p=true at=None"#,
    ];
    assert_eq!(lines(&run, &["collectives"]), expected);
    let kernels = lines(&run, &["gpu"]);
    assert!(
        kernels[0].ends_with(r#""Process Group Name":"0","Seq":41,"dtype":"Float"}"#),
        "{kernels:?}"
    );
}

/// Returns the call of a collective as torch.profiler writes it.
fn call(external_id: u32, (ts, dur): (u32, u32), args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{"External id":{external_id},"Record function id":5,"Ev Idx":2,{args}}}}}"#
    )
}

/// Returns the kernel of a collective.
fn collective_kernel(external_id: &str, ts: u32) -> String {
    format!(
        r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel","pid":0,"tid":9,"ts":{ts},"dur":10,"args":{{{external_id}"device":0,"stream":9,"Collective name":"allreduce","Process Group Name":"0"}}}}"#
    )
}

const ALL_REDUCE: &str = r#""Collective name":"allreduce","dtype":"Float","In msg nelems":16,"Out msg nelems":16,"In split size":"[]","Out split size":"[]","Global rank start":0,"Global rank stride":1,"Group size":2,"Process Group Name":"0","Process Group Description":"default_pg","Process Group Ranks":"[0, 1]","Seq":7"#;

#[test]
fn calls_without_a_kernel_are_collectives() {
    let run = import_events(
        &[
            call(10, (1, 2), ALL_REDUCE),
            call(11, (20, 3), r#""Collective name":"send","Process Group Name":"0","dtype":"Int""#),
            // No collectives, and a version that describes none.
            call(12, (30, 1), r#""Collective name":"wait","Process Group Name":"0""#),
            call(13, (40, 1), r#""Collective name":"init","Process Group Name":"0""#),
            call(14, (50, 1), r#""Input Dims":[]"#),
        ]
        .join(","),
    );
    let expected = [
        r#"collectives 1000+Some(2000) created=Some(1000) p1 device=None stream=None "allreduce" group="0" ranks=Some("0-1") size=Some(2) sequence=Some(7) dtype=Some("Float") in=Some(16) out=Some(16) Scheduled p2p=false at=None"#,
        r#"collectives 20000+Some(3000) created=Some(20000) p1 device=None stream=None "send" group="0" ranks=None size=None sequence=None dtype=Some("Int") in=None out=None Scheduled p2p=true at=None"#,
    ];
    assert_eq!(lines(&run, &["collectives"]), expected);
}

#[test]
fn a_collective_with_a_call_and_a_kernel_is_one_row() {
    // The kernel comes before its call in the file, and belongs to the second of two.
    let events = [
        collective_kernel(r#""External id":11,"#, 60),
        call(10, (1, 2), ALL_REDUCE),
        call(11, (20, 2), ALL_REDUCE),
    ];
    let rows = lines(&import_events(&events.join(",")), &["collectives"]);
    let starts: Vec<_> = rows.iter().filter_map(|row| row.split(' ').nth(1)).collect();
    assert_eq!(starts, ["1000+Some(2000)", "60000+Some(10000)"]);
    // A kernel that does not name its call may be that of any.
    let events = [call(10, (1, 2), ALL_REDUCE), collective_kernel("", 60)];
    let rows = lines(&import_events(&events.join(",")), &["collectives"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].starts_with("collectives 60000+"), "{rows:?}");
}

#[test]
fn a_collective_that_is_made_of_others_counts_once() {
    let gather = call(10, (1, 20), r#""Collective name":"all_gather","Process Group Name":"0""#);
    let part = |id, ts| {
        call(id, (ts, 2), r#""Collective name":"_broadcast_oop","Process Group Name":"0""#)
    };
    let calls = [part(11, 5), part(12, 10), gather, part(13, 30)];
    let names = |events: &[String]| {
        let rows = lines(&import_events(&events.join(",")), &["collectives"]);
        rows.iter().map(|row| row.split('"').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&calls), ["all_gather", "_broadcast_oop"]);
    // The kernels are those of the parts.
    let kernels = [
        collective_kernel(r#""External id":11,"#, 40),
        collective_kernel(r#""External id":12,"#, 50),
    ];
    let events = [calls.as_slice(), kernels.as_slice()].concat();
    assert_eq!(names(&events), ["_broadcast_oop", "allreduce", "allreduce"]);
}

#[test]
fn memory_events_are_read() {
    let run = import_events(
        r#"{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":1,"args":{"Ev Idx":4,"Device Type":1,"Device Id":1,"Addr":139926520725504,"Bytes":5242880,"Total Allocated":5435638784,"Total Reserved":12782141440}},
        {"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":2,"args":{"Device Type":0,"Device Id":-1,"Addr":18446744073709551615,"Bytes":-64}},
        {"ph":"i","cat":"cpu_instant_event","s":"t","name":"[OutOfMemory]","pid":1,"tid":1,"ts":3,"args":{"Device Type":99,"Device Id":0,"Bytes":7}},
        {"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":4,"args":{"Bytes":"many"}}"#,
    );
    let expected = [
        r#"instants 4000 p1 Some("p1/t1()") Thread "[memory]" [cpu_instant_event] {"Bytes":"many"}"#,
        r#"memory_events 1000 p1 Some("p1/t1()") Alloc cuda device=Some(1) stream=None address=Some(139926520725504) bytes=5242880 allocated=Some(5435638784) reserved=Some(12782141440) at=None [cpu_instant_event] {"Ev Idx":4}"#,
        r#"memory_events 2000 p1 Some("p1/t1()") Free cpu device=None stream=None address=Some(18446744073709551615) bytes=64 allocated=None reserved=None at=None [cpu_instant_event]"#,
        r#"memory_events 3000 p1 Some("p1/t1()") OutOfMemory 99 device=Some(0) stream=None address=None bytes=7 allocated=None reserved=None at=None [cpu_instant_event]"#,
    ];
    assert_eq!(lines(&run, &["memory", "instants"]), expected);
}

#[test]
fn the_device_type_follows_from_the_properties() {
    let run = import_bytes(
        br#"{"deviceProperties":[{"id":0,"name":"NVIDIA A100","numSms":108},{"id":1,"name":"AMD Radeon"},
        {"name":"","maxSharedMemoryPerMultiProcessor":65536},{"id":3,"name":"Max","vendor":"Intel"},7],
        "host_name":"node3","traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":5,"tid":5,"ts":0,"dur":1}]}"#,
    )
    .unwrap();
    let expected = [
        r#"devices p5 CUDA 0 "NVIDIA A100" {"id":0,"name":"NVIDIA A100","numSms":108}"#,
        r#"devices p5 HIP 1 "AMD Radeon" {"id":1,"name":"AMD Radeon"}"#,
        r#"devices p5 HIP 2 "" {"name":"","maxSharedMemoryPerMultiProcessor":65536}"#,
        r#"devices p5 XPU 3 "Max" {"id":3,"name":"Max","vendor":"Intel"}"#,
        "loss unreadable_events=1",
        r#"metadata p5 None host_name="node3""#,
        r#"process 5 rank=None host="node3" argv=[] name=None 0..1000"#,
    ];
    assert_eq!(lines(&run, &["devices", "loss", "metadata", "process "]), expected);
}

#[test]
fn nearly_valid_json_is_read() {
    // Names of kernels with line breaks and unescaped backslashes, invalid numbers, a lone
    // surrogate, and bytes that are not UTF-8.
    let mut trace = br#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a\n\"b\"\ud800\u00e9","pid":1,"tid":1,"ts":1,"dur":1,"args":{"nan":nan,"list":[-inf,1e5],"path":"C:\Users","li
ne":"x","#.to_vec();
    trace.extend_from_slice(b"\"bytes\":\"\xff\xfe\",\"k\\\"ey\":\"\\u0041\"}}]}");
    let run = import_bytes(&trace).unwrap();
    let expected = [
        "spans 1000+1000 children=0 p1/t1() /operator:a",
        r#""b"�é [cpu_op] {"bytes":"��","k\"ey":"A","li\nne":"x","list":["-inf",100000.0],"nan":"nan","path":"C:\\Users"}"#,
    ];
    let dump = crate::dump::dump(&run.run);
    assert!(dump.contains(&expected.join("\n")), "{dump}");
    assert_eq!(run.imported.files[0].warnings, []);
}

#[test]
fn malformed_durations_are_kept() {
    let run = import_events(
        r#"{"ph":"X","cat":"cpu_op","name":"zero","pid":1,"tid":1,"ts":1,"dur":0},
        {"ph":"X","cat":"cpu_op","name":"negative","pid":1,"tid":1,"ts":2,"dur":-1.5},
        {"ph":"X","cat":"cpu_op","name":"missing","pid":1,"tid":1,"ts":3},
        {"ph":"X","cat":"cpu_op","name":"nan","pid":1,"tid":1,"ts":4,"dur":"nan"},
        {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":1,"ts":5,"dur":-1,"args":{"stream":1}}"#,
    );
    let expected = [
        r#"gpu_activities 5000+0 p1 device=0 stream=1 Kernel "k" at=None graph_node=None grid=None block=None registers=None shared=None bytes=None [kernel] {"dur":-1}"#,
        "spans 1000+0 children=0 p1/t1() /operator:zero [cpu_op]",
        r#"spans 2000+0 children=0 p1/t1() /operator:negative [cpu_op] {"dur":-1.5}"#,
        "spans 3000+0 children=0 p1/t1() /operator:missing open [cpu_op]",
        r#"spans 4000+0 children=0 p1/t1() /operator:nan open [cpu_op] {"dur":"nan"}"#,
    ];
    assert_eq!(lines(&run, &["spans", "gpu"]), expected);
}

#[test]
fn moved_process_ids_and_open_spans_are_restored() {
    let imported = import_bytes(
        br#"{"schemaVersion": 1, "traceEvents": [
            {"ph":"M","name":"process_name","pid":1000007,"tid":0,"ts":0,"args":{"name":"python","os_id":7}},
            {"ph":"X","cat":"cpu_op","name":"op","pid":1000007,"tid":7,"ts":1,"dur":2,"args":{"finished":"false"}}
        ]}"#,
    )
    .unwrap();
    let dumped = dump(&imported.run);
    assert!(dumped.contains("process 7 "), "{dumped}");
    assert!(dumped.contains("/operator:op open [cpu_op]\n"), "{dumped}");
}

#[test]
fn processes_may_have_separate_ranks() {
    let run = import_bytes(
        br#"{"distributedInfo":{"rank":0},"traceEvents":[
            {"ph":"M","name":"process_name","pid":1,"args":{"name":"a","rank":3}},
            {"ph":"M","name":"process_name","pid":2,"args":{"name":"b"}}]}"#,
    )
    .unwrap();
    let processes = lines(&run, &["process "]);
    assert!(processes[0].starts_with("process 1 rank=Some(3) "), "{processes:?}");
    assert!(processes[1].starts_with("process 2 rank=Some(0) "), "{processes:?}");
}
