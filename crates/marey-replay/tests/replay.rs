//! Tests of the double as seen by a profiler: callbacks, records, losses and scripted failures.

mod client;

use client::{
    Client, KERNEL, Record, calls, cuptiActivityEnable, cuptiGetGraphExecId, cuptiGetGraphId,
    cuptiGetGraphNodeId, cuptiGetTimestamp, cuptiGetVersion, cuptiUnsubscribe, load, play,
    replay_run, text_at,
};

const COPY: u32 = 1;
const SET: u32 = 2;
const DRIVER: u32 = 4;
const RUNTIME: u32 = 5;
const SYNCHRONIZATION: u32 = 38;
const EXTERNAL: u32 = 39;
const GRAPH: u32 = 51;

/// Returns start and end of a kernel.
fn span(kernel: &Record) -> (u64, u64) {
    (kernel.long(16), kernel.long(24))
}

/// Returns the correlation ids of kernels.
fn correlations(records: &[Record]) -> Vec<u32> {
    records.iter().map(|record| record.word(92)).collect()
}

#[test]
fn records_have_the_sizes_and_fields_of_their_version() {
    let sizes = [
        (26, [208, 96, 88, 56]),
        (28, [208, 96, 88, 56]),
        (130_001, [216, 96, 88, 56]),
        (130_500, [248, 112, 104, 56]),
    ];
    for (version, sizes) in sizes {
        let script = format!(
            r#"version {version}
            launch "gemm<float>" grid 4,2 block 128 registers 40 shared 1024 duration 500
            copy to-device 4096 from pageable duration 90
            set 64 value 7 duration 5
            synchronize stream"#
        );
        let client = Client::new(&script, &[KERNEL, COPY, SET, SYNCHRONIZATION]);
        let mut reported = 0;
        cuptiGetVersion(&mut reported);
        assert_eq!(reported, version);
        let records = client.play();
        let found: Vec<_> =
            records.iter().map(|record| (record.kind(), record.bytes.len())).collect();
        let kinds = [KERNEL, COPY, SET, SYNCHRONIZATION];
        assert_eq!(found, kinds.into_iter().zip(sizes).collect::<Vec<_>>());

        let [kernel, copy, set, wait] = &records[..] else { unreachable!() };
        assert_eq!(kernel.text(104), "gemm<float>");
        // The clock starts at one second; a call takes a microsecond of host time.
        assert_eq!(span(kernel), (1_000_001_000, 1_000_001_500));
        assert_eq!([52, 56, 60, 64, 80].map(|at| kernel.word(at)), [4, 2, 1, 128, 1024]);
        assert_eq!([40, 44, 48, 92].map(|at| kernel.word(at)), [0, 1, 7, 1]);
        assert_eq!(kernel.word(4) >> 16, 40);
        assert_eq!((copy.bytes[4], copy.bytes[5], copy.bytes[6]), (1, 1, 3));
        assert_eq!((copy.long(8), copy.long(24) - copy.long(16), copy.word(44)), (4096, 90, 2));
        assert_eq!((set.word(4), set.long(8), set.word(44)), (7, 64, 3));
        assert_eq!((wait.word(4), wait.word(24), wait.word(32)), (3, 4, 7));
    }
}

#[test]
fn callbacks_precede_and_follow_the_record_of_a_call() {
    let client = Client::new("launch k\nlaunch k", &[KERNEL]);
    let records = client.play();
    let expected = [(1, 307, 0, 1), (1, 307, 1, 1), (1, 307, 0, 2), (1, 307, 1, 2)];
    assert_eq!(client.calls(), expected);
    assert_eq!(correlations(&records), [1, 2]);
}

#[test]
fn the_runtime_calls_the_driver_under_one_id() {
    let client = Client::new("api runtime\nlaunch k", &[KERNEL, DRIVER, RUNTIME]);
    let records = client.play();
    let expected = [(2, 211, 0, 1), (1, 307, 0, 1), (1, 307, 1, 1), (2, 211, 1, 1)];
    assert_eq!(client.calls(), expected);
    let calls: Vec<_> = records[1..].iter().map(|r| (r.kind(), r.word(4), r.word(32))).collect();
    assert_eq!(calls, [(DRIVER, 307, 1), (RUNTIME, 211, 1)]);
    assert_eq!((records[1].long(8), records[1].long(16)), (1_000_000_000, 1_000_001_000));
}

#[test]
fn with_separate_ids_the_runtimes_call_has_its_own() {
    let script = "ids separate\napi runtime\npush 3 77\nlaunch k\npop 3\nlaunch k";
    let client = Client::new(script, &[KERNEL, DRIVER, RUNTIME, EXTERNAL]);
    let records = client.play();
    let callbacks = client.callbacks();
    let ids: Vec<_> = callbacks.iter().map(|t| (t.domain, t.site, t.correlation)).collect();
    assert_eq!(ids[..4], [(2, 0, 1), (1, 0, 2), (1, 1, 2), (2, 1, 1)]);
    let word = |kind: u32, offset: usize| {
        let records = records.iter().filter(move |record| record.kind() == kind);
        records.map(|record| record.word(offset)).collect::<Vec<_>>()
    };
    assert_eq!(word(KERNEL, 92), [2, 4]);
    assert_eq!((word(DRIVER, 32), word(RUNTIME, 32)), (vec![2, 4], vec![1, 3]));
    assert_eq!(word(EXTERNAL, 16), [2, 1]);
}

#[test]
fn a_single_call_has_a_record_for_each_operation() {
    let script = "
        devices 2
        single-call {
            launch a
            launch b device 1
        }
        single-call {
            copy to-device 10
            copy to-device 20
        }
        launch c";
    let client = Client::new(script, &[KERNEL, COPY]);
    let records = client.play();
    let of_kernels =
        [&records[0], &records[1], &records[4]].map(|k| (k.text(104), k.word(40), k.word(92)));
    assert_eq!(
        of_kernels,
        [("a", 0, 1), ("b", 1, 1), ("c", 0, 3)].map(|(n, d, c)| (n.to_owned(), d, c))
    );
    assert_eq!([&records[2], &records[3]].map(|c| (c.long(8), c.word(44))), [(10, 2), (20, 2)]);
    let callbacks = client.callbacks();
    let entries: Vec<_> = callbacks.iter().filter(|t| t.site == 0).map(|t| t.cbid).collect();
    assert_eq!(entries, [480, 277, 307]);
}

#[test]
fn temporary_names_end_with_the_callback_and_with_the_buffer() {
    for delivery in ["inline", "worker"] {
        let script = format!("delivery {delivery}\nnames temporary\nlaunch gemm\nlaunch gemm");
        let client = Client::new(&script, &[KERNEL]);
        let records = client.play();
        for kernel in &records {
            assert_eq!((kernel.name.as_str(), kernel.text(104).as_str()), ("gemm", "????"));
        }
        assert_eq!(records.len(), 2);
        for callback in client.callbacks() {
            let (address, text) = callback.symbol;
            assert_eq!((text.as_str(), text_at(address).as_str()), ("gemm", "????"));
        }
    }
}

#[test]
fn external_correlation_records_precede_the_call() {
    let script = "push 3 77\npush 4 5\npush 3 78\nlaunch k\npop 3\npop 3\npop 4\nlaunch k";
    let client = Client::new(script, &[DRIVER, EXTERNAL]);
    let records = client.play();
    let kinds: Vec<_> = records.iter().map(Record::kind).collect();
    assert_eq!(kinds, [EXTERNAL, EXTERNAL, DRIVER, DRIVER]);
    let mut ids = [&records[0], &records[1]].map(|r| (r.word(4), r.long(8), r.word(16)));
    ids.sort_unstable();
    assert_eq!(ids, [(3, 78, 1), (4, 5, 1)]);
}

#[test]
fn the_script_determines_correlation_ids() {
    let script = "
        launch k correlation 9
        launch k correlation 9
        launch k
        launch k uncalled 4000
        correlation 4294967295
        launch k
        launch k";
    let client = Client::new(script, &[KERNEL]);
    assert_eq!(correlations(&client.play()), [9, 9, 1, 4000, u32::MAX, 0]);
    assert_eq!(client.callbacks().len(), 2 * 5);
}

#[test]
fn records_come_in_the_order_of_the_script() {
    let launches = "repeat 5 {\nlaunch k\n}";
    let played = |order: &str| {
        let client = Client::new(&format!("{order}\n{launches}"), &[KERNEL]);
        correlations(&client.play())
    };
    assert_eq!(played(""), [1, 2, 3, 4, 5]);
    assert_eq!(played("order reversed 3"), [3, 2, 1, 5, 4]);
    let shuffled = played("order shuffled 5 42");
    assert_ne!(shuffled, [1, 2, 3, 4, 5]);
    assert_eq!(shuffled, played("order shuffled 5 42"));
}

#[test]
fn held_records_arrive_with_a_flush() {
    let client = Client::new("order held\nrepeat 100 {\nlaunch k\n}", &[KERNEL]);
    client.provide_buffers(None);
    replay_run();
    assert_eq!(client.dropped(), 0);
    client.provide_buffers(Some(4096));
    assert_eq!(client.flush(0).len(), 100);
}

#[test]
fn records_without_a_buffer_are_counted_once() {
    let client = Client::new("drop 2\nrepeat 10 {\nlaunch k\n}", &[KERNEL]);
    assert_eq!(client.play().len(), 8);
    assert_eq!(client.dropped(), 2);
    assert_eq!(client.dropped(), 0);
    for buffers in [None, Some(64)] {
        client.provide_buffers(buffers);
        assert_eq!(client.play().len(), 8);
        assert_eq!(client.dropped(), 10);
    }
}

#[test]
fn a_buffer_with_an_unfinished_kernel_is_withheld() {
    let script = "part go {\nlaunch k unfinished\nlaunch k\n}\npart end {\nfinish\n}";
    let client = Client::new(script, &[KERNEL]);
    play("go");
    assert!(client.flush(0).is_empty(), "the finished kernel is in the withheld buffer");
    play("end");
    let all = client.flush(0);
    assert_eq!(correlations(&all), [1, 2]);
    assert!(span(&all[0]).1 > span(&all[0]).0);
}

#[test]
fn a_full_buffer_with_an_unfinished_kernel_is_withheld_too() {
    let script = "part go {\nlaunch k unfinished\nrepeat 40 {\nlaunch k\n}\n}\n\
        part end {\nfinish\n}";
    let client = Client::new(script, &[KERNEL]);
    play("go");
    // A buffer holds 18 records.
    assert_eq!(client.flush(0).len(), 41 - 18);
    play("end");
    assert_eq!(client.flush(0).len(), 41);
}

#[test]
fn a_forced_flush_delivers_an_unfinished_kernel_once() {
    let script = "part go {\nlaunch k unfinished\nlaunch k\n}\npart end {\nfinish\n}";
    let client = Client::new(script, &[KERNEL]);
    play("go");
    let all = client.flush(1);
    assert_eq!(correlations(&all), [1, 2]);
    assert_eq!((span(&all[0]).1, span(&all[1]).1 > 0), (0, true));
    play("end");
    assert_eq!(client.flush(1).len(), 2);
}

#[test]
fn with_a_buffer_per_thread_only_the_one_in_use_is_withheld() {
    for delivery in ["inline", "worker"] {
        let script = format!(
            "delivery {delivery}\nbuffers each-thread\n\
            part go {{\nlaunch k unfinished\nlaunch k\nthread {{\nlaunch other\n}}\n}}\n\
            part end {{\nfinish\n}}"
        );
        let client = Client::new(&script, &[KERNEL]);
        play("go");
        let other = client.flush(0);
        assert_eq!(other.iter().map(|k| k.text(104)).collect::<Vec<_>>(), ["other"]);
        play("end");
        assert_eq!(client.flush(0).len(), 3);
    }
}

#[test]
fn timestamps_may_be_missing_or_reversed() {
    let script = "launch k untimed\nlaunch k backwards duration 5\ncopy on-device 8 untimed\n\
        set 8 backwards duration 3";
    let client = Client::new(script, &[KERNEL, COPY, SET]);
    let records = client.play();
    let spans = records.iter().map(|record| {
        let (start, end) = span(record);
        i128::from(end) - i128::from(start)
    });
    assert_eq!(spans.collect::<Vec<_>>(), [0, -5, 0, -3]);
    assert_eq!(span(&records[0]), (0, 0));
    assert_eq!(span(&records[2]), (0, 0));
}

#[test]
fn another_tool_subscribes_until_it_leaves() {
    let script = "part come {\ntool subscribes\n}\npart leave {\ntool leaves\n}";
    let client = Client::new(script, &[]);
    play("come");
    assert_eq!(cuptiUnsubscribe(client.subscriber), 0);
    assert_eq!(client.subscribe_again(), 0, "the tool must not replace the subscriber");
    drop(client);
    let client = Client::new(script, &[]);
    assert_eq!(cuptiUnsubscribe(client.subscriber), 0);
    play("come");
    assert_eq!([0; 2].map(|_| client.subscribe_again()), [39; 2]);
    play("leave");
    assert_eq!(client.subscribe_again(), 0);
}

#[test]
fn the_worker_delivers_on_its_own_thread() {
    let script =
        "delivery worker\nrepeat 20000 {\nlaunch k duration 3\n}\nthread {\nlaunch other\n}";
    let client = Client::new(script, &[KERNEL]);
    let records = client.play();
    assert_eq!(records.len(), 20_001);
    let here = std::thread::current().id();
    assert!(records.iter().all(|record| record.thread != here));
    assert!(records[..20_000].iter().all(|kernel| span(kernel).1 - span(kernel).0 == 3));
}

#[test]
fn streams_run_concurrently() {
    let script =
        "call 0\nlaunch a duration 10\nlaunch b duration 10 gap 2\nlaunch c stream 9 duration 1";
    let client = Client::new(script, &[KERNEL]);
    let spans: Vec<_> = client.play().iter().map(span).collect();
    let start = 1_000_000_000;
    let expected = [(0, 10), (12, 22), (0, 1)].map(|(from, to)| (start + from, start + to));
    assert_eq!(spans, expected);
}

#[test]
fn a_graph_launch_is_one_call_and_a_record_per_node() {
    let script = "
        capture g {
            launch a duration 5
            copy on-device 64
        }
        graph g
        graph g";
    let client = Client::new(script, &[KERNEL, COPY]);
    let records = client.play();
    let callbacks = client.callbacks();
    let mut captured = 0;
    let first = client.graphs(13)[0];
    assert_eq!(cuptiGetGraphId(first[0], &mut captured), 0);
    let (mut graph, mut executable, mut node, mut original, mut source) = (0, 0, 0, 0, 0);
    let clone = client.graphs(20)[0];
    assert_eq!(cuptiGetGraphId(clone[0], &mut graph), 0);
    assert_eq!(cuptiGetGraphId(clone[1], &mut original), 0);
    assert_eq!(cuptiGetGraphNodeId(clone[2], &mut node), 0);
    assert_eq!(cuptiGetGraphNodeId(first[2], &mut source), 0);
    assert_eq!(cuptiGetGraphExecId(client.graphs(18)[0][4], &mut executable), 0);
    assert_eq!((captured, graph), (original, executable));
    assert_ne!(node, source);
    // A copied node is reported as created and as a clone of its original.
    let copied =
        callbacks.iter().filter(|callback| callback.domain == 3 && callback.graph[2] == clone[2]);
    assert_eq!(copied.map(|callback| callback.cbid).collect::<Vec<_>>(), [13, 20]);
    let launches: Vec<_> =
        callbacks.iter().filter(|t| t.cbid == 514 && t.site == 0).map(|t| t.correlation).collect();
    let kernels: Vec<_> = records.iter().filter(|r| r.kind() == KERNEL).collect();
    let of_kernels = kernels.iter().map(|k| (k.word(92), k.long(144), k.word(156)));
    let expected = launches.iter().map(|launch| (*launch, node, executable));
    assert!(of_kernels.eq(expected));
    assert_eq!(records.len(), 4);
}

#[test]
fn the_records_of_a_graph_may_omit_its_ids() {
    let script = "capture g {\nlaunch a\nlaunch b\n}\ngraph g without-ids stream 9";
    let client = Client::new(script, &[KERNEL]);
    let records = client.play();
    let ids: Vec<_> = records.iter().map(|k| (k.word(48), k.long(144), k.word(156))).collect();
    assert_eq!(ids, [(9, 0, 0); 2]);
    assert_eq!(records[0].word(92), records[1].word(92));
}

#[test]
fn a_destroyed_graph_reports_its_nodes_and_is_instantiated_again() {
    let script = "
        capture g {
            launch a
            launch b
        }
        graph g
        destroy g
        graph g";
    let client = Client::new(script, &[KERNEL]);
    let records = client.play();
    let nodes_of = |cbid| client.graphs(cbid).iter().map(|graph| graph[2]).collect::<Vec<_>>();
    let (destroyed, copies) = (nodes_of(14), nodes_of(20));
    assert_eq!((client.graphs(19).len(), destroyed.len(), copies.len()), (1, 2, 4));
    assert_eq!(destroyed, copies[..2]);
    let nodes: Vec<_> = records.iter().map(|kernel| kernel.long(144)).collect();
    assert_eq!(nodes.len(), 4);
    assert!(nodes[2..].iter().all(|node| !nodes[..2].contains(node)));
}

#[test]
fn a_graph_is_one_record_if_graph_trace_is_enabled() {
    let script = "call 0\ncapture g {\nlaunch a duration 5\nlaunch b duration 7\n}\ngraph g";
    let client = Client::new(script, &[KERNEL, GRAPH]);
    let records = client.play();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].kind(), GRAPH);
    assert_eq!(records[0].long(16) - records[0].long(8), 12);
}

#[test]
fn calls_fail_as_scripted() {
    let client = Client::new("fail cuptiActivityEnable 35 at 2\nfail cuptiGet* 999", &[]);
    assert_eq!(client.subscribe_again(), 39);
    assert_eq!(cuptiUnsubscribe(client.subscriber), 0);
    assert_eq!(client.subscribe_again(), 0);
    assert_eq!([0; 3].map(|_| cuptiActivityEnable(KERNEL)), [0, 35, 0]);
    assert_eq!(cuptiGetTimestamp(&mut 0), 999);
    assert_eq!(calls("cuptiActivityEnable"), 3);
}

#[test]
fn a_real_clock_has_the_scripted_error() {
    let client = Client::new("clock real offset 5000000000", &[]);
    let mut now = 0;
    assert_eq!(cuptiGetTimestamp(&mut now), 0);
    let real = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ahead = u128::from(now).abs_diff(real.as_nanos());
    assert!(ahead.abs_diff(5_000_000_000) < 1_000_000_000, "{ahead}");
    drop(client);
}

#[test]
fn syntax_errors_name_the_line() {
    let _turn = Client::new("", &[]);
    let wrong = [
        ("\nlaunch", "line 2: the kernel is missing"),
        ("launch k grid 1,2,3,4", "line 1: grid has more than three dimensions"),
        ("launch k wings 2", "line 1: unknown option \"wings\""),
        ("version 12", "line 1: the version must be one of [26, 28, 130001, 130500]"),
        ("repeat 2 {\nlaunch k", "line 1: the block is not closed"),
        ("sing", "line 1: unknown statement \"sing\""),
        ("pass 1 2", "line 1: unexpected word \"2\""),
        ("single-call {\npass 1\n}", "line 1: only operations can share a call"),
        ("mark \"a", "line 1: a quotation mark is not closed"),
    ];
    for (script, problem) in wrong {
        assert_eq!(load(script), Err(problem.to_owned()));
    }
}
